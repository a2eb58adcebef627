// The line of the play: from the source piece that is read, through the head that reads it, to the bar that grows.
import type { RefObject } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { useApp, usePainter, useTensor } from "./hooks";
import { averageHeads, getHeadWeights, makePattern } from "./measures";
import { type AttentionParts, findTensorRow, listAttentions } from "./network";
import { easeWithin, type PlaySpan, READING, setStyle } from "./play";
import { findLargest } from "./story_parts";
import type { Tensor } from "./trace_cache";
import type { HeadStudyAnswer, Manifest } from "./types";

const PASSING: PlaySpan = { from: 0.3, to: 0.55 }; // from the head to the bar, which then begins to grow

/** What one step reads: the piece that the last layer reads most, and the head that tells most of it. */
interface ReadPiece {
  key: number;
  head: number;
}

/** Draws the line on a map; nothing where nothing is played, or the weights were not captured. */
export function PlayLine({ map }: { map: RefObject<HTMLElement | null> }) {
  const app = useApp();
  const manifest = app.manifest.value;
  const parts = manifest ? findLastCross(manifest) : null;
  if (app.player.state.value === "off" || app.hidden.value || !parts) return null;
  return <DrawnLine map={map} parts={parts} />;
}

function DrawnLine({ map, parts }: { map: RefObject<HTMLElement | null>; parts: AttentionParts }) {
  const app = useApp();
  const drawing = useRef<SVGSVGElement>(null);
  const drawn = useRef(""); // the step and the size of the map for which the paths stand
  const loaded = useTensor(parts.pattern);
  const study = app.headStudy.value;
  const steps = useMemo(
    () => (loaded.state === "ready" ? listReadPieces(loaded.value, parts, study) : []),
    [loaded.state, parts.section, study],
  );
  usePainter(drawing, (frame) => {
    const svg = drawing.current;
    const read = frame?.dim === "T" ? steps[frame.row] : undefined;
    if (!svg || !map.current || !frame) return;
    setStyle(svg, "opacity", read ? "1" : "0");
    if (!read) return;
    const wanted = `${frame.row} ${map.current.clientWidth} ${map.current.clientHeight}`;
    if (drawn.current !== wanted) {
      drawn.current = wanted;
      placeLine(map.current, svg, parts, read);
    }
    [READING, PASSING].forEach((span, i) => {
      svg.children[i]?.setAttribute("stroke-dashoffset", (1 - easeWithin(span, frame.share)).toFixed(3));
    });
  });
  return (
    <svg ref={drawing} class="map-arrows play-line" width="100%" height="100%" aria-hidden="true">
      {[READING, PASSING].map(() => (
        <path pathLength={1} stroke-dasharray="1" stroke-dashoffset="1" />
      ))}
    </svg>
  );
}

/** Finds the last attention whose keys are source pieces and whose queries are steps, if its weights were captured. */
export function findLastCross(manifest: Manifest): AttentionParts | null {
  const cross = listAttentions(manifest).findLast((parts) => parts.queryDim === "T" && parts.keyDim === "S");
  return cross && findTensorRow(manifest, cross.pattern)?.captured ? cross : null;
}

/**
 * Lists for each step the piece with the largest mean weight, and the head with the largest weight on it, times its
 * cost if that is known.
 */
function listReadPieces({ values, row }: Tensor, parts: AttentionParts, study: HeadStudyAnswer | null): ReadPiece[] {
  const pattern = makePattern(values, row.shape);
  const { queries, keys, heads } = pattern;
  const mean = averageHeads(pattern);
  const costs = Array.from({ length: heads }, (_, head) => {
    const entry = study?.study?.heads.find((other) => other.attention === parts.section && other.head === head);
    return Math.max(1e-6, entry?.silent ?? 1);
  });
  return Array.from({ length: queries }, (_, query) => {
    const key = findLargest(mean.subarray(query * keys, (query + 1) * keys));
    const tells = costs.map((cost, head) => cost * (getHeadWeights(pattern, head)[query * keys + key] ?? 0));
    return { key, head: findLargest(tells) };
  });
}

/**
 * Places both halves of the line: from the piece to the head, and from there to the bar of the piece that is written.
 */
function placeLine(map: HTMLElement, svg: SVGSVGElement, { section }: AttentionParts, { key, head }: ReadPiece): void {
  const origin = map.getBoundingClientRect();
  const locate = (selector: string, index: number, x: number, y: number) => {
    const box = map.querySelectorAll(selector)[index]?.getBoundingClientRect();
    return box && [box.left + x * box.width - origin.left, box.top + y * box.height - origin.top];
  };
  const piece = locate('[data-pieces="S"] > .piece-chip', key, 0.5, 0);
  const face = locate(`[data-block="${CSS.escape(section)}"] .head-face`, head, 0.5, 0.5);
  const bar = locate(".map-candidates > .current-step .map-track", 0, 0, 0.5);
  const halves = piece && face && bar ? [bend(piece, face), bend(face, bar)] : ["", ""];
  halves.forEach((path, i) => svg.children[i]?.setAttribute("d", path));
}

/** Bends a line upwards, from one point to another. */
function bend([x0 = 0, y0 = 0]: number[], [x1 = 0, y1 = 0]: number[]): string {
  const middle = (y0 + y1) / 2;
  return `M${x0} ${y0} C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
}
