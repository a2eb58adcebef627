// Two traces side by side: their pieces with probabilities, and the difference of their patterns.
import { useState } from "preact/hooks";
import { type Baseline, getBaseline, measureDistance, saveBaseline } from "../baseline";
import { makeSymmetricScale, makeUnitScale } from "../colour";
import { describeDifference, describeEdit, pairSteps } from "../edits";
import { formatFixed, formatNumber, formatProbability } from "../format";
import { useApp, useTensor } from "../hooks";
import { getHeadWeights, makeMask, makePattern, WIDE_KEYS } from "../patterns";
import type { SheetAxis } from "../picture";
import { Sheet } from "../sheet";
import { type App, describeError } from "../state";
import { type AttentionParts, describeSection, findTensorRow, listAttentions, listLabels } from "../tensor_graph";
import { useDark } from "../theme";
import type { Manifest } from "../types";
import { Bars } from "./bars";
import { Loading, Missing, Value } from "./values";

export function CompareView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const before = getBaseline(app).value;
  if (!manifest) return null;
  return (
    <div class="stack compare-body">
      <header class="row">
        <h2>Two traces side by side</h2>
        <SaveButton app={app} baseline={before} manifest={manifest} />
      </header>
      {!before && <p>Keep this trace, then edit it, open another beam node or translate another sentence: the two are compared here.</p>}
      {before && before.manifest.id === manifest.id && <p>This trace is kept. Change something and come back.</p>}
      {before && before.manifest.id !== manifest.id && <Comparison before={before} after={manifest} key={`${before.manifest.id} ${manifest.id}`} />}
    </div>
  );
}

function SaveButton({ app, baseline, manifest }: { app: App; baseline: Baseline | null; manifest: Manifest }) {
  const save = () => saveBaseline(app).catch((error) => (app.problem.value = describeError(error)));
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
        <label>
          Attention{" "}
          <select value={section} onChange={(event) => setSection(event.currentTarget.value)}>
            {attentions.map((parts) => (
              <option value={parts.section}>{describeSection(parts.section)}</option>
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
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing message={loaded.message} />;
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
