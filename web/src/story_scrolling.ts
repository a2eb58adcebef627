// Scrolling for the story: what it speaks of is brought into view above or beside it, and its panel fits into the
// window.

const SETTLING = 2500; // milliseconds in which numbers arrive and move what is below them
const MARGIN = 12; // pixels around what is scrolled to
const GAP = 14; // pixels between the panel of the story and the edges of the window
const LEAST_ROOM = 260; // pixels of a panel, in windows that are too low

/** Finds the elements that the story names, the most important first. */
export function findSubjects(root: HTMLElement, subjects: readonly string[]): HTMLElement[] {
  return subjects.flatMap((name) => root.querySelector<HTMLElement>(`[data-subject="${CSS.escape(name)}"]`) ?? []);
}

/**
 * Scrolls until what is found can be seen, also while numbers arrive, and until the reader scrolls; gives back how to
 * stop.
 */
export function keepInView(root: HTMLElement, find: () => HTMLElement[]): () => void {
  const centre = root.querySelector(".centre");
  if (!centre) return () => undefined;
  const observer = new ResizeObserver(() => scrollTo(root, find()));
  const events = ["wheel", "touchmove", "pointerdown"] as const;
  const stop = () => {
    observer.disconnect();
    clearTimeout(wait);
    for (const event of events) root.removeEventListener(event, stop);
  };
  const wait = setTimeout(stop, SETTLING);
  for (const event of events) root.addEventListener(event, stop, { passive: true });
  observer.observe(centre);
  for (const element of centre.querySelectorAll(".view")) observer.observe(element);
  return stop;
}

/**
 * Scrolls the page so that the first element is wholly in view, with as many of the others as fit above a story at
 * the lower edge.
 */
function scrollTo(root: HTMLElement, elements: HTMLElement[]): void {
  const boxes = elements.map((element) => element.getBoundingClientRect());
  const [first] = boxes;
  if (!first) return;
  // A product that is wider than the window is scrolled sideways within its own frame.
  const frame = elements[0]?.closest(".product");
  if (frame) {
    const { left, right } = frame.getBoundingClientRect();
    frame.scrollLeft += Math.max(0, first.right - right) - Math.max(0, left - first.left);
  }
  const room = innerHeight - measureStoryBelow(root);
  let { top, bottom } = first;
  for (const box of boxes) {
    const [higher, lower] = [Math.min(top, box.top), Math.max(bottom, box.bottom)];
    if (lower - higher + 2 * MARGIN <= room) [top, bottom] = [higher, lower];
  }
  if (top >= MARGIN && bottom <= room - MARGIN) return;
  const goal = bottom - top + 2 * MARGIN > room ? MARGIN : (room - (bottom - top)) / 2;
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  scrollBy({ top: top - goal, behavior: isStill ? "instant" : "smooth" });
}

/** Measures how much of the window a story at its lower edge covers; 0 where it stands beside the picture. */
function measureStoryBelow(root: HTMLElement): number {
  const story = root.querySelector<HTMLElement>(".story");
  if (!story || !["sticky", "fixed"].includes(getComputedStyle(story).position)) return 0;
  return story.offsetWidth > 0.9 * root.clientWidth ? story.offsetHeight : 0;
}

/**
 * Keeps the panel of the story as high as the window leaves room below its top, so that its foot is in view; gives
 * back how to stop.
 */
export function fitIntoWindow(panel: HTMLElement): () => void {
  let known = "";
  const fit = () => {
    const top = Math.max(GAP, (panel.parentElement ?? panel).getBoundingClientRect().top);
    const room = `${Math.round(Math.max(LEAST_ROOM, innerHeight - top - GAP))}px`;
    if (room !== known) panel.style.setProperty("--story-room", (known = room));
  };
  const observer = new ResizeObserver(fit);
  const root = panel.closest(".pellucid");
  const observeRows = () => {
    for (const element of root?.children ?? []) observer.observe(element);
  };
  const rows = new MutationObserver(observeRows); // the row of examples comes late
  if (root) rows.observe(root, { childList: true });
  observeRows();
  addEventListener("scroll", fit, { passive: true });
  addEventListener("resize", fit);
  fit();
  return () => {
    observer.disconnect();
    rows.disconnect();
    removeEventListener("scroll", fit);
    removeEventListener("resize", fit);
  };
}
