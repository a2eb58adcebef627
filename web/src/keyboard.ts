// The keys of the page and their actions; a sheet that has the focus takes arrows, Enter and F for itself.
import { moveCell, moveHead, moveLayer, moveStep, TABS, zoomOut } from "./navigation";
import type { App, Mode } from "./state";
import { STOP_COUNT } from "./story_stops";

interface Key {
  keys: string[]; // values of KeyboardEvent.key
  shown: string;
  meaning: string;
  run?: (app: App, page: PageHandles) => void;
}

/** Actions of the page that keys need besides its state. */
interface PageHandles {
  focusSentence(): void;
  toggleHelp(): void;
  closeHelp(): boolean; // whether it was open
}

export const KEYS: Key[] = [
  { keys: ["/"], shown: "/", meaning: "write a sentence", run: (_, page) => page.focusSentence() },
  { keys: [], shown: "Tab", meaning: "go to the next matrix or control" },
  { keys: [], shown: "← → ↑ ↓", meaning: "move to another cell of a matrix, or control of a row" },
  { keys: ["ArrowLeft"], shown: "←", meaning: "previous number of a vector, where one number is open", run: (app) => moveCell(app, -1) },
  { keys: ["ArrowRight"], shown: "→", meaning: "next number of a vector, where one number is open", run: (app) => moveCell(app, 1) },
  { keys: [], shown: "Enter", meaning: "open a block, a head, or the computation of a number" },
  { keys: ["Escape"], shown: "Esc", meaning: "stop following a piece, then zoom out", run: letGo },
  ...TABS.slice(0, 9).map(([view, name], i): Key => ({
    keys: [String(i + 1)],
    shown: String(i + 1),
    meaning: `show the view ${name}`,
    run: (app) => app.goTo({ view }),
  })),
  { keys: ["["], shown: "[", meaning: "previous head", run: (app) => moveHead(app, -1) },
  { keys: ["]"], shown: "]", meaning: "next head", run: (app) => moveHead(app, 1) },
  { keys: ["{"], shown: "{", meaning: "previous layer", run: (app) => moveLayer(app, -1) },
  { keys: ["}"], shown: "}", meaning: "next layer", run: (app) => moveLayer(app, 1) },
  { keys: [","], shown: ",", meaning: "previous step", run: (app) => moveStep(app, -1) },
  { keys: ["."], shown: ".", meaning: "next step", run: (app) => moveStep(app, 1) },
  { keys: ["k", "K"], shown: "K", meaning: "play or pause: the translation is written piece by piece", run: (app) => app.player.toggle() },
  { keys: ["f", "F"], shown: "F", meaning: "follow the piece of this row, then of this column", run: toggleFollowStep },
  { keys: ["n", "N"], shown: "N", meaning: "show or hide numbers in the cells", run: (app) => toggleSwitch(app.numbers) },
  { keys: ["t", "T"], shown: "T", meaning: "show tables instead of pictures", run: (app) => toggleSwitch(app.table) },
  { keys: ["m", "M"], shown: "M", meaning: "show or hide formulas and code", run: (app) => toggleSwitch(app.code) },
  { keys: ["c", "C"], shown: "C", meaning: "compare two traces", run: (app) => app.goTo({ view: "compare" }) },
  { keys: ["w", "W"], shown: "W", meaning: "show the model's vocabulary on a map", run: (app) => app.goTo({ view: "words" }) },
  { keys: ["a", "A"], shown: "A", meaning: "show claims of articles, measured here", run: (app) => app.goTo({ view: "claims" }) },
  { keys: ["p", "P"], shown: "P", meaning: "teach mode: large letters", run: (app) => setMode(app, app.mode.value === "teach" ? "learn" : "teach") },
  { keys: [" "], shown: "Space", meaning: "hide or show the values, in teach mode", run: toggleHidden },
  { keys: ["PageDown"], shown: "Page Down", meaning: "next stop of the story", run: (app) => moveStop(app, 1) },
  { keys: ["PageUp"], shown: "Page Up", meaning: "previous stop of the story", run: (app) => moveStop(app, -1) },
  { keys: ["?"], shown: "?", meaning: "show this list", run: (_, page) => page.toggleHelp() },
];

/** Performs the action of a key; gives whether it had one. */
export function handleKey(app: App, page: PageHandles, event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  const target = event.composedPath()[0];
  const worksInText = event.key === "Escape" || event.key.startsWith("Page"); // a one-line input has no use for them
  if (event.key === "Escape" && target instanceof HTMLElement && takesText(target)) {
    target.blur(); // leave the input first
    return true;
  }
  if (!worksInText && target instanceof HTMLElement && takesText(target)) return false;
  const key = KEYS.find((candidate) => candidate.keys.includes(event.key));
  if (!key?.run) return false;
  const onControl = target instanceof HTMLElement && target.matches("button, a[href], summary, select, input");
  if (event.key === " " && (onControl || app.mode.value !== "teach")) return false;
  if (event.key.startsWith("Page") && app.story.value === null) return false;
  if (event.key.startsWith("Arrow") && (app.place.value.view !== "cell" || (onControl && target.matches("select, input")))) return false;
  key.run(app, page);
  return true;
}

function takesText(element: HTMLElement): boolean {
  return element.matches("textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=range], [type=button])");
}

/** Switches to a mode (learn, teach or debug) and its initial view. */
export function setMode(app: App, mode: Mode): void {
  app.mode.value = mode;
  app.hidden.value = false;
  if (mode === "debug") {
    app.story.value = null;
    app.goTo({ view: "debug" });
  } else if (app.story.value === null) app.story.value = 1;
}

function letGo(app: App, page: PageHandles): void {
  if (page.closeHelp()) return;
  if (app.followed.value) app.followed.value = null;
  else zoomOut(app);
}

/** Follows the piece that this step writes, or lets go; for when no sheet has the focus. */
function toggleFollowStep(app: App): void {
  const followed = app.followed.value;
  const index = Math.min(app.step.value + 1, (app.manifest.value?.inputs.pieces.length ?? 1) - 1);
  app.followed.value = followed ? null : { dim: "T", index };
}

function toggleHidden(app: App): void {
  toggleSwitch(app.hidden);
}

function moveStop(app: App, by: number): void {
  if (app.story.value !== null) app.story.value = Math.min(STOP_COUNT, Math.max(1, app.story.value + by));
}

function toggleSwitch(state: { value: boolean }): void {
  state.value = !state.value;
}
