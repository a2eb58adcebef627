// All heads side by side: their patterns, how sharp they are, and one or two heads in detail.
import { useState } from "preact/hooks";
import { makeSymmetricScale } from "../colour";
import { formatNumber, roundUp } from "../format";
import { useApp, useDark, useLoaded, useTensor } from "../hooks";
import { Matrix } from "../matrix";
import {
  computeContributionNorms,
  findSpecialTokens,
  getHeadWeights,
  haveSameAxes,
  type HeadMeasures,
  makeMask,
  makePattern,
  measureHead,
  WIDE_KEYS,
} from "../measures";
import { type AttentionParts, describeSection, findTensorRow, listAttentions, listLabels } from "../network";
import { Loading, Menu, Missing, Value } from "../parts";
import { Sheet } from "../sheet";
import type { App } from "../state";
import type { Manifest } from "../types";
import { describeRole, findStudiedHead, HeadWorth, RolesLegend } from "./head_roles";

const WIDTH = 146; // CSS pixels of a thumbnail and its gap

/** A head of an attention, chosen by the reader. */
interface HeadChoice {
  section: string;
  head: number;
}

export function HeadsView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const [picked, setPicked] = useState<HeadChoice | null>(null);
  if (!manifest) return null;
  const attentions = listAttentions(manifest);
  const shown = attentions.find((parts) => parts.section === picked?.section);
  return (
    <div class="stack heads-body">
      <h2>All heads</h2>
      <p class="quiet">
        Rows attend to columns. Below each: its largest weight in a row and its entropy in nats, both averaged over the rows. Pick one to see
        what its weights carry, and to compare it with another head.
      </p>
      <RolesLegend />
      {picked && shown && picked.head < shown.heads && <OneHead app={app} manifest={manifest} parts={shown} head={picked.head} key={`${manifest.id} ${picked.section} ${picked.head}`} />}
      <div class="heads-grid" style={{ gridTemplateColumns: `repeat(auto-fill, minmax(min(100%, ${WIDTH * Math.max(1, ...attentions.map((parts) => parts.heads))}px), 1fr))` }}>
        {attentions.map((parts) => (
          <AttentionHeads manifest={manifest} parts={parts} picked={picked} onPick={setPicked} key={`${manifest.id} ${parts.section}`} />
        ))}
      </div>
    </div>
  );
}

interface AttentionHeadsProps {
  manifest: Manifest;
  parts: AttentionParts;
  picked: HeadChoice | null;
  onPick: (choice: HeadChoice) => void;
}

/** Shows the heads of one attention as thumbnails. */
function AttentionHeads({ manifest, parts, picked, onPick }: AttentionHeadsProps) {
  const app = useApp();
  const loaded = useTensor(parts.pattern);
  const measure = (head: number): HeadMeasures | null =>
    loaded.state === "ready" ? measureHead(makePattern(loaded.value.values, loaded.value.row.shape), head, findSpecialTokens(manifest, parts.keyDim)) : null;
  return (
    <section class="heads-of" aria-label={describeSection(parts.section)}>
      <h3>{describeSection(parts.section)}</h3>
      {loaded.state === "missing" && <Missing message={loaded.message} />}
      <div class="heads-thumbnails">
        {Array.from({ length: parts.heads }, (_, head) => (
          <button
            type="button"
            class="heads-thumbnail"
            aria-pressed={picked?.section === parts.section && picked.head === head}
            title={describeRole(findStudiedHead(app.headStudy.value, parts.section, head)).join("; ") || undefined}
            onClick={() => onPick({ section: parts.section, head })}
          >
            <Matrix tensor={parts.pattern} fixed={{ H: head }} bare />
            <HeadWorth section={parts.section} head={head} />
            <span class="unseen">{describeSection(parts.section)}, head</span>
            <HeadMeasureText head={head} numbers={measure(head)} />
          </button>
        ))}
      </div>
    </section>
  );
}

function HeadMeasureText({ head, numbers }: { head: number; numbers: HeadMeasures | null }) {
  return (
    <span class="heads-measured">
      <strong>{head + 1}</strong>
      {numbers && (
        <span>
          max <Value shown={numbers.largest.toFixed(2)} /> · H <Value shown={numbers.entropy.toFixed(2)} />
        </span>
      )}
    </span>
  );
}

interface OneHeadProps {
  app: App;
  manifest: Manifest;
  parts: AttentionParts;
  head: number;
}

function OneHead({ app, manifest, parts, head }: OneHeadProps) {
  const [other, setOther] = useState("");
  const others = listAttentions(manifest).filter((candidate) => haveSameAxes(candidate, parts));
  const choices = others.flatMap((parts) =>
    Array.from({ length: parts.heads }, (_, h) => ({ key: `${parts.section} ${h}`, parts, head: h })).filter(
      (choice) => choice.key !== `${parts.section} ${head}`,
    ),
  );
  const options = choices.map((choice) => [choice.key, `${describeSection(choice.parts.section)}, head ${choice.head + 1}`] as const);
  const second = choices.find((choice) => choice.key === other);
  return (
    <section class="panel stack" aria-label="The head picked">
      <header class="row">
        <h3>
          {describeSection(parts.section)}, head {head + 1}
        </h3>
        <button type="button" class="button" onClick={() => app.goTo({ view: "head", section: parts.section, head })}>
          Show how it is computed
        </button>
        <Menu label="Compare with" value={other} options={[["", "no other head"], ...options]} onPick={setOther} />
      </header>
      <div class={`row side-by-side${listLabels(manifest, parts.keyDim).length > WIDE_KEYS ? " side-by-side-wide" : ""}`}>
        <Matrix tensor={parts.pattern} fixed={{ H: head }} label="Weights" maxHeight={480} />
        {second ? (
          <>
            <Matrix
              tensor={second.parts.pattern}
              fixed={{ H: second.head }}
              label="Weights of the other head"
              maxHeight={480}
            />
            <DifferenceSheet manifest={manifest} first={{ parts, head }} second={second} />
          </>
        ) : (
          <ContributionSheet app={app} manifest={manifest} parts={parts} head={head} />
        )}
      </div>
      <SpecialTokenNote manifest={manifest} parts={parts} head={head} />
    </section>
  );
}

/** Says how much of the weight lies on special tokens. */
function SpecialTokenNote({ manifest, parts, head }: Omit<OneHeadProps, "app">) {
  const loaded = useTensor(parts.pattern);
  if (loaded.state !== "ready") return null;
  const pattern = makePattern(loaded.value.values, loaded.value.row.shape);
  const measures = measureHead(pattern, head, findSpecialTokens(manifest, parts.keyDim));
  const specialTokens = [...findSpecialTokens(manifest, parts.keyDim)].map((key) => listLabels(manifest, parts.keyDim)[key] ?? "").join(" ");
  return (
    <p class="quiet">
      <Value shown={formatNumber(measures.onSpecialTokens)} /> of the weight lies on {specialTokens} (mean over the rows). Much weight on a special token usually
      means that there is nothing relevant to read: look at what is carried, not at the weight. Weights say where a head reads, not what the model decided on;
      how much they explain is debated (Jain and Wallace 2019, Wiegreffe and Pinter 2019).
    </p>
  );
}

/** Shows the length of the vector that each key adds to each query; needs the values and the output matrix. */
function ContributionSheet({ app, manifest, parts, head }: OneHeadProps) {
  const dark = useDark();
  const output = findTensorRow(manifest, parts.output);
  const linear = output?.op.kind === "linear" ? output.op : null;
  const loaded = useLoaded(async () => {
    if (!linear) throw new Error("The output matrix of this attention is not in the manifest.");
    const outer = manifest.parameters.find((parameter) => parameter.name === linear.weight)?.shape[0] ?? 0;
    const [pattern, v, weight] = await Promise.all([app.loadTensor(parts.pattern), app.loadTensor(parts.v), app.loadParameter(linear.weight, 0, outer)]);
    return computeContributionNorms(makePattern(pattern.values, pattern.row.shape), head, v.values, v.row.shape.at(-1) ?? 0, weight.values);
  }, `${manifest.id} ${parts.section} ${head}`);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing message={`What the weights carry cannot be shown: ${loaded.message}`} />;
  const label = "What is carried: the length of weight × value × W_O";
  return <HeadSheet manifest={manifest} parts={parts} values={loaded.value} reach={roundUp(Math.max(...loaded.value))} dark={dark} label={label} positive />;
}

function DifferenceSheet({ manifest, first, second: other }: { manifest: Manifest; first: { parts: AttentionParts; head: number }; second: { parts: AttentionParts; head: number } }) {
  const dark = useDark();
  const [firstTensor, secondTensor] = [useTensor(first.parts.pattern), useTensor(other.parts.pattern)];
  if (firstTensor.state !== "ready" || secondTensor.state !== "ready") return <Loading />;
  const firstWeights = getHeadWeights(makePattern(firstTensor.value.values, firstTensor.value.row.shape), first.head);
  const secondWeights = getHeadWeights(makePattern(secondTensor.value.values, secondTensor.value.row.shape), other.head);
  const difference = firstWeights.map((weight, i) => weight - (secondWeights[i] ?? NaN));
  return <HeadSheet manifest={manifest} parts={first.parts} values={difference} reach={1} dark={dark} label="The first minus the second, −1 to 1" />;
}

interface HeadSheetProps {
  manifest: Manifest;
  parts: AttentionParts;
  values: Float32Array;
  reach: number;
  dark: boolean;
  label: string;
  positive?: boolean;
}

function HeadSheet({ manifest, parts, values, reach, dark, label, positive }: HeadSheetProps) {
  const allowed = useTensor(parts.allowed);
  const axis = (dim: string) => ({ dim, size: manifest.axes[dim]?.size ?? 0, labels: listLabels(manifest, dim) });
  const masked = makeMask(allowed.state === "ready" ? allowed.value.values : undefined, axis(parts.keyDim).size);
  const scale = positive ? { kind: "sequential" as const, least: 0, largest: reach, dark } : makeSymmetricScale(reach, dark);
  return <Sheet values={values} rows={axis(parts.queryDim)} cols={axis(parts.keyDim)} scale={scale} label={label} masked={masked} maxHeight={480} />;
}
