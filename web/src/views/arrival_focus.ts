// After going in or out: the heading of the new place is in view, and the next key or word of a reader starts there.

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useApp } from "../hooks";
import type { App } from "../state";

const openedApps = new WeakSet<App>();

/** For the heading of a view, with tabIndex -1: it takes the focus when what had it is gone, but not on opening the page. */
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

/** Whether nothing in the page that this element stands in has the focus. */
function isFocusLost(element: HTMLElement): boolean {
  const root = element.getRootNode();
  const active = root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
  return active === null || active === document.body;
}
