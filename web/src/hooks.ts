// Hooks by which components reach the state of their page, wait for numbers, and learn the theme, their room and the focus.
import { effect, signal, untracked } from "@preact/signals";
import { createContext, type RefObject } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Paint } from "./play";
import { describeError } from "./format";
import type { App } from "./state";
import type { Tensor } from "./trace_cache";
import type { Check, Manifest } from "./types";

export const AppContext = createContext<App | null>(null);

/** Gets the state of the page that this component belongs to. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("a component of the page stands outside of it");
  return app;
}

export type Loaded<T> = { state: "loading" } | { state: "ready"; value: T } | { state: "missing"; message: string };

/** Waits for a promise; `load` runs again when `key` changes, and a value that is already `known` is given at once. */
export function useLoaded<T>(load: () => Promise<T>, key: string, known?: T): Loaded<T> {
  const [result, setResult] = useState<{ key: string; loaded: Loaded<T> } | null>(null);
  // Before the page is drawn: what was asked for is then on its way meanwhile.
  useLayoutEffect(() => {
    if (known !== undefined) return;
    let isMounted = true;
    const report = (loaded: Loaded<T>) => isMounted && setResult({ key, loaded });
    load().then(
      (value) => report({ state: "ready", value }),
      (error) => report({ state: "missing", message: describeError(error) }),
    );
    return () => {
      isMounted = false;
    };
  }, [key, known === undefined]); // the value itself belongs to the key
  if (known !== undefined) return { state: "ready", value: known };
  return result?.key === key ? result.loaded : { state: "loading" };
}

/** Waits for a tensor of the trace that is shown. */
export function useTensor(name: string): Loaded<Tensor> {
  const app = useApp();
  return useLoaded(() => app.loadTensor(name), `${app.manifest.value?.id} ${name}`, app.peekTensor(name));
}

/** Waits for the checks of a trace, which a server makes when they are asked for. */
export function useChecks(manifest: Manifest): Loaded<Check[]> {
  const app = useApp();
  const load = async () => {
    await waitUntilIdle(); // a server makes them in the time in which the page draws the numbers
    return (await app.fetchAnswer("checks", {})).checks;
  };
  return useLoaded(load, `${manifest.id} checks`, manifest.checks ?? undefined);
}

/** Waits until the page has nothing to do, for two seconds at most. */
export function waitUntilIdle(): Promise<unknown> {
  const hasIdle = typeof requestIdleCallback === "function"; // not in every browser
  return new Promise((resolve) => (hasIdle ? requestIdleCallback(resolve, { timeout: 2000 }) : setTimeout(resolve, 500)));
}

/** Lets the browser get ready to compute changes, where this component offers one. */
export function usePreparedSource(app: App): void {
  useEffect(() => app.source.prepare?.(), [app]);
}

const openedApps = new WeakSet<App>();

/** Focuses the heading of a view (with tabIndex -1) when the focused element is gone, but not when the page opens. */
export function useArrival<E extends HTMLElement>(place: string): RefObject<E | null> {
  const app = useApp();
  const heading = useRef<E>(null);
  useEffect(() => {
    const element = heading.current;
    if (!element) return;
    if (openedApps.has(app) && isFocusLost(element)) element.focus();
    openedApps.add(app);
  }, [place]);
  return heading;
}

/** Tells whether no element of the page has the focus. */
function isFocusLost(element: HTMLElement): boolean {
  const active = getActiveElement(element);
  return active === null || active === document.body;
}

/** Gets the focused element of the document, or of the shadow tree, that an element is in. */
export function getActiveElement(element: Element): Element | null {
  const root = element.getRootNode();
  return root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
}

/** Makes a row of controls one stop of the Tab key: arrow keys, Home and End go from one to the next. */
export function useOneTabStop<E extends HTMLElement>(row: RefObject<E | null>): void {
  useLayoutEffect(() => {
    const box = row.current;
    if (!box) return;
    const list = () => [...box.querySelectorAll<HTMLButtonElement>("button:not(:disabled)")];
    const makeReachable = (reachable: HTMLElement | undefined) => {
      for (const control of list()) control.tabIndex = control === reachable ? 0 : -1;
    };
    const active = getActiveElement(box);
    const focused = list().find((control) => control === active);
    makeReachable(focused ?? list().find((control) => control.matches("[aria-current]:not([aria-current=false]), [aria-pressed=true]")) ?? list()[0]);
    const onKeyDown = (event: KeyboardEvent) => {
      const controls = list();
      const place = controls.findIndex((control) => control === event.target);
      const next = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: controls.length - 1 }[event.key];
      if (place < 0 || next === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      const control = controls[Math.min(controls.length - 1, Math.max(0, next))];
      makeReachable(control);
      control?.focus();
      event.preventDefault();
      event.stopPropagation();
    };
    box.addEventListener("keydown", onKeyDown);
    return () => box.removeEventListener("keydown", onKeyDown);
  });
}

/** Scrolls a row of controls sideways until the current one is in view, again whenever `current` changes. */
export function useCurrentInView<E extends HTMLElement>(current: unknown): RefObject<E | null> {
  const row = useRef<E>(null);
  useEffect(() => {
    const box = row.current;
    const element = box?.querySelector<HTMLElement>("[aria-current]");
    if (!box || !element || box.scrollWidth <= box.clientWidth) return;
    const [outer, inner] = [box.getBoundingClientRect(), element.getBoundingClientRect()];
    if (inner.left < outer.left || inner.right > outer.right) box.scrollLeft += (inner.left + inner.right - outer.left - outer.right) / 2;
  }, [current]);
  return row;
}

const mediaQuery = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
const systemDark = signal(mediaQuery?.matches ?? false);
mediaQuery?.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});

/** Tells whether the page is dark now. */
export function useDark(): boolean {
  const { theme } = useApp();
  return theme.value === "auto" ? systemDark.value : theme.value === "dark";
}

/**
 * Paints an element after each render, when a signal changes that `paint` reads, and by each frame of the play in which the
 * element is in view. So a play renders no component again: that would take longer than a frame.
 */
export function usePainter(element: RefObject<Element | null>, paint: Paint): void {
  const { player } = useApp();
  const newest = useRef(paint);
  newest.current = paint;
  useLayoutEffect(() => {
    if (element.current) untracked(() => paint(player.getFrame()));
  });
  useLayoutEffect(() => {
    if (!element.current) return;
    const stopPainter = player.addPainter(element.current, (frame) => newest.current(frame));
    const stopEffect = effect(() => newest.current(player.getFrame()));
    return () => {
      stopPainter();
      stopEffect();
    };
  }, [element.current]);
}

/** Measures the width available for a sheet and its font size, again whenever the page changes. */
export function useAvailableSize(frame: { current: HTMLDivElement | null }): [number, number] {
  const [room, setRoom] = useState<[number, number]>([0, 12]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = () => {
      const font = Math.round(Number.parseFloat(getComputedStyle(element).fontSize) || 12);
      const width = Math.floor(element.parentElement?.clientWidth ?? 0);
      setRoom((now) => (now[0] === width && now[1] === font ? now : [width, font]));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element.parentElement ?? element);
    measure();
    return () => observer.disconnect();
  });
  return room;
}
