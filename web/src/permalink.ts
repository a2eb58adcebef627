// Where one is, as the fragment of the address: it never reaches a server, and the same link works in a file.
import { effect } from "@preact/signals";
import type { App, Mode, Place, View } from "./state";
import type { Acts } from "./types";

export interface Link {
  place: Place;
  step: number;
  story: number | null;
  mode: Mode;
  follow: { dim: "S" | "T"; index: number } | null;
  trace: string | null;
  sentence: string | null;
  target: string | null; // where it was given, not found
}

const VIEWS: View[] = "map block head cell tokens positions words output beam heads claims align checks compare debug export".split(
  " ",
) as View[];
const MODES: Mode[] = ["learn", "teach", "debug"];

/** The fragment, without its #. */
export function written(link: Link): string {
  const { place, follow } = link;
  const parts: [string, string | number | null | undefined][] = [
    ["v", place.view],
    ["a", place.section],
    ["x", place.tensor],
    ["h", place.head],
    ["r", place.row],
    ["c", place.col],
    ["i", place.index?.join(".")],
    ["t", link.step],
    ["f", follow && `${follow.dim}${follow.index}`],
    ["n", link.story],
    ["m", link.mode],
    ["id", link.trace],
    ["s", link.sentence],
    ["y", link.target],
  ];
  const said = parts.filter((part): part is [string, string | number] => part[1] !== null && part[1] !== undefined);
  return new URLSearchParams(said.map(([key, value]) => [key, String(value)])).toString();
}

/** What a fragment says; whatever it says wrongly is as if it were not there. */
export function read(fragment: string): Link {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const number = (key: string) => {
    const text = parts.get(key);
    return text !== null && /^\d{1,6}$/.test(text) ? Number(text) : undefined;
  };
  const index = parts.get("i");
  const follow = /^([ST])(\d{1,4})$/.exec(parts.get("f") ?? "");
  const place: Place = { view: VIEWS.find((view) => view === parts.get("v")) ?? "map" };
  const given: Partial<Place> = {
    section: parts.get("a") ?? undefined,
    tensor: parts.get("x") ?? undefined,
    head: number("h"),
    row: number("r"),
    col: number("c"),
    index: index && /^\d{1,6}(\.\d{1,6}){0,3}$/.test(index) ? index.split(".").map(Number) : undefined,
  };
  for (const [key, value] of Object.entries(given)) if (value !== undefined) Object.assign(place, { [key]: value });
  const stop = number("n");
  return {
    place,
    step: number("t") ?? 0,
    story: stop && stop <= 14 ? stop : null,
    mode: MODES.find((mode) => mode === parts.get("m")) ?? "learn",
    follow: follow ? { dim: follow[1] as "S" | "T", index: Number(follow[2]) } : null,
    trace: parts.get("id"),
    sentence: parts.get("s"),
    target: parts.get("y"),
  };
}

/** What a link to here says. */
export function linkOf(app: App): Link {
  const manifest = app.manifest.value;
  return {
    place: app.place.value,
    step: app.step.value,
    story: app.story.value,
    mode: app.mode.value,
    follow: app.follow.value,
    trace: app.host === "page" && manifest ? manifest.id : null,
    sentence: app.host === "page" && manifest ? manifest.source.text : null,
    target: app.host === "page" && manifest?.forced ? manifest.target.text : null,
  };
}

/** What has to be translated for a link to be shown; null where it names no sentence. */
export function questionOf(link: Link): Acts["trace"]["args"] | null {
  if (!link.sentence) return null;
  return { sentence: link.sentence, ...(link.target && { target: link.target }) };
}

/** Whether a link, typed into the address of an open page, is of another sentence than the one that is shown. */
function pointsElsewhere(app: App, link: Link): boolean {
  const here = linkOf(app);
  return (link.trace === null || link.trace !== here.trace) && (link.sentence !== here.sentence || link.target !== here.target);
}

/** Puts the page where a link points. */
export function follow(app: App, link: Link): void {
  app.place.value = link.place;
  app.step.value = link.step;
  app.story.value = link.story;
  app.mode.value = link.mode;
  app.follow.value = link.follow;
}

/** Keeps the address and the page together; gives back how to stop. Where addresses are closed (a sandboxed frame), nothing happens. */
export function keepAddress(app: App): () => void {
  let view = app.place.value;
  const stop = effect(() => {
    const fragment = `#${written(linkOf(app))}`;
    if (!app.manifest.value || fragment === location.hash) return;
    try {
      if (app.place.value === view) history.replaceState(null, "", fragment);
      else history.pushState(null, "", fragment);
    } catch {
      // a sandboxed frame has no history of its own
    }
    view = app.place.value;
  });
  const back = () => {
    const link = read(location.hash);
    view = link.place;
    const other = app.source.act && pointsElsewhere(app, link) ? questionOf(link) : null;
    follow(app, link);
    if (other) void app.ask("trace", other);
  };
  addEventListener("popstate", back);
  return () => {
    stop();
    removeEventListener("popstate", back);
  };
}
