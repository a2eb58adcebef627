// The sentence and its translation: the bar on top with the form, the steps of decoding, and the column of pieces.
import { useEffect, useState } from "preact/hooks";
import { formatShort } from "./format";
import { useApp } from "./hooks";
import { setMode } from "./keyboard";
import { moveStep, toggleFollow } from "./navigation";
import { Piece } from "./parts";
import { readLink } from "./permalink";
import type { Mode, Theme } from "./state";
import type { Manifest } from "./types";

const MODES: [Mode, string][] = [
  ["learn", "Learn"],
  ["teach", "Teach"],
  ["debug", "Debug"],
];
const THEMES: Record<Theme, { next: Theme; label: string }> = {
  auto: { next: "light", label: "Theme: same as the system" },
  light: { next: "dark", label: "Theme: light" },
  dark: { next: "auto", label: "Theme: dark" },
};

export function TopBar(props: { onHelp: () => void }) {
  const app = useApp();
  const { mode, theme, manifest, hidden } = app;
  const languages = manifest.value?.languages;
  return (
    <header class="topbar">
      <div class="brand">
        <b>Pellucid</b>
        {manifest.value ? (
          <span class="quiet" title={`SHA-256 ${manifest.value.model.sha256}`}>
            {languages?.source && languages.target ? `${languages.source} → ${languages.target} · ` : ""}
            {manifest.value.model.name}
          </span>
        ) : null}
      </div>
      {app.source.act ? <SentenceForm /> : <p class="asked">{manifest.value?.source.text}</p>}
      <div class="controls">
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

/** Asks for a sentence and a beam width, and translates it. */
function SentenceForm() {
  const app = useApp();
  const manifest = app.manifest.value;
  const [text, setText] = useState(() => (app.host === "page" ? readLink(location.hash).question?.sentence : null) ?? "");
  const [beam, setBeam] = useState(4);
  useEffect(() => {
    if (!manifest) return;
    setText(manifest.sentence);
    setBeam(Number(manifest.run.search.beam));
  }, [manifest]);
  const submit = (event: Event) => {
    event.preventDefault();
    if (text.trim()) void app.askSource("trace", { sentence: text, beam });
  };
  return (
    <form class="ask" onSubmit={submit}>
      <label class="unseen" for="pellucid-sentence">
        Sentence to translate
      </label>
      <input
        id="pellucid-sentence"
        type="text"
        value={text}
        placeholder="The ball is blue."
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <label class="beam-width quiet">
        beam{" "}
        <select value={beam} onChange={(event) => setBeam(Number(event.currentTarget.value))}>
          {[...new Set([1, 2, 4, 8, beam])].sort((a, b) => a - b).map((width) => (
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
  );
}

export function Scrubber(props: { manifest: Manifest }) {
  const app = useApp();
  const { manifest } = props;
  const { steps, target } = manifest;
  const currentStep = Math.min(app.step.value, steps.length - 1);
  const step = steps[currentStep];
  const hidden = app.hidden.value; // in teach mode, until the numbers are shown
  return (
    <section class="scrubber" aria-label="Translation">
      <p class="translation" lang={manifest.languages?.target}>
        {target.text || <span class="quiet">an empty translation</span>}
      </p>
      <p class="quiet score">
        {describeScore(manifest, hidden)}
        {manifest.notes.length ? (
          <button type="button" class="link" title={manifest.notes.join("\n")} onClick={() => app.goTo({ view: "checks" })}>
            {manifest.notes.length === 1 ? "1 note" : `${manifest.notes.length} notes`}
          </button>
        ) : null}
      </p>
      <div class="steps" role="group" aria-label="Steps of decoding">
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
        </div>
        <div class="step-line">
          <ol>
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
          <span class="quiet step-says" aria-live="polite">
            {step ? (
              <>
                step {currentStep + 1} of {steps.length}: reads <b>
                  <Piece text={step.input} />
                </b>, writes{" "}
                <b>
                  <Piece text={step.chosen.piece} />
                </b>
                {hidden ? null : ` (${formatShort(step.chosen.prob)})`}
              </>
            ) : null}
          </span>
        </div>
      </div>
    </section>
  );
}

function describeScore(manifest: Manifest, hidden: boolean): string {
  const { forced, tree, log_prob, edits } = manifest;
  const origin = forced ? "target given" : tree ? `beam ${tree.width}` : "";
  const edited = edits.length ? `${edits.length} ${edits.length === 1 ? "edit" : "edits"}` : "";
  const stopped = manifest.stop === "eos" ? "" : forced ? "unfinished" : "stopped at the maximum length";
  const logProb = `log p ${formatShort(log_prob)}`;
  const numbers = hidden ? [] : [logProb, `score ${formatShort(manifest.score)}`];
  return [...numbers, origin, edited, stopped].filter(Boolean).join(" · ");
}

export function PieceColumn(props: { manifest: Manifest }) {
  const app = useApp();
  const { source, inputs } = props.manifest;
  return (
    <aside class="side" aria-label="Pieces">
      <Pieces title="Source" dim="S" pieces={source.pieces} unknown={source.unknown} />
      <Pieces title="Input of the decoder" dim="T" pieces={inputs.pieces} current={app.step.value} />
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
