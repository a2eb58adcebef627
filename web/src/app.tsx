// The whole page: the sentence above, the pieces at the left, the current view in the middle, the story at the right.
import type { ComponentChild } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useApp, useChecks, useCurrentInView, useDark, useOneTabStop } from "./hooks";
import { handleKey, KEYS } from "./keyboard";
import { rememberPlace, TABS, zoomOut } from "./navigation";
import { makeAddress } from "./permalink";
import { ExampleRow, LineParts, PieceColumn, Scrubber, TopBar } from "./sentence";
import type { View } from "./state";
import type { Check, Manifest } from "./types";
import { AlignView } from "./views/align";
import { BeamView } from "./views/beam";
import { BlockView } from "./views/block";
import { CellView } from "./views/cell";
import { ClaimsView } from "./views/claims";
import { CompareView } from "./views/compare";
import { ExportView } from "./views/export";
import { HeadView } from "./views/head";
import { HeadsView } from "./views/heads";
import { MapView } from "./views/map";
import { OutputView } from "./views/output";
import { PositionsView } from "./views/positions";
import { StoryView } from "./views/story";
import { TokensView } from "./views/tokens";
import { TrainingView } from "./views/training";
import { ChecksView, countChecks, VerdictView } from "./views/verdict";
import { WordsView } from "./views/words";

/** Views that stay when another sentence is shown; the others begin anew. */
const KEPT_VIEWS: ReadonlySet<View> = new Set(["beam", "map"]);

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
      {manifest ? (
        <button type="button" class="button skip-link" onClick={() => root.current?.querySelector<HTMLElement>("main")?.focus()}>
          Skip to the picture
        </button>
      ) : null}
      <TopBar onHelp={() => setHelp(!help)} />
      <ExampleRow />
      <Messages />
      {manifest ? (
        <>
          <LineParts manifest={manifest} />
          <Scrubber manifest={manifest} />
          <ViewTabs />
          <div class={app.story.value === null ? "columns" : "columns with-story"}>
            <main class="centre" aria-label="What you look at" tabIndex={-1}>
              <CurrentView key={KEPT_VIEWS.has(place.view) ? place.view : manifest.id} />
            </main>
            <PieceColumn manifest={manifest} />
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
      <h2>See every number of a translation.</h2>
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

const VIEWS: Record<View, () => ComponentChild> = {
  map: () => <MapView />,
  block: () => <BlockView />,
  head: () => <HeadView />,
  cell: () => <CellView />,
  tokens: () => <TokensView />,
  positions: () => <PositionsView />,
  output: () => <OutputView />,
  beam: () => <BeamView />,
  words: () => <WordsView />,
  claims: () => <ClaimsView />,
  heads: () => <HeadsView />,
  align: () => <AlignView />,
  checks: () => <ChecksView />,
  compare: () => <CompareView />,
  training: () => <TrainingView />,
  debug: () => <VerdictView />,
  export: () => <ExportView />,
};

function ViewTabs() {
  const app = useApp();
  const { view: current } = app.place.value;
  const isInside = current === "block" || current === "head" || current === "cell";
  const tabs = useCurrentInView<HTMLElement>(current);
  useOneTabStop(tabs);
  return (
    <nav ref={tabs} class="tabs" aria-label="Pictures">
      {TABS.map(([view, name], i) => (
        <button
          type="button"
          key={view}
          aria-keyshortcuts={i < 9 ? String(i + 1) : undefined}
          aria-current={view === current || (isInside && view === "map") ? "page" : undefined}
          onClick={() => app.goTo({ view })}
        >
          {name}
        </button>
      ))}
      <span class="spring" />
      {isInside ? (
        <button type="button" class="out" onClick={() => zoomOut(app)}>
          ← zoom out <kbd>Esc</kbd>
        </button>
      ) : null}
      {app.story.value === null ? (
        <button type="button" class="begin" onClick={() => (app.story.value = 1)}>
          Tell the story
        </button>
      ) : null}
    </nav>
  );
}

function CurrentView() {
  const { place } = useApp();
  return <div class={`view view-${place.value.view}`}>{VIEWS[place.value.view]()}</div>;
}

function ChecksPassed(props: { checks: Check[] }) {
  const { passed, performed, notPerformed } = countChecks(props.checks);
  return (
    <>
      <span class={passed === performed ? "good" : "bad"}>{passed === performed ? "✓" : "✗"}</span> checks: {passed} of {performed} passed
      {notPerformed > 0 && `, ${notPerformed} not run`}
    </>
  );
}

function Footer(props: { manifest: Manifest }) {
  const app = useApp();
  const { run, model } = props.manifest;
  const checks = useChecks(props.manifest);
  const [message, setMessage] = useState("");
  const copyLink = async () => {
    try {
      await navigator.clipboard.writeText(makeAddress(app));
      setMessage("copied");
    } catch {
      setMessage("the browser does not allow copying here; copy the link from the address bar");
    }
  };
  return (
    <footer class="footer">
      <button type="button" class="link" onClick={() => app.goTo({ view: "checks" })}>
        {checks.state === "ready" ? <ChecksPassed checks={checks.value} /> : `checks: ${checks.state === "loading" ? "being made…" : checks.message}`}
      </button>
      <span class="quiet">
        {run.dtype}, {run.device}, dropout {run.dropout} · model <span class="mono">{model.sha256.slice(0, 8)}</span> ·
        tokenizer <span class="mono">{model.tokenizer_sha256.slice(0, 8)}</span> · pellucid {run.pellucid}, torch{" "}
        {run.torch}
        {run.capture === "float16" ? " · numbers stored as float16" : ""}
      </span>
      {app.source.hindrance ? <span class="quiet computed-by">{describeComputer(props.manifest, app.source.hindrance.value)}</span> : null}
      <span class="spring" />
      <button type="button" class="link" onClick={() => app.goTo({ view: "export" })}>
        export
      </button>
      {app.host === "widget" ? null : (
        <button type="button" class="link" onClick={copyLink}>
          copy link
        </button>
      )}
      <span role="status" class="quiet">
        {message}
      </span>
    </footer>
  );
}

/** Says who computed a trace in the page of a server. */
function describeComputer(manifest: Manifest, hindrance: string | null): string {
  if (manifest.computed_here) return "computed in your browser, checked against the server";
  if (hindrance === "") return "computed by the server; your browser computes the same";
  return `computed by the server${hindrance ? ` alone: ${hindrance}` : ""}`;
}

function Help(props: { onClose: () => void }) {
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    close.current?.focus({ preventScroll: true }); // its title stays in view
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <div class="overlay" onClick={(event) => event.target === event.currentTarget && props.onClose()}>
      <div role="dialog" aria-modal="true" aria-labelledby="pellucid-help" class="panel help">
        <h2 id="pellucid-help">Keys</h2>
        <dl>
          {KEYS.map((key) => (
            <div key={key.shown}>
              <dt>
                <kbd>{key.shown}</kbd>
              </dt>
              <dd>{key.meaning}</dd>
            </div>
          ))}
        </dl>
        <p class="quiet">
          Attention weights show what a position reads, not why the model chose a piece; the Output view shows what each
          part adds to the logit.
        </p>
        <button ref={close} type="button" class="button" onClick={props.onClose}>
          Close
        </button>
      </div>
    </div>
  );
}
