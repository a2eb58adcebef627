// The story: fourteen stops from the sentence to its translation, one at a time, beside the picture it explains.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { RichText } from "../format";
import { useApp, useLoaded } from "../hooks";
import { display, fraction, line, makeFormula, over, power, root } from "../mathml";
import { type AttentionParts, describeSection, findTensorRow, getSection, listWords } from "../network";
import { Missing, RichTextSpan } from "../parts";
import type { App, Place } from "../state";
import {
  findStoryParts,
  makeFeedForwardFormula,
  makePositionFormula,
  findStoryKey,
  STORY_TEXTS,
  type StoryReader,
} from "../story_texts";
import type { Code, Manifest, TensorRow } from "../types";
import { type LeftOut, WithoutIt } from "./without_it";

export function StoryView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const number = app.story.value;
  if (!manifest || number === null) return null;
  return <StopPanel app={app} manifest={manifest} number={number} />;
}

/** Chooses the source piece of the story: the followed one, else the second of the sentence, which is rarely an article. */
function chooseStoryPiece(app: App, manifest: Manifest): number {
  const follow = app.followed.value;
  if (follow?.dim === "S") return follow.index;
  return Math.min((manifest.source.context ?? 0) + 1, manifest.source.pieces.length - 1);
}

function StopPanel({ app, manifest, number }: { app: App; manifest: Manifest; number: number }) {
  const piece = chooseStoryPiece(app, manifest);
  const step = app.step.value;
  const stops = makeStory(manifest, piece, app.source.act !== undefined);
  const stop = stops[number - 1];
  const panel = useRef<HTMLElement>(null);
  const shown = useRef<number | null>(null);
  const isElsewhere = stop !== undefined && isAwayFrom(app.place.value, stop);
  useEffect(() => {
    // A link names its own place, so the story moves the picture only when it begins, goes on or takes another piece.
    const isLinked = shown.current === null && number !== 1;
    if (stop && !isLinked && (shown.current !== number || !isElsewhere)) visitStop(app, manifest, stop);
    shown.current = number;
  }, [number, piece, manifest.id]);
  const reader = { piece, step, readValues: async (name: string) => (await app.loadTensor(name)).values };
  useEffect(() => {
    let isCurrent = true;
    const isLinked = app.place.value.col !== undefined;
    if (stop && !isElsewhere && !isLinked)
      stop.findKey(reader).then(
        (col) => isCurrent && col !== undefined && app.pointAt({ col }),
        () => undefined, // the text says what was not captured
      );
    return () => {
      isCurrent = false;
    };
  }, [number, piece, step, manifest.id, isElsewhere]);
  useEffect(() => {
    app.subjects.value = stop?.subjects ?? [];
    const root = panel.current?.closest<HTMLElement>(".pellucid");
    if (root && stop && !isElsewhere && app.host !== "widget") return keepInView(root, stop.subjects);
  }, [number, piece, manifest.id, isElsewhere]);
  useEffect(() => () => void (app.subjects.value = []), []);
  if (!stop) return null;
  return (
    <section ref={panel} class="panel story-panel" aria-label={`Story, stop ${number} of ${STOP_COUNT}`}>
      <header class="row">
        <span class="quiet">
          Story {number} of {STOP_COUNT}
        </span>
        <button type="button" class="button story-leave" onClick={() => (app.story.value = null)}>
          Leave
        </button>
      </header>
      <h2 tabIndex={-1}>{stop.title}</h2>
      <StopText app={app} stop={stop} piece={piece} step={step} traceKey={`${manifest.id} ${number}`} />
      {stop.leftOut && <WithoutIt key={number} app={app} manifest={manifest} leftOut={stop.leftOut} />}
      {app.code.value && stop.formula}
      {app.code.value && stop.tensor?.code && <SourceLine code={stop.tensor.code} name={stop.tensor.name} />}
      <p class="story-try">
        <strong>Try:</strong> {stop.suggestion}
      </p>
      {isElsewhere && (
        <button type="button" class="button" onClick={() => visitStop(app, manifest, stop)}>
          Show this stop again
        </button>
      )}
      <StopNavigation app={app} stops={stops} number={number} />
    </section>
  );
}

/** Tells whether another picture is shown than that of a stop. */
function isAwayFrom(place: Place, stop: StoryStop): boolean {
  return stop.place.view !== place.view || (stop.place.section !== undefined && stop.place.section !== place.section);
}

/** Moves the picture to a stop, and closes what an earlier place had opened. */
function visitStop(app: App, manifest: Manifest, stop: StoryStop): void {
  const closed = { section: undefined, tensor: undefined, head: undefined, row: undefined, col: undefined, index: undefined };
  if (stop.isTimedLater && app.step.value === 0) app.step.value = Math.min(2, manifest.steps.length - 1);
  app.goTo({ ...closed, ...stop.place });
}

const SETTLING = 2500; // milliseconds in which numbers arrive and move what is below them

/** Scrolls until what the story speaks of can be seen, also while numbers arrive, and until the reader scrolls; gives back how to stop. */
function keepInView(root: HTMLElement, subjects: readonly string[]): () => void {
  const centre = root.querySelector(".centre");
  if (!centre) return () => undefined;
  const observer = new ResizeObserver(() => scrollToSubjects(root, subjects));
  const events = ["wheel", "touchmove", "pointerdown"] as const;
  const stop = () => {
    observer.disconnect();
    clearTimeout(wait);
    for (const event of events) root.removeEventListener(event, stop);
  };
  const wait = setTimeout(stop, SETTLING);
  for (const event of events) root.addEventListener(event, stop, { passive: true });
  observer.observe(centre);
  for (const element of centre.querySelectorAll(".view")) observer.observe(element);
  return stop;
}

const MARGIN = 12; // pixels around what is scrolled to

/** Scrolls the page so that the first subject is wholly in view, with as many of the others as fit above a story at the lower edge. */
function scrollToSubjects(root: HTMLElement, subjects: readonly string[]): void {
  const elements = subjects.flatMap((name) => root.querySelector(`[data-subject="${CSS.escape(name)}"]`) ?? []);
  const boxes = elements.map((element) => element.getBoundingClientRect());
  const [first] = boxes;
  if (!first) return;
  // A product that is wider than the window is scrolled sideways within its own frame.
  const frame = elements[0]?.closest(".product");
  if (frame) frame.scrollLeft += Math.max(0, first.right - frame.getBoundingClientRect().right);
  const story = root.querySelector<HTMLElement>(".story");
  const isBelow = story !== null && getComputedStyle(story).position === "sticky" && story.offsetWidth > 0.9 * root.clientWidth;
  const room = innerHeight - (isBelow ? story.offsetHeight : 0);
  let { top, bottom } = first;
  for (const box of boxes) {
    const [higher, lower] = [Math.min(top, box.top), Math.max(bottom, box.bottom)];
    if (lower - higher + 2 * MARGIN <= room) [top, bottom] = [higher, lower];
  }
  if (top >= MARGIN && bottom <= room - MARGIN) return;
  const goal = bottom - top + 2 * MARGIN > room ? MARGIN : (room - (bottom - top)) / 2;
  scrollBy({ top: top - goal, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth" });
}

function StopText({ app, stop, piece, step, traceKey }: { app: App; stop: StoryStop; piece: number; step: number; traceKey: string }) {
  const readValues = async (name: string) => (await app.loadTensor(name)).values;
  const loaded = useLoaded(() => stop.writeText({ piece, step, readValues }), `${traceKey} ${piece} ${step}`);
  const hint = app.host === "file" ? " A file written by “pellucid explain … --html FILE --keep float16” has these numbers." : "";
  if (loaded.state === "missing") return <Missing message={loaded.message + hint} />;
  return (
    <p class="story-text" aria-live="polite">
      {loaded.state === "ready" ? <RichTextSpan text={loaded.value} /> : "\u00a0"}
    </p>
  );
}

/** Shows the installed source line that computed the numbers. */
export function SourceLine({ code, name }: { code: Code; name: string }) {
  return (
    <figure class="source-line">
      <figcaption class="quiet">
        {name} is made in {code.file}, line {code.line}:
      </figcaption>
      <pre>
        <code>
          {code.before?.map((text) => <span class="statement quiet">{text}</span>)}
          <mark class="statement">{code.text.trim()}</mark>
        </code>
      </pre>
    </figure>
  );
}

function StopNavigation({ app, stops, number }: { app: App; stops: StoryStop[]; number: number }) {
  const moveTo = (next: number) => (app.story.value = Math.min(STOP_COUNT, Math.max(1, next)));
  return (
    <nav class="story-stops" aria-label="Stops of the story">
      <button type="button" class="button" disabled={number === 1} onClick={() => moveTo(number - 1)} aria-keyshortcuts="PageUp">
        ← Back
      </button>
      <ol>
        {stops.map((stop, i) => (
          <li key={stop.title}>
            <button
              type="button"
              title={stop.title}
              aria-label={`Stop ${i + 1}: ${stop.title}`}
              aria-current={i + 1 === number ? "step" : undefined}
              onClick={() => moveTo(i + 1)}
            >
              {i + 1}
            </button>
          </li>
        ))}
      </ol>
      <button type="button" class="button story-next" disabled={number === STOP_COUNT} onClick={() => moveTo(number + 1)} aria-keyshortcuts="PageDown">
        Next →
      </button>
    </nav>
  );
}

export const STOP_COUNT = 14;

/** One stop of the story: place, text, formula, and something to try. */
interface StoryStop {
  title: string;
  place: Place;
  /** True where a later step than the first explains it better: before the first, nothing is written. */
  isTimedLater: boolean;
  /** Tensor whose installed source line is shown; null where what is spoken of is not computed by the model. */
  tensor: TensorRow | null;
  formula: JSX.Element;
  writeText(reader: StoryReader): Promise<RichText>;
  suggestion: string;
  /** What the stop speaks of, the most important first: names of tensors, or of parts of a view. */
  subjects: string[];
  /** What this sentence can be translated without, to see what the stop is for. */
  leftOut: LeftOut | null;
  /** Finds the key that the text names; undefined where it names none. */
  findKey(reader: StoryReader): Promise<number | undefined>;
}

/** Makes the fourteen stops for the source piece that is looked at. */
export function makeStory(manifest: Manifest, piece: number, canAct: boolean): StoryStop[] {
  const story = findStoryParts(manifest);
  const findRow = (name: string | undefined) => (name === undefined ? null : (findTensorRow(manifest, name) ?? null));
  const placeHead = (parts: AttentionParts | null): Place =>
    parts ? { view: "head", section: parts.section, head: 0, ...(parts.queryDim === "S" && { row: piece }) } : { view: "map" };
  const placeCell = (tensor: TensorRow | null, ...index: number[]): Place =>
    tensor ? { view: "cell", tensor: tensor.name, index } : { view: "map" };
  const { encoderSelf, decoderSelf, cross } = story;
  const width = findRow(encoderSelf?.q)?.shape.at(-1) ?? 0;
  const word = manifest.source.words[piece] ?? null;
  const makeStop = (
    title: string,
    place: Place,
    subjects: (string | undefined)[],
    tensor: TensorRow | null,
    formula: JSX.Element,
    text: keyof typeof STORY_TEXTS,
    suggestion: string,
    leftOut: LeftOut | null = null,
  ): StoryStop => ({
    leftOut,
    title,
    place,
    subjects: subjects.filter((name) => name !== undefined),
    isTimedLater: text === "mask" || text === "crossing" || text === "logits",
    tensor,
    formula,
    writeText: (reader) => STORY_TEXTS[text](story, reader),
    findKey: (reader) => findStoryKey(text, story, reader),
    suggestion,
  });
  return [
    makeStop(
      "A sentence comes in",
      { view: "map" },
      ["translation"],
      story.logits,
      display(line("P ( y | x ) =", over("∏", "t"), "P ( y_t | y_{<t} , x )")),
      "sentence",
      canAct
        ? "Press / and type a sentence of your own; everything here is then computed again."
        : "This is a file with one sentence; to type your own, open the model with pellucid serve.",
    ),
    makeStop(
      "Cut into pieces",
      { view: "tokens" },
      ["pieces"],
      null,
      display('"sentence" → "pieces" → "ids"'),
      "pieces",
      "Click a piece: it stays outlined in every picture until you press Esc.",
    ),
    makeStop(
      "Each id picks a vector",
      placeCell(story.embedding, piece, 0),
      ["cell"],
      story.embedding,
      story.embedding ? makeFormula(story.embedding.op) : display("x_p = table [ id_p ]"),
      "embedding",
      "Go to the next numbers of the vector with the right arrow key, or click a number to see where it comes from.",
    ),
    makeStop(
      "Where it stands",
      story.positions ? { view: "positions" } : story.rotatedQueries ? placeCell(story.rotatedQueries, 0, piece, 0) : { view: "map" },
      [story.positions?.name ?? "cell"],
      story.positions ?? story.rotatedQueries,
      makePositionFormula(story),
      "positions",
      story.positions
        ? "Look below at how alike two positions are: neighbours are, and two that are far apart are not."
        : "Type the same words in another order and see whether the translation changes.",
      story.positions || story.rotatedQueries ? { name: "positions", edit: { kind: "without", part: "positions" }, picture: encoderSelf } : null,
    ),
    makeStop(
      "Three vectors from one",
      placeHead(encoderSelf),
      [encoderSelf?.q, encoderSelf?.k, encoderSelf?.v],
      findRow(encoderSelf?.q),
      display("q = x W_Q + b_Q", "k = x W_K + b_K", "v = x W_V + b_V"),
      "projections",
      "Go through the heads, with [ and ] or the buttons above: each has matrices of its own.",
    ),
    makeStop(
      "Every query meets every key",
      placeHead(encoderSelf),
      [encoderSelf?.products],
      findRow(encoderSelf?.products),
      display(line("q · k =", over("∑", "e"), "q_e k_e"), '"all at once:" Q K^T'),
      "products",
      "Point at a number of the products: the row of q and the column of kᵀ that meet in it are framed. Click it, then “how this number is computed”: it opens as a sum.",
    ),
    makeStop(
      "Scaled down",
      placeHead(encoderSelf),
      [encoderSelf?.scores, encoderSelf?.products],
      findRow(encoderSelf?.scores),
      display(line("scores =", fraction("Q K^T", root("d_k")))),
      "scores",
      "Compare the colours of products and scores: they look alike, only the scale in the legend differs.",
      { name: `the division by √${width}`, edit: { kind: "without", part: "scaling" }, picture: encoderSelf },
    ),
    makeStop(
      "What must not be seen",
      placeHead(decoderSelf ?? encoderSelf),
      [(decoderSelf ?? encoderSelf)?.allowed],
      findRow((decoderSelf ?? encoderSelf)?.allowed),
      display('a_{q,k} = 1 "where" k ≤ q , "else" 0'),
      "mask",
      "Go to the next step, with the . key or the › button on top: with every step one more column can be read.",
      decoderSelf && { name: "the mask", edit: { kind: "without", part: "mask" }, keepsTarget: true, picture: decoderSelf },
    ),
    makeStop(
      "Scores become weights",
      placeHead(encoderSelf),
      [encoderSelf?.pattern, encoderSelf?.scores],
      findRow(encoderSelf?.pattern),
      display(line("α_{q,k} =", fraction(power("e", "s_{q,k}"), line(over("∑", "j"), power("e", "s_{q,j}"))))),
      "pattern",
      "Guess from the scores which piece gets the largest weight in a row, then look at the pattern.",
    ),
    makeStop(
      "Reading with the weights",
      placeHead(encoderSelf),
      [encoderSelf?.headOutput, encoderSelf?.pattern],
      findRow(encoderSelf?.output),
      display(line("z_q =", over("∑", "k"), "α_{q,k} v_k"), "output = ( z^1 ; z^2 ; … ) W_O + b_O"),
      "mixture",
      "Click a number of the head's output, then “how this number is computed”: it is the weights times the values.",
      encoderSelf && { name: `head 1 of ${describeSection(encoderSelf.section)}`, edit: { kind: "silence", attention: encoderSelf.section, head: 0 }, picture: cross },
    ),
    makeStop(
      "Add, norm, think, repeat",
      story.activation ? { view: "block", section: getSection(story.activation.name) } : { view: "map" },
      [story.activation?.name],
      story.activation,
      makeFeedForwardFormula(story),
      "feedForward",
      "Open the same block one layer up with } and see which units are active there.",
      { name: "the residual connections", edit: { kind: "without", part: "residual" }, picture: cross },
    ),
    makeStop(
      "The decoder looks back at the source",
      placeHead(cross),
      [cross?.pattern],
      findRow(cross?.pattern),
      display(line("cross = softmax (", fraction("Q_{dec} K_{enc}^T", root("d_k")), ") V_{enc}")),
      "crossing",
      "Go back and forth with the , and . keys or the ‹ and › buttons: the attended source piece moves with the word that is written.",
      word === null ? null : { name: `the word “${listWords(manifest.source)[word]}”`, edit: { kind: "hide", word }, picture: cross },
    ),
    makeStop(
      "One number for each piece",
      { view: "output" },
      ["candidates"],
      story.logits,
      display(line("P ( piece ) =", fraction(power("e", "logit"), line(over("∑", '"all pieces"'), power("e", "logit"))))),
      "logits",
      "Look below at what its logit is made of, then compare it with the piece that came second.",
    ),
    makeStop(
      "Write it down and go on",
      { view: manifest.tree ? "beam" : "output" },
      [manifest.tree ? "beam" : "candidates"],
      null,
      display(line("log P ( y | x ) =", over("∑", "t"), "log P ( y_t | y_{<t} , x )")),
      "search",
      manifest.tree && canAct ? "Click a dashed node: every picture then shows the trace of that candidate. Click the last node of the thick path to come back." : "Go back to the first step with the , key and walk through all of them.",
    ),
  ];
}
