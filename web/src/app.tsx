// The page as a whole: the sentence above, the source at the left, what one looks at in the middle, the story at the right.
import { useEffect, useRef, useState } from "preact/hooks";
import { Footer } from "./footer";
import { Help } from "./help";
import { useApp } from "./hooks";
import { press } from "./keyboard";
import { remember } from "./navigation";
import { SourceColumn } from "./piece_column";
import { Scrubber } from "./scrubber";
import { useDark } from "./theme";
import { TopBar } from "./top_bar";
import { Centre, ViewTabs } from "./view_tabs";
import { StoryView } from "./views/story";

export function Page() {
  const app = useApp();
  const dark = useDark();
  const root = useRef<HTMLDivElement>(null);
  const [help, setHelp] = useState(false);
  const manifest = app.manifest.value;
  const place = app.place.value;
  useEffect(() => remember(app, place), [place]);
  useEffect(() => {
    const handles = {
      focusSentence: () => root.current?.querySelector<HTMLInputElement>("#pellucid-sentence")?.select(),
      toggleHelp: () => setHelp((open) => !open),
      closeHelp: () => {
        setHelp(false);
        return help;
      },
    };
    const heard = (event: KeyboardEvent) => {
      if (!press(app, handles, event)) return;
      event.preventDefault();
      if (app.host === "widget") event.stopPropagation();
    };
    const ear: HTMLElement | Document = app.host === "widget" && root.current ? root.current : document;
    ear.addEventListener("keydown", heard as EventListener);
    return () => ear.removeEventListener("keydown", heard as EventListener);
  }, [help]);
  return (
    <div
      ref={root}
      class={`pellucid ${app.host} ${app.mode.value}`}
      data-theme={dark ? "dark" : "light"}
      data-lm-suppress-shortcuts="true"
    >
      <TopBar onHelp={() => setHelp(!help)} />
      <Problem />
      {manifest ? (
        <>
          <Scrubber manifest={manifest} />
          <ViewTabs />
          <div class={app.story.value === null ? "columns" : "columns with-story"}>
            <SourceColumn manifest={manifest} />
            <main class="centre" aria-label="What you look at">
              <Centre key={manifest.id} />
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

/** Before the first translation. */
function Welcome() {
  const { busy, problem, notice } = useApp();
  if (busy.value || problem.value || notice.value) return null;
  return (
    <main class="welcome">
      <h1>See every number of a translation.</h1>
      <p>
        Write a sentence above. The model translates it, and this page then shows each step of what it computed: which
        pieces it read, which pieces attend to which, and how every number is made from others.
      </p>
      <p class="quiet">
        Press <kbd>/</kbd> to write, <kbd>?</kbd> for all keys.
      </p>
    </main>
  );
}

function Problem() {
  const { busy, problem, notice } = useApp();
  const told = [problem, notice].filter((each) => each.value !== null);
  return (
    <div class="telling">
      <p class="busy" role="status">
        {busy.value ? `${busy.value} …` : ""}
      </p>
      {told.map((each) => (
        <p class="problem" role="alert">
          <span>{each.value}</span>
          <button type="button" class="link" onClick={() => (each.value = null)}>
            close
          </button>
        </p>
      ))}
    </div>
  );
}
