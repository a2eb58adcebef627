// Two traces beside each other: what each wrote and how surely, and the difference of their patterns on one scale.
import { useState } from "preact/hooks";
import { distance, keep, type Kept, keptOf } from "../baseline";
import { shares, symmetric } from "../colour";
import { differenceInWords, editInWords, pairsOf } from "../edits";
import { figure, fixed, probability } from "../format";
import { useApp, useTensor } from "../hooks";
import { maskedBy, patternOf, weightsOf, WIDE } from "../patterns";
import type { SheetAxis } from "../picture";
import { Sheet } from "../sheet";
import { type App, sentence } from "../state";
import { type AttentionParts, attentions, labelsOf, rowOf, sectionInWords } from "../tensor_graph";
import { useDark } from "../theme";
import type { Manifest } from "../types";
import { Bars } from "./bars";
import { Loading, Missing, Value } from "./values";

export function CompareView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const before = keptOf(app).value;
  if (!manifest) return null;
  return (
    <div class="stack compare-body">
      <header class="row">
        <h2>Two traces beside each other</h2>
        <KeepButton app={app} kept={before} manifest={manifest} />
      </header>
      {!before && <p>Put this trace aside, then edit it, open another beam node or translate another sentence: both are laid beside each other here.</p>}
      {before && before.manifest.id === manifest.id && <p>This trace is put aside. Change something, and come back.</p>}
      {before && before.manifest.id !== manifest.id && <Both before={before} after={manifest} key={`${before.manifest.id} ${manifest.id}`} />}
    </div>
  );
}

function KeepButton({ app, kept, manifest }: { app: App; kept: Kept | null; manifest: Manifest }) {
  const put = () => keep(app).catch((error) => (app.problem.value = sentence(error)));
  return (
    <button type="button" class="button" disabled={kept?.manifest.id === manifest.id} onClick={put}>
      Put this trace aside
    </button>
  );
}

function Both({ before, after }: { before: Kept; after: Manifest }) {
  return (
    <>
      <BeforeAfter before={before.manifest} after={after} />
      <Patterns before={before} after={after} />
    </>
  );
}

/** What either run wrote, step by step, with its probabilities. */
export function BeforeAfter({ before, after }: { before: Manifest; after: Manifest }) {
  return (
    <section class="panel stack" aria-label="Before and after">
      <dl class="facts">
        <Line name="Put aside" manifest={before} />
        <Line name="Shown now" manifest={after} />
      </dl>
      {before.source.text === after.source.text && <p>{differenceInWords(before, after)}</p>}
      <div class="scroll">
        <table class="plain-table" aria-label="Both translations, step by step">
          <thead>
            <tr>
              <th scope="col">step</th>
              <th scope="col">put aside</th>
              <th scope="col">p</th>
              <th scope="col">shown now</th>
              <th scope="col">p</th>
              <th scope="col">change of log p</th>
            </tr>
          </thead>
          <tbody>
            {pairsOf(before, after).map((pair) => {
              const same = pair.before?.piece === pair.after?.piece;
              return (
                <tr class={same ? undefined : "pieces-differ"}>
                  <th scope="row">{pair.step + 1}</th>
                  <td>{pair.before?.piece ?? "–"}</td>
                  <td class="mono">{pair.before ? <Value shown={probability(pair.before.prob)} /> : "–"}</td>
                  <td>{pair.after?.piece ?? "–"}</td>
                  <td class="mono">{pair.after ? <Value shown={probability(pair.after.prob)} /> : "–"}</td>
                  <td class="mono">
                    {same && pair.before && pair.after ? <Value shown={fixed(pair.after.log_prob - pair.before.log_prob)} /> : "another piece"}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Line({ name, manifest }: { name: string; manifest: Manifest }) {
  const edits = manifest.edits.map((edit) => editInWords(edit, manifest.source)).join("; ");
  return (
    <>
      <dt>{name}</dt>
      <dd>
        {manifest.target.text} <span class="quiet">log P {figure(manifest.log_prob)}{edits && `; ${edits}`}</span>
      </dd>
    </>
  );
}

function Patterns({ before, after }: { before: Kept; after: Manifest }) {
  const all = attentions(after);
  const [section, setSection] = useState(all.at(-1)?.section ?? "");
  const [head, setHead] = useState(0);
  const parts = all.find((each) => each.section === section);
  if (!parts) return null;
  return (
    <section class="panel stack" aria-label="Patterns">
      <div class="row form-row">
        <label>
          Attention{" "}
          <select value={section} onChange={(event) => setSection(event.currentTarget.value)}>
            {all.map((each) => (
              <option value={each.section}>{sectionInWords(each.section)}</option>
            ))}
          </select>
        </label>
        <label>
          Head{" "}
          <select value={String(head)} onChange={(event) => setHead(Number(event.currentTarget.value))}>
            {Array.from({ length: parts.heads }, (_, h) => (
              <option value={String(h)}>{h + 1}</option>
            ))}
          </select>
        </label>
      </div>
      <Three before={before} after={after} parts={parts} head={head} onPick={setHead} />
    </section>
  );
}

interface ThreeProps {
  before: Kept;
  after: Manifest;
  parts: AttentionParts;
  head: number;
  onPick: (head: number) => void;
}

/** The head before, after, and after minus before; the scale of the difference is that of all heads of this attention. */
function Three({ before, after, parts, head, onPick }: ThreeProps) {
  const dark = useDark();
  const loaded = useTensor(parts.pattern);
  const allowed = useTensor(parts.allowed);
  const row = rowOf(before.manifest, parts.pattern);
  const old = before.numbers.get(parts.pattern);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing says={loaded.says} />;
  if (!row || !old) return <Missing says={`${parts.pattern} was not captured in the trace put aside.`} />;
  const [one, other] = [patternOf(old, row.shape), patternOf(loaded.value.values, loaded.value.row.shape)];
  const [first, second] = [weightsOf(one, head), weightsOf(other, head)];
  const axes = (manifest: Manifest): { rows: SheetAxis; cols: SheetAxis } => ({
    rows: axisOf(manifest, parts.reader),
    cols: axisOf(manifest, parts.read),
  });
  const then = maskedBy(before.numbers.get(parts.allowed), one.keys);
  const now = maskedBy(allowed.state === "ready" ? allowed.value.values : undefined, other.keys);
  const fits = old.length === loaded.value.values.length && row.shape.join() === loaded.value.row.shape.join();
  const changes = Array.from({ length: other.heads }, (_, h) => (fits ? distance(weightsOf(one, h), weightsOf(other, h), other.queries) : NaN));
  const all = fits ? loaded.value.values.map((weight, i) => weight - (old[i] ?? NaN)) : null;
  const reach = all ? all.reduce((most, value) => Math.max(most, Math.abs(value)), 0) : 1;
  return (
    <>
      <div class={`row side-by-side${other.keys > WIDE ? " side-by-side-wide" : ""}`}>
        <Sheet values={first} {...axes(before.manifest)} scale={shares(dark)} masked={then} label="Put aside" maxHeight={480} />
        <Sheet values={second} {...axes(after)} scale={shares(dark)} masked={now} label="Shown now" maxHeight={480} />
        {all && (
          <Sheet values={weightsOf(patternOf(all, row.shape), head)} {...axes(after)} scale={symmetric(reach, dark)} label="Now minus then" masked={then && now && ((row, col) => then(row, col) && now(row, col))} maxHeight={480} />
        )}
      </div>
      {all ? (
        <Bars
          reach={2}
          caption="How much each head changed: the sum of all differences of a row, in the mean; 2 would be everything"
          bars={changes.map((value, h) => ({ label: `head ${h + 1}`, value, shown: figure(value), onOpen: () => onPick(h) }))}
        />
      ) : (
        <p class="quiet">The two have different numbers of pieces, so no difference can be taken number by number.</p>
      )}
    </>
  );
}

function axisOf(manifest: Manifest, dim: string): SheetAxis {
  const labels = labelsOf(manifest, dim);
  return { dim, size: labels.length, labels };
}
