// Focus after a change of view: the heading of the new view gets it, so that keys and screen readers go on from there.

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useApp } from "../hooks";
import type { App } from "../state";

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
  const root = element.getRootNode();
  const active = root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
  return active === null || active === document.body;
}
