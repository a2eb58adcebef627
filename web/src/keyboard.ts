// The keys of the page, and what each does; a sheet that has the focus takes arrows, Enter and F for itself.
import { turnHead, turnLayer, turnStep, zoomOut } from "./navigation";
import type { App, Mode } from "./state";
import { STOPS } from "./story_stops";

export interface Key {
  keys: string[]; // as KeyboardEvent.key says them
  shown: string;
  does: string;
  act?: (app: App, page: PageHandles) => void;
}

/** What keys need of the page besides its state. */
export interface PageHandles {
  focusSentence(): void;
  toggleHelp(): void;
  closeHelp(): boolean; // whether it was open
}

export const KEYS: Key[] = [
  { keys: ["/"], shown: "/", does: "write a sentence", act: (_, page) => page.focusSentence() },
  { keys: [], shown: "Tab", does: "to the next matrix or control" },
  { keys: [], shown: "← → ↑ ↓", does: "another cell of a matrix" },
  { keys: [], shown: "Enter", does: "open: a block, a head, how one number is made" },
  { keys: ["Escape"], shown: "Esc", does: "let go of the followed piece, then zoom out", act: escape },
  { keys: ["["], shown: "[", does: "the head before", act: (app) => turnHead(app, -1) },
  { keys: ["]"], shown: "]", does: "the next head", act: (app) => turnHead(app, 1) },
  { keys: ["{"], shown: "{", does: "the layer before", act: (app) => turnLayer(app, -1) },
  { keys: ["}"], shown: "}", does: "the next layer", act: (app) => turnLayer(app, 1) },
  { keys: [","], shown: ",", does: "the step before", act: (app) => turnStep(app, -1) },
  { keys: ["."], shown: ".", does: "the next step", act: (app) => turnStep(app, 1) },
  { keys: ["f", "F"], shown: "F", does: "follow the piece of this row, then of this column", act: followStep },
  { keys: ["n", "N"], shown: "N", does: "numbers in the cells", act: (app) => flip(app.numbers) },
  { keys: ["t", "T"], shown: "T", does: "tables instead of pictures", act: (app) => flip(app.table) },
  { keys: ["m", "M"], shown: "M", does: "formula and code", act: (app) => flip(app.code) },
  { keys: ["c", "C"], shown: "C", does: "compare", act: (app) => app.go({ view: "compare" }) },
  { keys: ["w", "W"], shown: "W", does: "the words of the model on a map", act: (app) => app.go({ view: "words" }) },
  { keys: ["a", "A"], shown: "A", does: "claims of articles, measured here", act: (app) => app.go({ view: "claims" }) },
  { keys: ["p", "P"], shown: "P", does: "present: large letters", act: (app) => setMode(app, app.mode.value === "teach" ? "learn" : "teach") },
  { keys: [" "], shown: "Space", does: "hide or show the values, when presenting", act: hideOrShow },
  { keys: ["PageDown"], shown: "Page Down", does: "the next stop of the story", act: (app) => turnStop(app, 1) },
  { keys: ["PageUp"], shown: "Page Up", does: "the stop before", act: (app) => turnStop(app, -1) },
  { keys: ["?"], shown: "?", does: "this list", act: (_, page) => page.toggleHelp() },
];

/** Does what a key means here; whether it meant anything. */
export function press(app: App, page: PageHandles, event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  const target = event.composedPath()[0];
  const anywhere = event.key === "Escape" || event.key.startsWith("Page"); // a box of one line has no use for them
  if (event.key === "Escape" && target instanceof HTMLElement && takesText(target)) {
    target.blur(); // out of the box first
    return true;
  }
  if (!anywhere && target instanceof HTMLElement && takesText(target)) return false;
  const key = KEYS.find((each) => each.keys.includes(event.key));
  if (!key?.act) return false;
  const onControl = target instanceof HTMLElement && target.matches("button, a[href], summary, select, input");
  if (event.key === " " && (onControl || app.mode.value !== "teach")) return false;
  if (event.key.startsWith("Page") && app.story.value === null) return false;
  key.act(app, page);
  return true;
}

function takesText(element: HTMLElement): boolean {
  return element.matches("textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=range], [type=button])");
}

/** Learn, teach and debug: what each begins with. */
export function setMode(app: App, mode: Mode): void {
  app.mode.value = mode;
  app.hidden.value = false;
  if (mode === "debug") {
    app.story.value = null;
    app.go({ view: "debug" });
  } else if (app.story.value === null) app.story.value = 1;
}

function escape(app: App, page: PageHandles): void {
  if (page.closeHelp()) return;
  if (app.follow.value) app.follow.value = null;
  else zoomOut(app);
}

/** Where no sheet has the focus: the piece that this step writes. */
function followStep(app: App): void {
  const now = app.follow.value;
  const index = Math.min(app.step.value + 1, (app.manifest.value?.inputs.pieces.length ?? 1) - 1);
  app.follow.value = now ? null : { dim: "T", index };
}

function hideOrShow(app: App): void {
  flip(app.hidden);
}

function turnStop(app: App, by: number): void {
  if (app.story.value !== null) app.story.value = Math.min(STOPS, Math.max(1, app.story.value + by));
}

function flip(what: { value: boolean }): void {
  what.value = !what.value;
}
