// Two traces side by side: the one that is kept and the one that is shown, and the form that makes an edited one.
import { useState } from "preact/hooks";
import { makeSymmetricScale, makeUnitScale } from "../colour";
import { formatFixed, formatNumber, formatProbability, formatSigned, quotePiece } from "../format";
import { saveBaseline } from "../baseline";
import { useApp, useDark, usePreparedSource, useTensor } from "../hooks";
import { getHeadWeights, makeMask, makePattern, WIDE_KEYS } from "../measures";
import { type AttentionParts, describeSection, findTensorRow, listAttentions, listLabels, listWords } from "../network";
import { AttentionMenu, Bars, HeadMenu, Missing, NotReady, NumberMenu, Value } from "../parts";
import type { SheetAxis } from "../picture";
import { Sheet } from "../sheet";
import type { App, Baseline } from "../state";
import type { EditSpec, Manifest, Side } from "../types";
import { Rivals } from "./rivals";

export function CompareView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const before = app.baseline.value;
  usePreparedSource(app);
  if (!manifest) return null;
  return (
    <div class="stack compare-body">
      <header class="row">
        <h2>Two traces side by side</h2>
        <SaveButton app={app} baseline={before} manifest={manifest} />
      </header>
      {!before && <p>Keep this trace, then edit it, open another beam node or translate another sentence: the two are compared here.</p>}
      {!before && <Rivals manifest={manifest} />}
      {before && before.manifest.id === manifest.id && <p>This trace is kept. Change something and come back.</p>}
      {before && before.manifest.id !== manifest.id && <Comparison before={before} after={manifest} key={`${before.manifest.id} ${manifest.id}`} />}
    </div>
  );
}

function SaveButton({ app, baseline, manifest }: { app: App; baseline: Baseline | null; manifest: Manifest }) {
  const save = () => saveBaseline(app);
  return (
    <button type="button" class="button" disabled={baseline?.manifest.id === manifest.id} onClick={save}>
      Keep this trace for comparison
    </button>
  );
}

function Comparison({ before, after }: { before: Baseline; after: Manifest }) {
  return (
    <>
      <BeforeAfter before={before.manifest} after={after} />
      <Patterns before={before} after={after} />
    </>
  );
}

/** Lists the pieces of both runs, step by step, with their probabilities. */
export function BeforeAfter({ before, after }: { before: Manifest; after: Manifest }) {
  return (
    <section class="panel stack" aria-label="Before and after">
      <dl class="facts">
        <RunSummary name="Kept" manifest={before} />
        <RunSummary name="Shown now" manifest={after} />
      </dl>
      {before.source.text === after.source.text && <p>{describeDifference(before, after)}</p>}
      <div class="scroll">
        <table class="plain-table" aria-label="Both translations, step by step">
          <thead>
            <tr>
              <th scope="col">step</th>
              <th scope="col">kept</th>
              <th scope="col">p</th>
              <th scope="col">shown now</th>
              <th scope="col">p</th>
              <th scope="col">change of log p</th>
            </tr>
          </thead>
          <tbody>
            {pairSteps(before, after).map((pair) => {
              const isSame = pair.before?.piece === pair.after?.piece;
              return (
                <tr class={isSame ? undefined : "pieces-differ"}>
                  <th scope="row">{pair.step + 1}</th>
                  <td>{pair.before?.piece ?? "–"}</td>
                  <td class="mono">{pair.before ? <Value shown={formatProbability(pair.before.prob)} /> : "–"}</td>
                  <td>{pair.after?.piece ?? "–"}</td>
                  <td class="mono">{pair.after ? <Value shown={formatProbability(pair.after.prob)} /> : "–"}</td>
                  <td class="mono">
                    {isSame && pair.before && pair.after ? <Value shown={formatFixed(pair.after.log_prob - pair.before.log_prob)} /> : "another piece"}
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

function RunSummary({ name, manifest }: { name: string; manifest: Manifest }) {
  const edits = manifest.edits.map((edit) => describeEdit(edit, manifest.source)).join("; ");
  return (
    <>
      <dt>{name}</dt>
      <dd>
        {manifest.target.text} <span class="quiet">log P {formatNumber(manifest.log_prob)}{edits && `; ${edits}`}</span>
      </dd>
    </>
  );
}

function Patterns({ before, after }: { before: Baseline; after: Manifest }) {
  const attentions = listAttentions(after);
  const [section, setSection] = useState(attentions.at(-1)?.section ?? "");
  const [head, setHead] = useState(0);
  const parts = attentions.find((parts) => parts.section === section);
  if (!parts) return null;
  return (
    <section class="panel stack" aria-label="Patterns">
      <div class="row form-row">
        <AttentionMenu label="Attention" attentions={attentions} section={section} onSection={setSection} />
        <HeadMenu label="Head" heads={parts.heads} head={head} onHead={setHead} />
      </div>
      <PatternComparison before={before} after={after} parts={parts} head={head} onPick={setHead} />
    </section>
  );
}

interface PatternComparisonProps {
  before: Baseline;
  after: Manifest;
  parts: AttentionParts;
  head: number;
  onPick: (head: number) => void;
}

/** Shows a head before, after, and after minus before; all heads of the attention share the scale of the difference. */
function PatternComparison({ before, after, parts, head, onPick }: PatternComparisonProps) {
  const dark = useDark();
  const loaded = useTensor(parts.pattern);
  const allowed = useTensor(parts.allowed);
  const row = findTensorRow(before.manifest, parts.pattern);
  const oldValues = before.tensors.get(parts.pattern);
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  if (!row || !oldValues) return <Missing message={`${parts.pattern} was not captured in the kept trace.`} />;
  const [patternBefore, patternAfter] = [makePattern(oldValues, row.shape), makePattern(loaded.value.values, loaded.value.row.shape)];
  const [weightsBefore, weightsAfter] = [getHeadWeights(patternBefore, head), getHeadWeights(patternAfter, head)];
  const makeAxes = (manifest: Manifest): { rows: SheetAxis; cols: SheetAxis } => ({
    rows: makeAxis(manifest, parts.queryDim),
    cols: makeAxis(manifest, parts.keyDim),
  });
  const maskedBefore = makeMask(before.tensors.get(parts.allowed), patternBefore.keys);
  const maskedAfter = makeMask(allowed.state === "ready" ? allowed.value.values : undefined, patternAfter.keys);
  const isSameShape = oldValues.length === loaded.value.values.length && row.shape.join() === loaded.value.row.shape.join();
  const changes = Array.from({ length: patternAfter.heads }, (_, h) => (isSameShape ? measureDistance(getHeadWeights(patternBefore, h), getHeadWeights(patternAfter, h), patternAfter.queries) : NaN));
  const difference = isSameShape ? loaded.value.values.map((weight, i) => weight - (oldValues[i] ?? NaN)) : null;
  const reach = difference ? difference.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) : 1;
  return (
    <>
      <div class={`row side-by-side${patternAfter.keys > WIDE_KEYS ? " side-by-side-wide" : ""}`}>
        <Sheet values={weightsBefore} {...makeAxes(before.manifest)} scale={makeUnitScale(dark)} masked={maskedBefore} label="Kept" maxHeight={480} />
        <Sheet values={weightsAfter} {...makeAxes(after)} scale={makeUnitScale(dark)} masked={maskedAfter} label="Shown now" maxHeight={480} />
        {difference && (
          <Sheet values={getHeadWeights(makePattern(difference, row.shape), head)} {...makeAxes(after)} scale={makeSymmetricScale(reach, dark)} label="Now minus kept" masked={maskedBefore && maskedAfter && ((row, col) => maskedBefore(row, col) && maskedAfter(row, col))} maxHeight={480} />
        )}
      </div>
      {difference ? (
        <Bars
          reach={2}
          caption="How much each head changed: the sum of all differences in a row, averaged over the rows; at most 2"
          bars={changes.map((value, h) => ({ label: `head ${h + 1}`, value, shown: formatNumber(value), onOpen: () => onPick(h) }))}
        />
      ) : (
        <p class="quiet">The two have different numbers of pieces, so they cannot be subtracted cell by cell.</p>
      )}
    </>
  );
}

function makeAxis(manifest: Manifest, dim: string): SheetAxis {
  const labels = listLabels(manifest, dim);
  return { dim, size: labels.length, labels };
}

/** Repeats the run with words hidden or heads silenced; the unedited trace is kept for comparison. */
export function EditForm({ app, manifest }: { app: App; manifest: Manifest }) {
  const [edits, setEdits] = useState<EditSpec[]>(manifest.edits);
  const [keepTarget, setKeepTarget] = useState(true);
  if (!app.source.act) return <p class="quiet">Hiding words and silencing heads need the model: open it with “pellucid serve”.</p>;
  const rerun = async (requested: EditSpec[], keepsTarget: boolean) => {
    if (!manifest.edits.length && !(await saveBaseline(app))) return;
    await app.askSource("edit", { edits: requested, keep_target: keepsTarget });
  };
  const addEdit = (edit: EditSpec) => setEdits([...edits.filter((listed) => JSON.stringify(listed) !== JSON.stringify(edit)), edit]);
  return (
    <section class="panel stack" aria-label="Change the run">
      <h2>Change something and run again</h2>
      <div class="row form-row">
        <HideWord manifest={manifest} onAdd={addEdit} />
        <SilenceHead manifest={manifest} onAdd={addEdit} />
      </div>
      <ul class="edit-list">
        {edits.map((edit) => (
          <li>
            {describeEdit(edit, manifest.source)}{" "}
            <button type="button" class="button" onClick={() => setEdits(edits.filter((listed) => listed !== edit))}>
              Remove
            </button>
          </li>
        ))}
      </ul>
      <div class="row form-row">
        <label>
          <input type="checkbox" checked={keepTarget} onChange={(event) => setKeepTarget(event.currentTarget.checked)} /> keep the same
          translation instead of searching for a new one
        </label>
        <button type="button" class="button" disabled={!edits.length || app.busy.value !== null} onClick={() => rerun(edits, keepTarget)}>
          Run with {edits.length === 1 ? "this change" : "these changes"}
        </button>
        {manifest.edits.length > 0 && (
          <button type="button" class="button" disabled={app.busy.value !== null} onClick={() => rerun([], manifest.forced)}>
            Undo all changes
          </button>
        )}
      </div>
    </section>
  );
}

function HideWord({ manifest, onAdd }: { manifest: Manifest; onAdd: (edit: EditSpec) => void }) {
  const [word, setWord] = useState(0);
  return (
    <span class="row">
      <NumberMenu label="Hide the word" value={word} texts={listWords(manifest.source)} onPick={setWord} />
      <button type="button" class="button" onClick={() => onAdd({ kind: "hide", word })}>
        Add
      </button>
    </span>
  );
}

function SilenceHead({ manifest, onAdd }: { manifest: Manifest; onAdd: (edit: EditSpec) => void }) {
  const attentions = listAttentions(manifest);
  const [section, setSection] = useState(attentions.at(-1)?.section ?? "");
  const [head, setHead] = useState(0);
  const heads = attentions.find((parts) => parts.section === section)?.heads ?? 0;
  return (
    <span class="row">
      <AttentionMenu label="Silence in" attentions={attentions} section={section} onSection={setSection} />
      <HeadMenu label="head" heads={heads} head={head} onHead={setHead} />
      <button type="button" class="button" onClick={() => onAdd({ kind: "silence", attention: section, head })}>
        Add
      </button>
    </span>
  );
}

/** Measures the difference of two heads, averaged over their rows: 0 for equal weights, 2 for weights with nothing in common. */
export function measureDistance(first: Float32Array, second: Float32Array, queries: number): number {
  let sum = 0;
  first.forEach((value, i) => (sum += Math.abs(value - (second[i] ?? NaN))));
  return sum / Math.max(1, queries);
}

const PARTS_LEFT_OUT = {
  scaling: "scores are not divided by the root of the width of a head",
  positions: "there are no positions",
  mask: "there is no mask: each target position reads later ones too",
  residual: "there are no residual connections",
};

export function describeEdit(edit: EditSpec, source: Side): string {
  switch (edit.kind) {
    case "silence":
      return `${describeSection(edit.attention)}, head ${edit.head + 1} is silenced`;
    case "pattern":
      return `${describeSection(edit.attention)}, head ${edit.head + 1} reads with given weights in row ${edit.row}`;
    case "hide":
      return `the source word “${listWords(source)[edit.word] ?? edit.word}” is hidden`;
    case "prefix":
      return `the translation begins with “${edit.text}”`;
    case "without":
      return PARTS_LEFT_OUT[edit.part];
  }
}

interface StepPair {
  step: number;
  before: { piece: string; prob: number; log_prob: number } | null;
  after: { piece: string; prob: number; log_prob: number } | null;
}

/** Pairs the steps of two runs; null where one had already ended. */
export function pairSteps(before: Manifest, after: Manifest): StepPair[] {
  const length = Math.max(before.steps.length, after.steps.length);
  return Array.from({ length }, (_, step) => ({
    step,
    before: before.steps[step]?.chosen ?? null,
    after: after.steps[step]?.chosen ?? null,
  }));
}

/** Describes in a sentence how the second translation differs from the first. */
export function describeDifference(before: Manifest, after: Manifest): string {
  const change = formatSigned(after.log_prob - before.log_prob);
  if (before.target.ids.join() === after.target.ids.join()) return `The pieces are the same; log P changes by ${change}.`;
  const first = before.target.ids.findIndex((id, i) => id !== after.target.ids[i]);
  const firstChange = first < 0 ? before.target.ids.length : first;
  const [pieceBefore, pieceAfter] = [before.target.pieces[firstChange], after.target.pieces[firstChange]];
  const describePiece = (piece: string | undefined) => (piece === undefined ? "nothing more" : quotePiece(piece));
  return `They first differ at step ${firstChange + 1}: ${describePiece(pieceBefore)} before, ${describePiece(pieceAfter)} after; log P changes by ${change}.`;
}
