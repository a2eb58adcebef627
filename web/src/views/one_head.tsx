// One head looked at closely: its weights, what they carry, and the difference to another head.
import { useState } from "preact/hooks";
import { symmetric } from "../colour";
import { figure, roundedUp } from "../format";
import { useLoaded, useTensor } from "../hooks";
import { Matrix } from "../matrix";
import { carried, comparable, marksOf, maskedBy, numbersOf, patternOf, weightsOf, WIDE } from "../patterns";
import { Sheet } from "../sheet";
import type { App } from "../state";
import { type AttentionParts, attentions, labelsOf, rowOf, sectionInWords } from "../tensor_graph";
import { useDark } from "../theme";
import type { Manifest } from "../types";
import { Loading, Missing, Value } from "./values";

interface OneHeadProps {
  app: App;
  manifest: Manifest;
  parts: AttentionParts;
  head: number;
}

export function OneHead({ app, manifest, parts, head }: OneHeadProps) {
  const [other, setOther] = useState("");
  const others = attentions(manifest).filter((each) => comparable(each, parts));
  const choices = others.flatMap((each) =>
    Array.from({ length: each.heads }, (_, h) => ({ key: `${each.section} ${h}`, parts: each, head: h })).filter(
      (choice) => choice.key !== `${parts.section} ${head}`,
    ),
  );
  const second = choices.find((choice) => choice.key === other);
  return (
    <section class="panel stack" aria-label="The head picked">
      <header class="row">
        <h3>
          {sectionInWords(parts.section)}, head {head + 1}
        </h3>
        <button type="button" class="button" onClick={() => app.go({ view: "head", section: parts.section, head })}>
          Open how it is computed
        </button>
        <label>
          Compare with{" "}
          <select value={other} onChange={(event) => setOther(event.currentTarget.value)}>
            <option value="">no other head</option>
            {choices.map((choice) => (
              <option value={choice.key}>
                {sectionInWords(choice.parts.section)}, head {choice.head + 1}
              </option>
            ))}
          </select>
        </label>
      </header>
      <div class={`row side-by-side${labelsOf(manifest, parts.read).length > WIDE ? " side-by-side-wide" : ""}`}>
        <Matrix tensor={parts.pattern} take={{ H: head }} label="Weights" maxHeight={480} />
        {second ? (
          <>
            <Matrix
              tensor={second.parts.pattern}
              take={{ H: second.head }}
              label="Weights of the other head"
              maxHeight={480}
            />
            <Difference manifest={manifest} one={{ parts, head }} other={second} />
          </>
        ) : (
          <Carried app={app} manifest={manifest} parts={parts} head={head} />
        )}
      </div>
      <Sink manifest={manifest} parts={parts} head={head} />
    </section>
  );
}

/** A sentence on weight that lies on marks, with its size. */
function Sink({ manifest, parts, head }: Omit<OneHeadProps, "app">) {
  const loaded = useTensor(parts.pattern);
  if (loaded.state !== "ready") return null;
  const pattern = patternOf(loaded.value.values, loaded.value.row.shape);
  const numbers = numbersOf(pattern, head, marksOf(manifest, parts.read));
  const marks = [...marksOf(manifest, parts.read)].map((key) => labelsOf(manifest, parts.read)[key] ?? "").join(" ");
  return (
    <p class="quiet">
      <Value shown={figure(numbers.onMarks)} /> of the weight lies on {marks} (mean over the rows). Much weight on a mark usually means that
      there is nothing to fetch: look at what is carried, not at the weight. Weights say where a head reads, not what the model decided on;
      how much they explain is debated (Jain and Wallace 2019, Wiegreffe and Pinter 2019).
    </p>
  );
}

/** How much each weight moves the stream; needs the values and the output matrix. */
function Carried({ app, manifest, parts, head }: OneHeadProps) {
  const dark = useDark();
  const output = rowOf(manifest, parts.output);
  const linear = output?.op.kind === "linear" ? output.op : null;
  const loaded = useLoaded(async () => {
    if (!linear) throw new Error("The output matrix of this attention is not in the manifest.");
    const outer = manifest.parameters.find((each) => each.name === linear.weight)?.shape[0] ?? 0;
    const [pattern, v, weight] = await Promise.all([app.tensor(parts.pattern), app.tensor(parts.v), app.parameter(linear.weight, 0, outer)]);
    return carried(patternOf(pattern.values, pattern.row.shape), head, v.values, v.row.shape.at(-1) ?? 0, weight.values);
  }, `${manifest.id} ${parts.section} ${head}`);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing says={`What the weights carry cannot be shown: ${loaded.says}`} />;
  const label = "What is carried: the length of weight × value × W_O";
  return <HeadSheet manifest={manifest} parts={parts} values={loaded.value} reach={roundedUp(Math.max(...loaded.value))} dark={dark} label={label} positive />;
}

function Difference({ manifest, one, other }: { manifest: Manifest; one: { parts: AttentionParts; head: number }; other: { parts: AttentionParts; head: number } }) {
  const dark = useDark();
  const [first, second] = [useTensor(one.parts.pattern), useTensor(other.parts.pattern)];
  if (first.state !== "ready" || second.state !== "ready") return <Loading />;
  const a = weightsOf(patternOf(first.value.values, first.value.row.shape), one.head);
  const b = weightsOf(patternOf(second.value.values, second.value.row.shape), other.head);
  const difference = a.map((weight, i) => weight - (b[i] ?? NaN));
  return <HeadSheet manifest={manifest} parts={one.parts} values={difference} reach={1} dark={dark} label="The first minus the second, −1 to 1" />;
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
  const axis = (dim: string) => ({ dim, size: manifest.axes[dim]?.size ?? 0, labels: labelsOf(manifest, dim) });
  const masked = maskedBy(allowed.state === "ready" ? allowed.value.values : undefined, axis(parts.read).size);
  const scale = positive ? { kind: "sequential" as const, least: 0, largest: reach, dark } : symmetric(reach, dark);
  return <Sheet values={values} rows={axis(parts.reader)} cols={axis(parts.read)} scale={scale} label={label} masked={masked} maxHeight={480} />;
}
