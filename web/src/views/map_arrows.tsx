// The arrows of the map: keys and values from the end of one stack to each attention of another that reads them.

import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

interface ArrowDrawing {
  width: number;
  height: number;
  paths: string[];
  label: { x: number; y: number } | null;
}

export function Arrows(props: { map: RefObject<HTMLElement | null> }) {
  const [drawing, setDrawing] = useState<ArrowDrawing | null>(null);
  useLayoutEffect(() => {
    const map = props.map.current;
    if (!map) return;
    const measure = () => setDrawing(measureArrows(map));
    const observer = new ResizeObserver(measure);
    observer.observe(map);
    for (const stack of map.children) observer.observe(stack);
    measure();
    return () => observer.disconnect();
  }, []);
  if (!drawing) return null;
  return (
    <svg class="map-arrows" width={drawing.width} height={drawing.height} aria-hidden="true">
      <defs>
        <marker id="map-arrow-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0 L8 4 L0 8 z" />
        </marker>
      </defs>
      {drawing.paths.map((path) => (
        <path class="map-arrow" d={path} marker-end="url(#map-arrow-tip)" />
      ))}
      {drawing.label ? (
        <text x={drawing.label.x} y={drawing.label.y}>
          K, V
        </text>
      ) : null}
    </svg>
  );
}

function measureArrows(map: HTMLElement): ArrowDrawing {
  const origin = map.getBoundingClientRect();
  const paths: string[] = [];
  let label: ArrowDrawing["label"] = null;
  for (const reader of map.querySelectorAll<HTMLElement>("[data-reads]")) {
    const stack = map.querySelector<HTMLElement>(`[data-stack="${CSS.escape(reader.dataset.reads ?? "")}"]`);
    const end = [...(stack?.querySelectorAll<HTMLElement>("[data-end]") ?? [])].at(-1);
    const into = reader.querySelector(".map-box:not(.map-norm)");
    if (!end || !into || !stack) continue;
    const [from, to] = [end.getBoundingClientRect(), into.getBoundingClientRect()];
    const [x0, y0] = [from.right - origin.left, from.top + from.height / 2 - origin.top];
    const [x1, below] = [to.left - origin.left + 16, to.bottom - origin.top];
    const bend = stack.getBoundingClientRect().right - origin.left + 22;
    paths.push(`M${x0} ${y0} H${bend} V${below + 5} H${x1} V${below + 1}`);
    label ??= { x: bend + 6, y: y0 - 6 };
  }
  return { width: origin.width, height: origin.height, paths, label };
}
