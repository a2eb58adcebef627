// The story: fourteen stops from the sentence to its translation, one at a time, beside the picture it explains.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { RichText } from "../format";
import { useApp, useLoaded } from "../hooks";
import { display, fraction, line, makeFormula, over, power, root } from "../mathml";
import { type AttentionParts, findTensorRow, getSection } from "../network";
import { Missing, RichTextSpan } from "../parts";
import type { App, Place } from "../state";
import {
  findStoryParts,
  makeFeedForwardFormula,
  makePositionFormula,
  STORY_TEXTS,
  type StoryReader,
  type TextWriter,
} from "../story_texts";
import type { Code, Manifest, TensorRow } from "../types";

export function StoryView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const number = app.story.value;
  if (!manifest || number === null) return null;
  return <StopPanel app={app} manifest={manifest} number={number} />;
}

/** Chooses the source piece of the story: the followed one, else the second, which is rarely an article. */
function chooseStoryPiece(app: App, manifest: Manifest): number {
  const follow = app.followed.value;
  if (follow?.dim === "S") return follow.index;
  return Math.min(1, manifest.source.pieces.length - 1);
}

function StopPanel({ app, manifest, number }: { app: App; manifest: Manifest; number: number }) {
  const piece = chooseStoryPiece(app, manifest);
  const step = app.step.value;
  const stops = makeStory(manifest, piece, step, app.source.act !== undefined);
  const stop = stops[number - 1];
  const shown = useRef<number | null>(null);
  useEffect(() => {
    // A link names its own place, so the story moves the picture only when it begins and when it goes on.
    if (stop && (shown.current !== null || number === 1)) visitStop(app, manifest, stop);
    shown.current = number;
  }, [number]);
  if (!stop) return null;
  const { view, section } = app.place.value;
  const isElsewhere = stop.place.view !== view || (stop.place.section !== undefined && stop.place.section !== section);
  return (
    <section class="panel story-panel" aria-label={`Story, stop ${number} of ${STOP_COUNT}`}>
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

/** Moves the picture to a stop, and closes what an earlier place had opened. */
function visitStop(app: App, manifest: Manifest, stop: StoryStop): void {
  const closed = { section: undefined, tensor: undefined, head: undefined, row: undefined, col: undefined, index: undefined };
  if (stop.isTimedLater && app.step.value === 0) app.step.value = Math.min(2, manifest.steps.length - 1);
  const row = stop.isTimedLater && stop.place.row !== undefined ? { row: app.step.value } : {};
  app.goTo({ ...closed, ...stop.place, ...row });
}

function StopText({ app, stop, piece, step, traceKey }: { app: App; stop: StoryStop; piece: number; step: number; traceKey: string }) {
  const readValues = async (name: string) => (await app.loadTensor(name)).values;
  const loaded = useLoaded(() => stop.writeText({ piece, step, readValues }), `${traceKey} ${piece} ${step}`);
  const hint = app.host === "file" ? " A file that is saved with all numbers shows them." : "";
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
        <code>{code.text.trim()}</code>
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
  /** Tensor whose installed source line is shown. */
  tensor: TensorRow | null;
  formula: JSX.Element;
  writeText(reader: StoryReader): Promise<RichText>;
  suggestion: string;
}

/** Makes the fourteen stops for the source piece and the step that are looked at. */
export function makeStory(manifest: Manifest, piece: number, step: number, canAct: boolean): StoryStop[] {
  const story = findStoryParts(manifest);
  const findRow = (name: string | undefined) => (name === undefined ? null : (findTensorRow(manifest, name) ?? null));
  const placeHead = (parts: AttentionParts | null, position: number): Place =>
    parts ? { view: "head", section: parts.section, head: 0, row: position } : { view: "map" };
  const placeCell = (tensor: TensorRow | null, ...index: number[]): Place =>
    tensor ? { view: "cell", tensor: tensor.name, index } : { view: "map" };
  const { encoderSelf, decoderSelf, cross } = story;
  const makeStop = (title: string, place: Place, tensor: TensorRow | null, formula: JSX.Element, writer: TextWriter, suggestion: string): StoryStop => ({
    title,
    place,
    isTimedLater: writer === STORY_TEXTS.mask || writer === STORY_TEXTS.crossing || writer === STORY_TEXTS.logits,
    tensor,
    formula,
    writeText: (reader: StoryReader) => writer(story, reader),
    suggestion,
  });
  return [
    makeStop(
      "A sentence comes in",
      { view: "map" },
      story.logits,
      display(line("P ( y | x ) =", over("∏", "t"), "P ( y_t | y_{<t} , x )")),
      STORY_TEXTS.sentence,
      canAct
        ? "Press / and type a sentence of your own; everything here is then computed again."
        : "This is a file with one sentence; to type your own, open the model with pellucid serve.",
    ),
    makeStop(
      "Cut into pieces",
      { view: "tokens" },
      story.embedding,
      display('"sentence" → "pieces" → "ids"'),
      STORY_TEXTS.pieces,
      "Click a piece: it stays outlined in every picture until you press Esc.",
    ),
    makeStop(
      "Each id picks a vector",
      placeCell(story.embedding, piece, 0),
      story.embedding,
      story.embedding ? makeFormula(story.embedding.op) : display("x_p = table [ id_p ]"),
      STORY_TEXTS.embedding,
      "Go to another number of the vector with the right arrow key.",
    ),
    makeStop(
      "Where it stands",
      story.positions ? { view: "positions" } : story.rotatedQueries ? placeCell(story.rotatedQueries, 0, piece, 0) : { view: "map" },
      story.positions ?? story.rotatedQueries,
      makePositionFormula(story),
      STORY_TEXTS.positions,
      story.positions
        ? "Move over two neighbouring rows, then over two that are far apart, and compare their similarity."
        : "Type the same words in another order and see whether the translation changes.",
    ),
    makeStop(
      "Three vectors from one",
      placeHead(encoderSelf, piece),
      findRow(encoderSelf?.q),
      display("q = x W_Q + b_Q", "k = x W_K + b_K", "v = x W_V + b_V"),
      STORY_TEXTS.projections,
      "Go through the heads with [ and ]: each has matrices of its own.",
    ),
    makeStop(
      "Every query meets every key",
      placeHead(encoderSelf, piece),
      findRow(encoderSelf?.products),
      display(line("q · k =", over("∑", "e"), "q_e k_e"), '"all at once:" Q K^T'),
      STORY_TEXTS.products,
      "Open a number of the products with Enter to see it as a sum.",
    ),
    makeStop(
      "Scaled down",
      placeHead(encoderSelf, piece),
      findRow(encoderSelf?.scores),
      display(line("scores =", fraction("Q K^T", root("d_k")))),
      STORY_TEXTS.scores,
      "Compare the colours of products and scores: the pattern is the same, only the scale in the legend differs.",
    ),
    makeStop(
      "What must not be seen",
      placeHead(decoderSelf ?? encoderSelf, decoderSelf ? step : piece),
      findRow((decoderSelf ?? encoderSelf)?.allowed),
      display('a_{q,k} = 1 "where" k ≤ q , "else" 0'),
      STORY_TEXTS.mask,
      "Go to the next step with the . key: with every step one more column can be read.",
    ),
    makeStop(
      "Scores become weights",
      placeHead(encoderSelf, piece),
      findRow(encoderSelf?.pattern),
      display(line("α_{q,k} =", fraction(power("e", "s_{q,k}"), line(over("∑", "j"), power("e", "s_{q,j}"))))),
      STORY_TEXTS.pattern,
      "Guess which piece gets the largest weight in a row, then check.",
    ),
    makeStop(
      "Reading with the weights",
      placeHead(encoderSelf, piece),
      findRow(encoderSelf?.output),
      display(line("z_q =", over("∑", "k"), "α_{q,k} v_k"), "output = ( z^1 ; z^2 ; … ) W_O + b_O"),
      STORY_TEXTS.mixture,
      "Open a number of the head's output with Enter: it is the weights times the values.",
    ),
    makeStop(
      "Add, norm, think, repeat",
      story.activation ? { view: "block", section: getSection(story.activation.name) } : { view: "map" },
      story.activation,
      makeFeedForwardFormula(story),
      STORY_TEXTS.feedForward,
      "Open the same block one layer up with } and see which units are active there.",
    ),
    makeStop(
      "The decoder looks back at the source",
      placeHead(cross, step),
      findRow(cross?.pattern),
      display(line("cross = softmax (", fraction("Q_{decoder} K_{encoder}^T", root("d_k")), ") V_{encoder}")),
      STORY_TEXTS.crossing,
      "Go back and forth with the , and . keys: the attended source piece moves with the word that is written.",
    ),
    makeStop(
      "One number for each piece",
      { view: "output" },
      story.logits,
      display(line("P ( piece ) =", fraction(power("e", "logit"), line(over("∑", '"all pieces"'), power("e", "logit"))))),
      STORY_TEXTS.logits,
      "Look at what adds to its logit, then compare with the runner-up.",
    ),
    makeStop(
      "Write it down and go on",
      { view: manifest.tree ? "beam" : "output" },
      story.logits,
      display(line("log P ( y | x ) =", over("∑", "t"), "log P ( y_t | y_{<t} , x )")),
      STORY_TEXTS.search,
      manifest.tree && canAct ? "Click a dashed node, then open its trace with the button below the tree." : "Go back to the first step with the , key and walk through all of them.",
    ),
  ];
}
