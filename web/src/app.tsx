// The whole page: the sentence above, the pieces at the left, the current view in the middle, the story at the right.
import { useEffect, useRef, useState } from "preact/hooks";
import { Footer } from "./footer";
import { Help } from "./help";
import { useApp } from "./hooks";
import { handleKey } from "./keyboard";
import { rememberPlace } from "./navigation";
import { PieceColumn } from "./piece_column";
import { Scrubber } from "./scrubber";
import { useDark } from "./theme";
import { TopBar } from "./top_bar";
import { CurrentView, ViewTabs } from "./view_tabs";
import { StoryView } from "./views/story";

export function Page() {
  const app = useApp();
  const dark = useDark();
  const root = useRef<HTMLDivElement>(null);
  const [help, setHelp] = useState(false);
  const manifest = app.manifest.value;
  const place = app.place.value;
  useEffect(() => rememberPlace(app, place), [place]);
  useEffect(() => {
    const page = {
      focusSentence: () => root.current?.querySelector<HTMLInputElement>("#pellucid-sentence")?.select(),
      toggleHelp: () => setHelp((open) => !open),
      closeHelp: () => {
        setHelp(false);
        return help;
      },
    };
    const onKeyDown = (event: KeyboardEvent) => {
      if (!handleKey(app, page, event)) return;
      event.preventDefault();
      if (app.host === "widget") event.stopPropagation();
    };
    const keyTarget: HTMLElement | Document = app.host === "widget" && root.current ? root.current : document;
    keyTarget.addEventListener("keydown", onKeyDown as EventListener);
    return () => keyTarget.removeEventListener("keydown", onKeyDown as EventListener);
  }, [help]);
  return (
    <div
      ref={root}
      class={`pellucid ${app.host} ${app.mode.value}`}
      data-theme={dark ? "dark" : "light"}
      data-lm-suppress-shortcuts="true"
    >
      <TopBar onHelp={() => setHelp(!help)} />
      <Messages />
      {manifest ? (
        <>
          <Scrubber manifest={manifest} />
          <ViewTabs />
          <div class={app.story.value === null ? "columns" : "columns with-story"}>
            <PieceColumn manifest={manifest} />
            <main class="centre" aria-label="What you look at">
              <CurrentView key={manifest.id} />
            </main>
            <aside class="story" aria-label="The story">
              <StoryView />
            </aside>
          </div>
          <Footer manifest={manifest} />
        </>
      ) : (
        <Welcome />
      )}
      {help ? <Help onClose={() => setHelp(false)} /> : null}
    </div>
  );
}

/** Welcomes the reader before the first translation. */
function Welcome() {
  const { busy, problem, notice } = useApp();
  if (busy.value || problem.value || notice.value) return null;
  return (
    <main class="welcome">
      <h1>See every number of a translation.</h1>
      <p>
        Write a sentence above. The model translates it, and this page then shows each step of what it computed: which
        pieces it read, which pieces attend to which, and how every number is computed from others.
      </p>
      <p class="quiet">
        Press <kbd>/</kbd> to write, <kbd>?</kbd> for all keys.
      </p>
    </main>
  );
}

function Messages() {
  const { busy, problem, notice } = useApp();
  const messages = [problem, notice].filter((message) => message.value !== null);
  return (
    <div class="telling">
      <p class="busy" role="status">
        {busy.value ? `${busy.value} …` : ""}
      </p>
      {messages.map((message) => (
        <p class="problem" role="alert">
          <span>{message.value}</span>
          <button type="button" class="link" onClick={() => (message.value = null)}>
            close
          </button>
        </p>
      ))}
    </div>
  );
}
