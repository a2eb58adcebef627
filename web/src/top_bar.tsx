// The top bar: model, sentence, mode, theme and help.
import { useEffect, useState } from "preact/hooks";
import { useApp } from "./hooks";
import { setMode } from "./keyboard";
import { readLink } from "./permalink";
import type { Mode, Theme } from "./state";

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
