// The story: fourteen stops from the sentence to its translation, one at a time, beside the picture it explains.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useApp, useLoaded } from "../hooks";
import { Missing } from "../parts";
import { findSpoken, findSpotPlace, RichTextSpan } from "../spots";
import type { App, Place } from "../state";
import { chooseStory, chooseWithoutNumbers, type StoryChoice } from "../story_choice";
import type { StoryReader } from "../story_parts";
import { findSubjects, fitIntoWindow, keepInView } from "../story_scrolling";
import { makeStory, STOP_COUNT, type StoryStop } from "../story_stops";
import type { Code, Manifest } from "../types";
import { WithoutIt } from "./without_it";

export function StoryView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const number = app.story.value;
  if (!manifest || number === null) return null;
  return <ToldStory app={app} manifest={manifest} number={number} />;
}

/**
 * Tells the story of what was chosen for a sentence; an edit or another candidate of the same sentence keeps the
 * choice.
 */
function ToldStory({ app, manifest, number }: { app: App; manifest: Manifest; number: number }) {
  const kept = useRef<{ of: string; choice: StoryChoice } | null>(null);
  const followed = app.followed.value?.dim === "S" ? app.followed.value.index : null;
  const study = app.headStudy.value;
  const of = [manifest.model.sha256, manifest.source.ids, followed, study?.study ? "measured" : ""].join(" ");
  const known = kept.current?.of === of ? kept.current.choice : undefined;
  const readValues = async (name: string) => (await app.loadTensor(name)).values;
  const load = () => chooseStory(manifest, study, followed, readValues);
  const loaded = useLoaded(load, of, known);
  if (loaded.state === "ready") kept.current = { of, choice: loaded.value };
  const blind = chooseWithoutNumbers(manifest, followed);
  const before = loaded.state === "loading" ? kept.current?.choice : undefined;
  const choice = loaded.state === "ready" ? loaded.value : (before ?? blind);
  const isChosen = loaded.state !== "loading";
  return <StopPanel app={app} manifest={manifest} number={number} choice={choice} isChosen={isChosen} />;
}

interface StopPanelProps {
  app: App;
  manifest: Manifest;
  number: number;
  choice: StoryChoice;
  isChosen: boolean; // false while the numbers arrive by which it is chosen
}

function StopPanel({ app, manifest, number, choice, isChosen }: StopPanelProps) {
  const step = app.step.value;
  const stops = makeStory(manifest, choice, app.source.act !== undefined);
  const stop = stops[number - 1];
  const panel = useRef<HTMLElement>(null);
  const shown = useRef<number | null>(null);
  const opened = useRef(number); // the stop that a link named, if one did
  const spoken = app.spoken.value;
  const isElsewhere = stop !== undefined && isAwayFrom(app.place.value, stop);
  const reader = { piece: choice.piece, step, readValues: async (name: string) => (await app.loadTensor(name)).values };
  const heads = [choice.self, choice.cross].map((chosen) => `${chosen?.parts.section} ${chosen?.head}`);
  const told = [manifest.id, number, choice.piece, ...heads].join(" ");
  const getRoot = () => (app.host === "widget" ? null : (panel.current?.closest<HTMLElement>(".pellucid") ?? null));
  useEffect(() => {
    if (!isChosen) return;
    // A link names its own place, so the story moves the picture only when it begins, goes on or takes another piece.
    // Who went on before there was a choice is at another stop, which has a place of its own.
    const isLinked = shown.current === null && number !== 1 && number === opened.current;
    app.spoken.value = null;
    if (stop && !isLinked && (shown.current !== number || !isElsewhere)) visitStop(app, manifest, stop, choice);
    shown.current = number;
  }, [told, isChosen]);
  useEffect(() => {
    let isCurrent = true;
    const isLinked = app.place.value.col !== undefined;
    if (stop && isChosen && !isElsewhere && !isLinked)
      stop.findKey(reader).then(
        (col) => isCurrent && col !== undefined && app.pointAt({ col }),
        () => undefined, // the text says what was not captured
      );
    return () => {
      isCurrent = false;
    };
  }, [told, step, isChosen, isElsewhere]);
  useEffect(() => {
    app.subjects.value = stop?.subjects ?? [];
    const root = getRoot();
    if (root && stop && !isElsewhere) return keepInView(root, () => findSubjects(root, stop.subjects));
  }, [told, isElsewhere]);
  useEffect(() => {
    const root = getRoot();
    return root && spoken ? showSpoken(app, manifest, root) : undefined;
  }, [spoken]);
  useEffect(
    () => () => {
      app.subjects.value = [];
      app.spoken.value = null;
    },
    [],
  );
  useLayoutEffect(() => (panel.current && app.host !== "widget" ? fitIntoWindow(panel.current) : undefined), []);
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
      <div class="story-body" key={number}>
        <h2 tabIndex={-1}>{stop.title}</h2>
        <StopText app={app} stop={stop} reader={reader} told={isChosen ? told : "unknown"} />
        {app.code.value && stop.formula}
        {stop.leftOut && <WithoutIt key={number} app={app} manifest={manifest} leftOut={stop.leftOut} />}
        {app.code.value && stop.tensor?.code && <SourceLine code={stop.tensor.code} name={stop.tensor.name} />}
        <p class="story-try">
          <strong>Try:</strong> {stop.suggestion}
        </p>
        {isElsewhere && (
          <button type="button" class="button" onClick={() => visitStop(app, manifest, stop, choice)}>
            Show this stop again
          </button>
        )}
      </div>
      <StopNavigation app={app} stops={stops} number={number} />
    </section>
  );
}

/** Tells whether another picture is shown than that of a stop. */
function isAwayFrom(place: Place, stop: StoryStop): boolean {
  return stop.place.view !== place.view || (stop.place.section !== undefined && stop.place.section !== place.section);
}

/** Moves the picture to a stop, and closes what an earlier place had opened. */
function visitStop(app: App, manifest: Manifest, stop: StoryStop, choice: StoryChoice): void {
  const inside = { section: undefined, tensor: undefined, head: undefined, index: undefined };
  const closed = { ...inside, row: undefined, col: undefined };
  if (stop.isTimedLater && app.step.value === 0) app.step.value = Math.min(choice.step, manifest.steps.length - 1);
  app.spoken.value = null;
  app.goTo({ ...closed, ...stop.place });
}

/**
 * Opens the picture that shows what is spoken of, unless it is there already, and scrolls to it; gives back how to
 * stop.
 */
function showSpoken(app: App, manifest: Manifest, root: HTMLElement): () => void {
  let stop = () => {};
  const request = requestAnimationFrame(() => {
    const spoken = app.spoken.value;
    const place = spoken && findSpoken(root).length === 0 ? findSpotPlace(manifest, spoken) : null;
    if (place) app.goTo({ ...place, row: app.place.value.row });
    stop = keepInView(root, () => findSpoken(root).slice(0, 1));
  });
  return () => {
    cancelAnimationFrame(request);
    stop();
  };
}

function StopText({ app, stop, reader, told }: { app: App; stop: StoryStop; reader: StoryReader; told: string }) {
  const loaded = useLoaded(() => stop.writeText(reader), `${told} ${reader.step}`);
  const hint = " A file written by “pellucid explain … --html FILE --keep float16” has these numbers.";
  if (loaded.state === "missing") return <Missing message={loaded.message + (app.host === "file" ? hint : "")} />;
  const isKnown = loaded.state === "ready" && told !== "unknown";
  return (
    <p class="story-text" aria-live="polite">
      {isKnown ? <RichTextSpan text={loaded.value} /> : "\u00a0"}
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
      <button
        type="button"
        class="button"
        disabled={number === 1}
        onClick={() => moveTo(number - 1)}
        aria-keyshortcuts="PageUp"
      >
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
      <button
        type="button"
        class="button story-next"
        disabled={number === STOP_COUNT}
        onClick={() => moveTo(number + 1)}
        aria-keyshortcuts="PageDown"
      >
        Next →
      </button>
    </nav>
  );
}
