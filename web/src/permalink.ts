// Permalinks: the current view as the fragment of the address, which never reaches a server and works in a file too. A link
// holds all that its trace follows from, so that the trace can be made again; a trace that does not fit the link is reported.
import { effect, signal } from "@preact/signals";
import { nameSentence } from "./network";
import { type App, type Mode, type Place, SWITCHES, type View } from "./state";
import type { Drawing, EditSpec, Manifest, Question } from "./types";

interface Link {
  place: Place;
  step: number;
  story: number | null;
  mode: Mode;
  follow: { dim: "S" | "T"; index: number } | null;
  switches: string | null; // letters of the switches that are on; the theme is left to the reader
  trace: string | null;
  question: Question | null; // what the trace was asked with; null where no sentence is named
  fault: string | null; // reason why the question cannot be read
}

const VIEWS: View[] = "map block head cell tokens positions words output beam heads claims align checks compare training debug export".split(
  " ",
) as View[];
const MODES: Mode[] = ["learn", "teach", "debug"];

/** Writes a link as a fragment, without its #. */
export function writeLink(link: Link): string {
  const { place, follow, question } = link;
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
    ["o", link.switches],
    ["id", link.trace],
    ["s", question?.sentence],
    ["u", question?.context],
    ["g", question?.segment],
    ["b", question?.beam],
    ["y", question?.target],
    ["w", question?.target_ids?.join(".")],
    ["p", question?.prefix_ids?.join(".")],
    ["e", question?.edits && JSON.stringify(question.edits)],
    ["d", question?.drawing && JSON.stringify(question.drawing)],
    ["k", question?.model],
  ];
  const present = parts.filter((part): part is [string, string | number] => part[1] !== null && part[1] !== undefined);
  return new URLSearchParams(present.map(([key, value]) => [key, String(value)])).toString();
}

/**
 * Reads a link from a fragment. An invalid place is ignored; an invalid part of the question is a fault, because without
 * that part it would be another question.
 */
export function readLink(fragment: string): Link {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const number = (key: string) => {
    const text = parts.get(key);
    return text !== null && /^\d{1,6}$/.test(text) ? Number(text) : undefined;
  };
  const index = parts.get("i");
  const follow = /^([ST])(\d{1,4})$/.exec(parts.get("f") ?? "");
  const place: Place = { view: VIEWS.find((view) => view === parts.get("v")) ?? "map" };
  const optional: Partial<Place> = {
    section: parts.get("a") ?? undefined,
    tensor: parts.get("x") ?? undefined,
    head: number("h"),
    row: number("r"),
    col: number("c"),
    index: index && /^\d{1,6}(\.\d{1,6}){0,3}$/.test(index) ? index.split(".").map(Number) : undefined,
  };
  for (const [key, value] of Object.entries(optional)) if (value !== undefined) Object.assign(place, { [key]: value });
  const stop = number("n");
  return {
    place,
    step: number("t") ?? 0,
    story: stop && stop <= 14 ? stop : null,
    mode: MODES.find((mode) => mode === parts.get("m")) ?? "learn",
    follow: follow ? { dim: follow[1] as "S" | "T", index: Number(follow[2]) } : null,
    switches: parts.get("o"),
    trace: parts.get("id"),
    ...readQuestion(parts),
  };
}

const QUESTION_KEYS: [key: string, name: Exclude<keyof Question, "sentence">, means: string, parse: (text: string) => unknown][] = [
  ["u", "context", "sentence before", (text) => text],
  ["g", "segment", "part", (text) => (/^[1-9]\d{0,4}$/.test(text) ? Number(text) : undefined)],
  ["b", "beam", "beam width", (text) => (/^[1-9]\d{0,3}$/.test(text) ? Number(text) : undefined)],
  ["y", "target", "translation", (text) => text],
  ["w", "target_ids", "translation", parseIds],
  ["p", "prefix_ids", "beginning", parseIds],
  ["e", "edits", "list of edits", parseEdits],
  ["d", "drawing", "drawing", parseDrawing],
  ["k", "model", "model", (text) => (/^[0-9a-f]{1,64}$/.test(text) ? text : undefined)],
];

function readQuestion(parts: URLSearchParams): Pick<Link, "question" | "fault"> {
  const sentence = parts.get("s");
  const question: Record<string, unknown> = { sentence };
  for (const [key, name, noun, parse] of QUESTION_KEYS) {
    const text = parts.get(key);
    if (text === null) continue;
    const value = sentence ? parse(text) : undefined;
    const why = sentence ? `its ${noun} cannot be read` : `it has a ${noun} but no sentence`;
    if (value === undefined) return { question: null, fault: `This link is damaged: ${why}. Copy the whole link again.` };
    question[name] = value;
  }
  return { question: sentence ? (question as unknown as Question) : null, fault: null };
}

function parseIds(text: string): number[] | undefined {
  return /^\d{1,9}(\.\d{1,9})*$/.test(text) ? text.split(".").map(Number) : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Parses a list of edits; whether each can be made is checked by the server. */
function parseEdits(text: string): EditSpec[] | undefined {
  const edits = parseJson(text);
  return Array.isArray(edits) ? edits : undefined;
}

/** Parses the settings of a drawing; whether they make sense is checked by the server. */
function parseDrawing(text: string): Drawing | undefined {
  const drawing = parseJson(text);
  return typeof drawing === "object" && drawing !== null && !Array.isArray(drawing) ? (drawing as Drawing) : undefined;
}

/** Makes the question that gives this trace again from the same model. */
export function makeQuestion(manifest: Manifest): Question {
  const { beam, prefix, method, temperature, top_k, top_p, seed } = manifest.run.search;
  const prefixLength = typeof prefix === "string" && prefix ? prefix.split(" ").length : 0; // pieces hold no space
  return {
    ...nameSentence(manifest),
    ...(typeof beam === "number" && { beam }),
    ...(manifest.forced && { target_ids: manifest.target.ids }),
    ...(prefixLength > 0 && { prefix_ids: manifest.target.ids.slice(0, prefixLength) }),
    ...(manifest.edits.length > 0 && { edits: manifest.edits }),
    ...(method === "sample" && { drawing: { temperature, top_k, top_p, seed } as Drawing }),
    ...(manifest.model.sha256 && { model: manifest.model.sha256.slice(0, 12) }),
  };
}

/** Traces again what a trace follows from, by the model that is there: the source may have forgotten it. */
export async function traceAgain(app: App, manifest: Manifest): Promise<void> {
  const { model: _, ...question } = makeQuestion(manifest); // a kernel has one model and takes no name of it
  await app.askSource("trace", question);
}

/** Tells whether a trace answers a question, as far as the question is specific. */
export function isAnswerTo(manifest: Manifest, question: Question): boolean {
  const { target, model, segment, ...rest } = question;
  const ownQuestion = makeQuestion(manifest);
  const isGiven = target !== undefined || question.target_ids !== undefined; // then a line without a number is read whole
  if (ownQuestion.segment !== (segment ?? (isGiven || !manifest.part ? undefined : 1))) return false;
  if (target !== undefined && !(manifest.forced && manifest.target.text === target)) return false;
  if (model !== undefined && !manifest.model.sha256.startsWith(model)) return false;
  if (Boolean(ownQuestion.target_ids) !== Boolean(question.target_ids ?? target)) return false;
  if (Boolean(ownQuestion.prefix_ids) !== Boolean(question.prefix_ids) || Boolean(ownQuestion.edits) !== Boolean(question.edits)) return false;
  if (Boolean(ownQuestion.drawing) !== Boolean(question.drawing) || Boolean(ownQuestion.context) !== Boolean(question.context)) return false;
  return Object.entries(rest).every(([name, value]) => JSON.stringify(ownQuestion[name as keyof Question]) === JSON.stringify(value));
}

/** Makes a link to the current view. */
export function makeLink(app: App): Link {
  const manifest = app.manifest.value;
  return {
    place: app.place.value,
    step: app.step.value,
    story: app.story.value,
    mode: app.mode.value,
    follow: app.followed.value,
    switches: Object.entries(SWITCHES)
      .filter(([, name]) => app[name].value)
      .map(([letter]) => letter)
      .join(""),
    trace: manifest && !manifest.computed_here ? manifest.id : null, // a server knows its own traces only
    question: app.host === "page" && manifest ? makeQuestion(manifest) : null,
    fault: null,
  };
}

/** Makes the whole address of the current view. */
export function makeAddress(app: App): string {
  return `${location.href.replace(/#.*/, "")}#${writeLink(makeLink(app))}`;
}

/** Tells whether a link typed into the address of an open page is of another trace than the one shown. */
function pointsElsewhere(app: App, link: Link): boolean {
  const manifest = app.manifest.value;
  if (!manifest || link.fault !== null || (link.trace !== null && link.trace !== manifest.id)) return true;
  return link.question !== null && !isAnswerTo(manifest, link.question);
}

/** Moves the page to the place of a link. */
export function applyLink(app: App, link: Link): void {
  app.place.value = link.place;
  app.step.value = link.step;
  app.story.value = link.story;
  app.mode.value = link.mode;
  app.followed.value = link.follow;
  if (link.switches !== null)
    for (const [letter, name] of Object.entries(SWITCHES)) app[name].value = link.switches.includes(letter);
}

/** Shows the trace of a link, made again if the server no longer has it; sets a notice where the two differ. */
export async function openLink(app: App, link: Link): Promise<void> {
  const { trace, question, fault } = link;
  applyLink(app, link);
  if (app.source.kind === "file" || app.source.kind === "widget") {
    await app.showTrace();
    const manifest = app.manifest.value;
    const isOther = manifest && ((trace !== null && trace !== manifest.id) || (question !== null && !isAnswerTo(manifest, question)));
    if (fault !== null) app.notice.value = fault;
    else if (isOther)
      app.notice.value = `This link belongs to another translation than this file, which holds “${manifest.sentence}” by ${manifest.model.name}; open the link in the page or file that it was copied from.`;
    return;
  }
  if (fault !== null) {
    app.notice.value = fault;
    return;
  }
  if (trace !== null && (await app.showTrace(trace, (manifest) => question === null || isAnswerTo(manifest, question)))) return;
  if (!question) return;
  const answer = await app.askSource("trace", question);
  if (answer && trace !== null && answer.id !== trace)
    app.notice.value = `This link names another run (${trace}) than the one its sentence and settings give here (${answer.id}), so what you see may differ from what the link showed where it was copied.`;
}

/** Tells whether two places show the same picture, whatever row and column they point at. */
function isSameView(one: Place, other: Place): boolean {
  const [first, second] = [one, other].map((place) => JSON.stringify({ ...place, row: 0, col: 0 }, Object.keys({ ...one, ...other, row: 0, col: 0 }).sort()));
  return first === second;
}

/** Keeps the address and the page in step; gives back a function that stops it. In a sandboxed frame it does nothing. */
export function syncAddress(app: App): () => void {
  let view = app.place.value;
  let trace = app.manifest.value?.id;
  const arriving = signal(false); // true while the address is ahead of the page
  const stop = effect(() => {
    const fragment = `#${writeLink(makeLink(app))}`;
    const shownTrace = app.manifest.value?.id;
    if (!shownTrace || arriving.value || fragment === location.hash) return;
    const hasMoved = !isSameView(app.place.value, view) || (trace !== undefined && shownTrace !== trace);
    try {
      if (hasMoved) history.pushState(null, "", fragment);
      else history.replaceState(null, "", fragment);
    } catch {
      // a sandboxed frame has no history of its own
    }
    view = app.place.value;
    trace = shownTrace;
  });
  const followAddress = async () => {
    const link = readLink(location.hash);
    arriving.value = true;
    if (pointsElsewhere(app, link)) await openLink(app, link);
    else applyLink(app, link);
    view = app.place.value;
    trace = app.manifest.value?.id;
    arriving.value = false;
  };
  const onPopState = () => void followAddress();
  addEventListener("popstate", onPopState);
  return () => {
    stop();
    removeEventListener("popstate", onPopState);
  };
}
