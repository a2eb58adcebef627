// The story: one of fourteen stops at a time, beside the picture it explains.
import { useEffect, useRef } from "preact/hooks";
import { useApp, useLoaded } from "../hooks";
import type { App } from "../state";
import { makeStory, STOP_COUNT, type StoryStop } from "../story_stops";
import type { Code, Manifest } from "../types";
import { Missing, RichTextSpan } from "./values";

export function StoryView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const number = app.story.value;
  if (!manifest || number === null) return null;
  return <StopPanel app={app} manifest={manifest} number={number} />;
}

/** Chooses the source piece of the story: the followed one, else the second, which is rarely an article. */
export function chooseStoryPiece(app: App, manifest: Manifest): number {
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
