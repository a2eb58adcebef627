// The sentence and its translation: the bar on top with the form, the steps of decoding, and the column of pieces.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { describeDoubt } from "./doubts";
import { formatCount, formatShort } from "./format";
import { getActiveElement, useApp, useCurrentInView, useOneTabStop, usePainter } from "./hooks";
import { setMode } from "./keyboard";
import { moveStep, toggleFollow } from "./navigation";
import { listPieces, nameSentence } from "./network";
import { Piece, SPACE } from "./parts";
import { readLink } from "./permalink";
import { PlayBar, PlayButton, ReadingLight, useGrowth } from "./play_controls";
import { paintWritten } from "./play";
import { markSpot } from "./spots";
import type { App, Mode, Theme } from "./state";
import type { Examples, Manifest } from "./types";

const MODES: [Mode, string][] = [
  ["learn", "Learn"],
  ["teach", "Teach"],
  ["debug", "Dense"],
];
const THEMES: Record<Theme, { next: Theme; label: string }> = {
  auto: { next: "light", label: "Theme: same as the system" },
  light: { next: "dark", label: "Theme: light" },
  dark: { next: "auto", label: "Theme: dark" },
};

export function TopBar(props: { onHelp: () => void }) {
  const app = useApp();
  const { mode, theme, manifest, hidden } = app;
  const controls = useRef<HTMLDivElement>(null);
  useOneTabStop(controls);
  const languages = manifest.value?.languages;
  return (
    <header class="topbar">
      <div class="brand">
        <h1>Pellucid</h1>
        {manifest.value ? (
          <span class="quiet" title={`SHA-256 ${manifest.value.model.sha256}`}>
            {languages?.source && languages.target ? `${languages.source} → ${languages.target} · ` : ""}
            {manifest.value.model.name}
          </span>
        ) : null}
      </div>
      {app.source.act ? <SentenceForm /> : <Asked manifest={manifest.value} />}
      <div ref={controls} class="controls" role="toolbar" aria-label="How the page is shown">
        <div class="switch" role="group" aria-label="Mode">
          {MODES.map(([value, name]) => (
            <button type="button" key={value} aria-pressed={mode.value === value} onClick={() => setMode(app, value)}>
              {name}
            </button>
          ))}
        </div>
        {mode.value === "teach" ? (
          <button type="button" class="button" aria-pressed={hidden.value} onClick={() => (hidden.value = !hidden.value)}>
            {hidden.value ? "Show values" : "Hide values"}
          </button>
        ) : null}
        <button
          type="button"
          class="button icon"
          aria-label={THEMES[theme.value].label}
          title={THEMES[theme.value].label}
          onClick={() => (theme.value = THEMES[theme.value].next)}
        >
          {theme.value === "auto" ? "◐" : theme.value === "light" ? "☀" : "☾"}
        </button>
        <button type="button" class="button icon" aria-label="Help: all keys" title="All keys" onClick={props.onHelp}>
          ?
        </button>
      </div>
    </header>
  );
}

/** Shows the sentence of a file that cannot translate another. */
function Asked({ manifest }: { manifest: Manifest | null }) {
  if (!manifest?.context) return <p class="asked">{manifest?.source.text}</p>;
  return (
    <p class="asked">
      <span class="quiet">{manifest.context}</span> {manifest.sentence}
    </p>
  );
}

/** Asks for a sentence, the one before it where the model reads that, and a beam width, and translates it. */
function SentenceForm() {
  const app = useApp();
  const manifest = app.manifest.value;
  const box = useRef<HTMLInputElement>(null);
  const isTyping = useRef(false); // what is being typed is never overwritten
  const [text, setText] = useState(() => (app.host === "page" ? readLink(location.hash).question?.sentence : null) ?? "");
  const [context, setContext] = useState("");
  const [beam, setBeam] = useState(4);
  const readsContext = Boolean(manifest?.model.context);
  useEffect(() => {
    // On a telephone the focus would bring up a keyboard over half of the page.
    if (app.host === "page" && !location.hash && matchMedia("(pointer: fine)").matches) box.current?.focus();
  }, []);
  useLayoutEffect(() => {
    if (!manifest) return;
    setBeam(Number(manifest.run.search.beam));
    if (isTyping.current) return;
    const { sentence, context: before } = nameSentence(manifest);
    setText(sentence);
    setContext(before ?? "");
    requestAnimationFrame(() => box.current && getActiveElement(box.current) === box.current && box.current.select());
  }, [manifest]);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!text.trim()) return;
    isTyping.current = false;
    const answer = await app.askSource("trace", { sentence: text, beam, ...(readsContext && context.trim() && { context }) });
    // The focus goes on to the translation, so that the keys of the page are at hand.
    if (answer) box.current?.closest(".pellucid")?.querySelector<HTMLElement>(".translation")?.focus({ preventScroll: true });
  };
  return (
    <div class="asking">
      <form class="ask" onSubmit={submit}>
        {readsContext && (
          <label class="before-it quiet">
            Sentence before
            <input
              type="text"
              value={context}
              placeholder="may be left out"
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => {
                isTyping.current = true;
                setContext(event.currentTarget.value);
              }}
              onBlur={() => (isTyping.current = false)}
            />
          </label>
        )}
        <label class="unseen" for="pellucid-sentence">
          Sentence to translate
        </label>
        <input
          ref={box}
          id="pellucid-sentence"
          type="text"
          value={text}
          placeholder="The ball is blue."
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => {
            isTyping.current = true;
            setText(event.currentTarget.value);
          }}
          onBlur={() => (isTyping.current = false)}
        />
        <label class="beam-width quiet">
          <span class="beam-word">beam </span>
          <select value={beam} onChange={(event) => setBeam(Number(event.currentTarget.value))}>
            {[...new Set([1, 2, 4, 8, beam])].sort((one, other) => one - other).map((width) => (
              <option key={width} value={width}>
                {width}
              </option>
            ))}
          </select>
        </label>
        <button type="submit" class="button primary" disabled={app.busy.value !== null || !text.trim()}>
          Translate
        </button>
      </form>
      <RareWords text={text} />
    </div>
  );
}

const TYPING_PAUSE = 350; // milliseconds without a letter before words are looked up

/** Lists the words of a text that the model never or hardly saw in training, underlined. */
function RareWords(props: { text: string }) {
  const { source, examples } = useApp();
  const { text } = props;
  const [rare, setRare] = useState<[word: string, count: number][]>([]);
  const known = examples.value?.sentences ?? [];
  const isAsked = known.length > 0 && !known.includes(text) && text.trim() !== "";
  useEffect(() => {
    if (!isAsked) return setRare([]);
    let isCurrent = true;
    const wait = setTimeout(() => {
      source.fetchRareWords?.(text).then(
        (words) => isCurrent && setRare(Object.entries(words ?? {})),
        () => isCurrent && setRare([]), // a text that is too long is refused when it is sent
      );
    }, TYPING_PAUSE);
    return () => {
      isCurrent = false;
      clearTimeout(wait);
    };
  }, [text, isAsked]);
  const unseen = rare.filter(([, count]) => count === 0);
  const seldom = rare.filter(([, count]) => count > 0);
  return (
    <p class="rare-words quiet" role="status">
      {unseen.length > 0 && <>Never seen in training: {unseen.map(([word]) => <><span class="rare-word">{word}</span> </>)}</>}
      {seldom.length > 0 && (
        <>Seldom seen: {seldom.map(([word, count]) => <><span class="rare-word">{word}</span> ({count === 1 ? "once" : `${count} times`}) </>)}</>
      )}
    </p>
  );
}

/** Offers sentences to try, and says which languages the model translates and how much text it learned from. */
export function ExampleRow() {
  const app = useApp();
  const examples = app.examples.value;
  const list = useRef<HTMLUListElement>(null);
  useOneTabStop(list);
  if (!examples || (!examples.sentences.length && describeTraining(examples) === "")) return null;
  const current = app.manifest.value && nameSentence(app.manifest.value).sentence;
  return (
    <section class="examples" aria-label="Examples">
      <p class="quiet">{describeTraining(examples)}</p>
      {examples.sentences.length > 0 && (
        <ul ref={list}>
          {examples.sentences.map((sentence) => (
            <li key={sentence}>
              <button
                type="button"
                class="chip example"
                title={[sentence, examples.notes[sentence]].filter(Boolean).join(" — ")}
                aria-current={sentence === current ? "true" : undefined}
                disabled={app.busy.value !== null}
                onClick={() => void app.askSource("trace", { sentence })}
              >
                {examples.notes[sentence] ? <span class="example-note">{examples.notes[sentence].split(":")[0]} · </span> : null}
                {sentence}
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Describes the languages of a model and the size of its training text, as far as they are known. */
export function describeTraining({ languages, pairs }: Examples): string {
  const direction = languages ? `Translates ${nameLanguage(languages[0])} into ${nameLanguage(languages[1])}` : "";
  const amount = pairs === null ? "" : `${formatCount(pairs)} pairs of sentences`;
  if (direction && amount) return `${direction}; learned from ${amount}.`;
  return direction ? `${direction}.` : amount && `Learned from ${amount}.`;
}

let languageNames: Intl.DisplayNames | null = null; // made when it is first needed, which takes long

function nameLanguage(code: string): string {
  languageNames ??= new Intl.DisplayNames(["en"], { type: "language" });
  return languageNames.of(code) ?? code;
}

/** Lists the parts of a line that are translated one by one, of which the trace shows one; each opens its own. */
export function LineParts({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const list = useRef<HTMLUListElement>(null);
  useOneTabStop(list);
  const { part } = manifest;
  if (!part) return null;
  const open = (segment: number) => app.askSource("trace", { ...nameSentence(manifest), segment, beam: Number(manifest.run.search.beam) });
  return (
    <section class="examples line-parts" aria-label="Parts of the text">
      <p class="quiet">This text has {part.segments.length} parts. Each is translated by itself:</p>
      <ul ref={list}>
        {part.segments.map((text, i) => (
          <li key={i}>
            <button
              type="button"
              class="chip example"
              title={text}
              aria-current={i + 1 === part.segment ? "true" : undefined}
              disabled={!app.source.act || app.busy.value !== null}
              onClick={() => void open(i + 1)}
            >
              {text}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Scrubber(props: { manifest: Manifest }) {
  const app = useApp();
  const { manifest } = props;
  const { steps, target } = manifest;
  const currentStep = Math.min(app.step.value, steps.length - 1);
  const step = steps[currentStep];
  const hidden = app.hidden.value; // in teach mode, until the numbers are shown
  const doubt = hidden ? null : manifest.doubt;
  const stepRow = useCurrentInView<HTMLOListElement>(`${manifest.id} ${currentStep}`);
  const heading = useRef<HTMLParagraphElement>(null);
  const stepText = useRef<HTMLSpanElement>(null);
  const stepControls = useRef<HTMLDivElement>(null);
  useOneTabStop(stepControls);
  const texts = splitByPiece(manifest);
  useGrowth(stepText, ".step-writes");
  usePainter(heading, (frame) => texts && heading.current && paintWritten([...heading.current.children], frame));
  usePainter(stepRow, (frame) => stepRow.current && paintWritten([...stepRow.current.children].slice(1), frame));
  return (
    <section class="scrubber" aria-label="Translation" data-subject="translation">
      <p ref={heading} class="translation" lang={manifest.languages?.target} tabIndex={-1}>
        {texts?.map((text, i) => (doubt && target.words[i] === doubt.word ? <DoubtedText text={text} /> : <span>{text}</span>)) ?? (
          target.text || <span class="quiet">an empty translation</span>
        )}
      </p>
      <div class="scrubber-side">
        <PlayBar />
        <p class="quiet score">
          {doubt && (
            <>
              <button type="button" class="link doubt" onClick={() => app.goTo({ view: "debug" })}>
                least sure of {describeDoubt(doubt)}
              </button>{" "}
              ·{" "}
            </>
          )}
          {describeScore(app, manifest, hidden)}
          {manifest.notes.length ? (
            <button type="button" class="link" title={manifest.notes.join("\n")} onClick={() => app.goTo({ view: "checks" })}>
              {manifest.notes.length === 1 ? "1 note" : `${manifest.notes.length} notes`}
            </button>
          ) : null}
        </p>
        {hidden ? null : manifest.provenance?.map(({ word, origin, place, source, target: told }) => origin !== "model" && (
          <p class="quiet score">{`${word}: ${origin} ${place} (${source} → ${told})`}</p>
        ))}
      </div>
      <div ref={stepControls} class="steps" role="toolbar" aria-label="Steps of decoding">
        <div class="step-buttons">
          <button type="button" class="button icon" aria-label="First step" onClick={() => moveStep(app, -steps.length)}>
            |‹
          </button>
          <button type="button" class="button icon" aria-label="Step before" onClick={() => moveStep(app, -1)}>
            ‹
          </button>
          <button type="button" class="button icon" aria-label="Next step" onClick={() => moveStep(app, 1)}>
            ›
          </button>
          <button type="button" class="button icon" aria-label="Last step" onClick={() => moveStep(app, steps.length)}>
            ›|
          </button>
          <PlayButton />
        </div>
        <div class="step-line">
          <ol ref={stepRow}>
            <li class="piece start quiet">{manifest.inputs.pieces[0]}</li>
            {steps.map((written) => (
              <li key={written.step}>
                <button
                  type="button"
                  class="piece"
                  aria-current={written.step === currentStep ? "step" : undefined}
                  aria-label={`Step ${written.step + 1}: writes ${written.chosen.piece}${hidden ? "" : `, probability ${formatShort(written.chosen.prob)}`}`}
                  onClick={() => (app.step.value = written.step)}
                >
                  <Piece text={written.chosen.piece} />
                  {!hidden && <span class="likely" style={{ width: `${Math.round(written.chosen.prob * 100)}%` }} />}
                </button>
              </li>
            ))}
          </ol>
          <span ref={stepText} class="quiet step-says" aria-live="polite">
            {step ? (
              <>
                step {currentStep + 1} of {steps.length}: reads <b>
                  <Piece text={step.input} />
                </b>
                <span class="step-writes">
                  , writes{" "}
                  <b>
                    <Piece text={step.chosen.piece} />
                  </b>
                  {hidden ? null : ` (${formatShort(step.chosen.prob)})`}{" "}
                  <button type="button" class="link" onClick={() => app.goTo({ view: "output" })}>
                    why?
                  </button>
                </span>
              </>
            ) : null}
          </span>
        </div>
      </div>
    </section>
  );
}

/** Underlines what a piece adds to the word that the model was least sure of, but not the space before it. */
function DoubtedText({ text }: { text: string }) {
  return (
    <span>
      {/^ /.exec(text)?.[0]}
      <span class="doubted">{text.trimStart()}</span>
    </span>
  );
}

/** Splits the translation into the text that each piece adds; null where its text is not that of its pieces. */
function splitByPiece({ target }: Manifest): string[] | null {
  const texts = target.pieces.map((piece, i) => (target.words[i] === null ? "" : piece.replaceAll(SPACE, " ")));
  const first = texts.findIndex((text) => text !== "");
  const trimmed = texts.map((text, i) => (i === first ? text.trimStart() : text));
  return first >= 0 && trimmed.join("") === target.text ? trimmed : null;
}

function describeScore(app: App, manifest: Manifest, hidden: boolean): JSX.Element[] {
  const { forced, tree, log_prob, edits } = manifest;
  const isDrawn = manifest.run.search.method === "sample";
  const origin = forced ? "target given" : isDrawn ? `drawn at temperature ${manifest.run.search.temperature}` : tree ? `beam ${tree.width}` : "";
  const edited = edits.length ? `${edits.length} ${edits.length === 1 ? "edit" : "edits"}` : "";
  const stopped = manifest.stop === "eos" ? "" : forced ? "unfinished" : "stopped at the maximum length";
  const numbers = hidden
    ? []
    : [
        <span {...markSpot(app, "log P")}>log p {formatShort(log_prob)}</span>,
        <span {...markSpot(app, "score")}>score {formatShort(manifest.score)}</span>,
      ];
  const parts = [...numbers, origin, edited, stopped].filter((part) => part !== "");
  return parts.map((part, i) => (
    <>
      {i > 0 && " · "}
      {part}
    </>
  ));
}

export function PieceColumn(props: { manifest: Manifest }) {
  const app = useApp();
  const { source, inputs } = props.manifest;
  const column = useRef<HTMLElement>(null);
  useOneTabStop(column);
  return (
    <aside ref={column} class="side" aria-label="Pieces">
      <Pieces title="Source" dim="S" pieces={listPieces(source)} unknown={source.unknown} />
      <Pieces title="Input of the decoder" dim="T" pieces={inputs.pieces} current={app.step.value} />
      {source.context ? <p class="quiet hint">In brackets: the sentence before, which is read and not translated.</p> : null}
      <p class="quiet hint">The decoder reads BOS, the start token, and then the pieces already written.</p>
      <p class="quiet hint">Click a piece to follow it through every picture; press Esc to stop.</p>
    </aside>
  );
}

function Pieces(props: { title: string; dim: "S" | "T"; pieces: string[]; unknown?: boolean[]; current?: number }) {
  const app = useApp();
  const follow = app.followed.value;
  return (
    <section>
      <h2>{props.title}</h2>
      <ol>
        {props.pieces.map((piece, index) => {
          const isFollowed = follow?.dim === props.dim && follow.index === index;
          const marks = [props.current === index ? "current" : "", props.unknown?.[index] ? "unknown" : ""];
          return (
            <li key={`${index} ${piece}`}>
              <button
                type="button"
                class={["piece", ...marks].join(" ")}
                aria-pressed={isFollowed}
                title={props.unknown?.[index] ? "unknown to the model" : undefined}
                onClick={() => toggleFollow(app, { dim: props.dim, size: props.pieces.length }, index)}
              >
                {props.dim === "S" && <ReadingLight position={index} />}
                <span class="pointer" aria-hidden="true">
                  {isFollowed ? "▸" : ""}
                </span>
                <Piece text={piece} />
              </button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
