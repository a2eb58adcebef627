// The candidates of one step with their probabilities, as they are or as they would be drawn: sharpened or flattened, and cut.
import { useRef, useState } from "preact/hooks";
import { formatCount, formatNumber, formatProbability, formatQuantity, quotePiece } from "../format";
import { useApp, useTensor } from "../hooks";
import { computeDrawingChances, type Drawing, sumOf } from "../measures";
import { findLogits } from "../network";
import { Bars, Menu, Missing, Value } from "../parts";
import { useGrowingBars } from "../play_controls";
import type { Candidate, Manifest, Step } from "../types";

const FIRST_CANDIDATES = 8; // shown at first
const PLAIN: Drawing = { temperature: 1, topK: 0, topP: 1 };
const TOP_K_CHOICES = [0, 1, 2, 3, 5, 10, 20, 50, 100];

export function Candidates({ manifest, step }: { manifest: Manifest; step: Step }) {
  const app = useApp();
  const [showsAll, setShowsAll] = useState(false);
  const [drawing, setDrawing] = useState(PLAIN);
  const table = useRef<HTMLTableElement>(null);
  useGrowingBars(table, ".bars-bar");
  const logits = findLogits(manifest);
  const listed = showsAll ? step.top : step.top.slice(0, FIRST_CANDIDATES);
  const shown = listed.some((candidate) => candidate.id === step.chosen.id) ? listed : [...listed, step.chosen];
  const chances = useDrawingChances(logits?.captured ? logits.name : null, step.step, drawing);
  const getChance = (candidate: Candidate) => chances?.[candidate.id] ?? candidate.prob;
  const makeOpenCell = (id: number) => () => logits && app.goTo({ view: "cell", tensor: logits.name, index: [step.step, id] });
  const bars = shown.map((candidate) => ({
    label: candidate.piece,
    value: getChance(candidate),
    shown: getChance(candidate) === 0 ? "cut off" : formatProbability(getChance(candidate)),
    ...(candidate.id === step.chosen.id ? { mark: manifest.forced ? "given" : "written" } : {}),
    ...(logits?.captured ? { onOpen: makeOpenCell(candidate.id) } : {}),
  }));
  const pieces = step.top.length + step.others_count;
  const others = chances ? 1 - sumOf(shown.map(getChance)) : computeOthers(step, shown);
  const rest = { label: `the other ${formatCount(pieces - shown.length)}`, value: Math.max(0, others), shown: formatProbability(Math.max(0, others)) };
  return (
    <section class="panel stack" aria-label="What could come next">
      <h2>
        Step {step.step + 1} of {manifest.steps.length}: after {quotePiece(step.input)}
      </h2>
      <div data-subject="candidates">
        <Bars
          table={table}
          bars={[...bars, rest]}
          reach={1}
          caption={chances ? "Probability of each piece if it were drawn with these settings" : "Probability of the next piece: softmax of the logits as they are"}
        />
      </div>
      {step.top.length > FIRST_CANDIDATES && (
        <button type="button" class="button" aria-expanded={showsAll} onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? "Show the likeliest only" : `Show the likeliest ${step.top.length}`}
        </button>
      )}
      <p class="quiet">
        {quotePiece(step.chosen.piece)} is number {formatCount(step.rank)} of {formatCount(pieces)}; its logit is{" "}
        <Value shown={formatNumber(step.chosen.logit)} />. Entropy <Value shown={formatNumber(step.entropy)} /> nats: as open as a choice between{" "}
        <Value shown={formatNumber(Math.exp(step.entropy))} /> equally likely pieces.
        {step.rank > 1 && !manifest.forced ? " The beam chose it although another piece was likelier here, because of what came after." : ""}
      </p>
      {logits?.captured ? (
        <DrawingControls drawing={drawing} onChange={setDrawing} chances={chances} isSearched={manifest.tree !== null} />
      ) : (
        <Missing message="The logits were not captured, so temperature, top-k and top-p cannot be tried here." />
      )}
    </section>
  );
}

/** Computes the probability of all pieces that are not shown, from those that the trace has. */
function computeOthers(step: Step, shown: Candidate[]): number {
  const isShown = (candidate: Candidate) => shown.some((other) => other.id === candidate.id);
  const unlisted = sumOf(step.top.filter((candidate) => !isShown(candidate)).map((candidate) => candidate.prob));
  const isCounted = step.top.some((candidate) => candidate.id === step.chosen.id); // else it is one of the others
  return step.others + unlisted - (isCounted ? 0 : step.chosen.prob);
}

/** Computes the chances of all pieces at a step with these settings; null where they change nothing, or before the logits have come. */
function useDrawingChances(name: string | null, step: number, drawing: Drawing): Float64Array | null {
  const loaded = useTensor(name ?? ""); // before any setting is changed, so that the bars follow at once
  const isPlain = drawing.temperature === 1 && drawing.topK === 0 && drawing.topP === 1;
  if (isPlain || loaded.state !== "ready") return null;
  const width = loaded.value.row.shape.at(-1) ?? 0;
  return computeDrawingChances(loaded.value.values.subarray(step * width, (step + 1) * width), drawing);
}

function DrawingControls(props: { drawing: Drawing; onChange: (drawing: Drawing) => void; chances: Float64Array | null; isSearched: boolean }) {
  const { drawing, onChange, chances, isSearched } = props;
  const possible = chances?.filter((chance) => chance > 0);
  return (
    <fieldset class="drawing">
      <legend>If the piece were drawn by chance</legend>
      <Slider label="Temperature" step={0.1} largest={2} value={drawing.temperature} onPick={(temperature) => onChange({ ...drawing, temperature })} />
      <Menu
        label="Top-k"
        value={String(drawing.topK)}
        options={TOP_K_CHOICES.map((count) => [String(count), count === 0 ? "all pieces" : `the likeliest ${count}`])}
        onPick={(count) => onChange({ ...drawing, topK: Number(count) })}
      />
      <Slider label="Top-p" step={0.05} largest={1} value={drawing.topP} onPick={(topP) => onChange({ ...drawing, topP })} />
      <button type="button" class="button" disabled={drawing === PLAIN} onClick={() => onChange(PLAIN)}>
        As they are
      </button>
      <p class="quiet" role="status">
        {possible
          ? `${formatQuantity(possible.length, "piece")} can be drawn. `
          : "A temperature below 1 sharpens the probabilities, one above 1 flattens them; top-k and top-p cut off unlikely pieces. "}
        {isSearched ? "The translation above was found by beam search, not drawn." : ""}
      </p>
    </fieldset>
  );
}

/** Picks a number from one step to the largest. */
function Slider(props: { label: string; step: number; largest: number; value: number; onPick: (value: number) => void }) {
  const { label, step, largest, value, onPick } = props;
  return (
    <label>
      {label}{" "}
      <input type="range" min={step} max={largest} step={step} value={value} onInput={(event) => onPick(event.currentTarget.valueAsNumber)} /> {value}
    </label>
  );
}
