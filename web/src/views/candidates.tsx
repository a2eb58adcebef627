// The candidates of one step with their probabilities, as they are or as they would be drawn: sharpened or flattened, and cut.
import { useEffect, useRef, useState } from "preact/hooks";
import { saveBaseline } from "../baseline";
import { formatCount, formatNumber, formatProbability, formatQuantity, quotePiece } from "../format";
import { useApp, usePreparedSource, useTensor } from "../hooks";
import { computeDrawingChances, sumOf } from "../measures";
import { findLogits, nameSentence } from "../network";
import { Bars, Menu, Missing, Value } from "../parts";
import { useGrowth } from "../play_controls";
import { traceAgain } from "../permalink";
import { markSpot } from "../spots";
import { type App, PLAIN_DRAWING } from "../state";
import type { Candidate, Drawing, Manifest, Step } from "../types";

const FIRST_CANDIDATES = 8; // shown at first
const TOP_K_CHOICES = [0, 1, 2, 3, 5, 10, 20, 50, 100];

export function Candidates({ manifest, step }: { manifest: Manifest; step: Step }) {
  const app = useApp();
  const [showsAll, setShowsAll] = useState(false);
  const drawing = app.drawing.value;
  const table = useRef<HTMLTableElement>(null);
  useGrowth(table, ".bars-mark, .value-shown", ".bars-bar");
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
    spot: markSpot(app, "probability", candidate.id),
    beside: (
      <span {...markSpot(app, "logit", candidate.id)}>
        <Value shown={formatNumber(candidate.logit)} exact={String(candidate.logit)} />
      </span>
    ),
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
          caption={chances ? "The next piece: its logit, and its probability if it were drawn with these settings" : "The next piece: its logit, and its probability by softmax of all logits as they are"}
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
        {step.rank > 1 && manifest.tree ? " The beam chose it although another piece was likelier here, because of what came after." : ""}
      </p>
      <WhatIf app={app} manifest={manifest} written={spellPieces(manifest.target.pieces.slice(0, step.step))} />
      {logits?.captured ? (
        <DrawingControls app={app} manifest={manifest} chances={chances} />
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

/** Tells whether a drawing is by the probabilities as they are, whatever its seed. */
function isPlain({ temperature, top_k, top_p }: Drawing): boolean {
  return temperature === 1 && top_k === 0 && top_p === 1;
}

/** Computes the chances of all pieces at a step with these settings; null where they change nothing, or before the logits have come. */
function useDrawingChances(name: string | null, step: number, drawing: Drawing): Float64Array | null {
  const loaded = useTensor(name ?? ""); // before any setting is changed, so that the bars follow at once
  if (isPlain(drawing) || loaded.state !== "ready") return null;
  const width = loaded.value.row.shape.at(-1) ?? 0;
  return computeDrawingChances(loaded.value.values.subarray(step * width, (step + 1) * width), drawing);
}

function DrawingControls({ app, manifest, chances }: { app: App; manifest: Manifest; chances: Float64Array | null }) {
  const drawing = app.drawing.value;
  const change = (changed: Partial<Drawing>) => (app.drawing.value = { ...drawing, ...changed });
  const possible = chances?.filter((chance) => chance > 0);
  return (
    <fieldset class="drawing">
      <legend>If the piece were drawn by chance</legend>
      <Slider label="Temperature" step={0.1} largest={2} value={drawing.temperature} onPick={(temperature) => change({ temperature })} />
      <Menu
        label="Top-k"
        value={String(drawing.top_k)}
        options={TOP_K_CHOICES.map((count) => [String(count), count === 0 ? "all pieces" : `the likeliest ${count}`])}
        onPick={(count) => change({ top_k: Number(count) })}
      />
      <Slider label="Top-p" step={0.05} largest={1} value={drawing.top_p} onPick={(top_p) => change({ top_p })} />
      <button type="button" class="button" disabled={isPlain(drawing)} onClick={() => (app.drawing.value = PLAIN_DRAWING)}>
        As they are
      </button>
      <p class="quiet" role="status">
        {possible
          ? `${formatQuantity(possible.length, "piece")} can be drawn. `
          : "A temperature below 1 sharpens the probabilities, one above 1 flattens them; top-k and top-p cut off unlikely pieces. "}
        {manifest.tree ? "The translation above was found by beam search, not drawn." : ""}
      </p>
      <DrawnTranslation app={app} manifest={manifest} />
    </fieldset>
  );
}

/** Draws a whole translation with the settings shown, another with each press; that of the search is kept to be compared. */
function DrawnTranslation({ app, manifest }: { app: App; manifest: Manifest }) {
  const before = app.baseline.value?.manifest;
  const isDrawn = manifest.run.search.method === "sample";
  if (!app.source.act) return <p class="quiet">This is a file; to draw a translation, open the model with “pellucid serve”.</p>;
  const draw = async () => {
    if (!isDrawn) await saveBaseline(app);
    const drawing = { ...app.drawing.value, seed: app.drawing.value.seed + 1 };
    app.drawing.value = drawing;
    await app.askSource("trace", { ...nameSentence(manifest), drawing });
  };
  return (
    <p class="drawn-translation">
      <button type="button" class="button" disabled={app.busy.value !== null} onClick={draw}>
        {isDrawn ? "Draw another translation" : "Draw a translation"}
      </button>{" "}
      {isDrawn && before?.sentence === manifest.sentence && (
        <>
          Drawn: <b>{manifest.target.text || "an empty translation"}</b>, log P <Value shown={formatNumber(manifest.log_prob)} />. Found by the search:{" "}
          <b>{before.target.text}</b>, log P <Value shown={formatNumber(before.log_prob)} />.{" "}
          <button type="button" class="link" disabled={app.busy.value !== null} onClick={() => void traceAgain(app, before)}>
            back to it
          </button>
        </>
      )}
    </p>
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

/** Joins pieces into the text that they spell. */
export function spellPieces(pieces: string[]): string {
  return pieces.join("").replaceAll("\u2581", " ").trim();
}

/** Asks for another beginning of the translation; `written` is offered to be changed. */
export function WhatIf({ app, manifest, written }: { app: App; manifest: Manifest; written: string }) {
  const [text, setText] = useState(written && `${written} `);
  useEffect(() => setText(written && `${written} `), [written]);
  usePreparedSource(app);
  if (!app.source.act) return null;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!text.trim()) return;
    const others = manifest.edits.filter((edit) => edit.kind !== "prefix");
    if (others.length === manifest.edits.length) await saveBaseline(app);
    await app.askSource("edit", { edits: [...others, { kind: "prefix", text: text.trim() }], keep_target: false });
  };
  return (
    <form class="row what-if" onSubmit={submit}>
      <label>
        What if it had written{" "}
        <input type="text" value={text} placeholder="another beginning" lang={manifest.languages?.target} autocomplete="off" spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="button" disabled={app.busy.value !== null || !text.trim()}>
        Go on from there
      </button>
    </form>
  );
}
