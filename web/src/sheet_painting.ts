// Painting a sheet of cells on a canvas: values as colours, hatching for masked cells, and outlines.
import { chooseInk, type Scale, toRgb } from "./colour";
import { formatShort } from "./readout";
import { findVisibleCells, type SheetCells, type SheetLayout, type SheetView, type VisibleCells } from "./sheet_geometry";
import { paintHeaders } from "./sheet_headers";
import type { FollowedPiece } from "./state";
import type { Inks } from "./theme";

export interface SheetMarks {
  follow: FollowedPiece | null;
  pinned: readonly [number, number] | null;
  hover: readonly [number, number] | null;
  numbers: boolean;
  hidden: boolean;
}

const NUMBERS_FROM = 34; // CSS pixels of a cell that can hold a number

/** Paints the visible part of a sheet. */
export function paintSheet(context: CanvasRenderingContext2D, cells: SheetCells, scale: Scale, view: SheetView, marks: SheetMarks, inks: Inks): void {
  const { layout, viewWidth, viewHeight, ratio } = view;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, viewWidth, viewHeight);
  const seen = findVisibleCells(cells, view);
  context.save();
  context.beginPath();
  context.rect(layout.left, layout.top, viewWidth - layout.left, viewHeight - layout.top);
  context.clip();
  context.translate(layout.left - view.scrollLeft, layout.top - view.scrollTop);
  if (marks.hidden) paintHidden(context, layout, seen, inks);
  else paintCells(context, cells, scale, layout, seen, marks.numbers, inks, ratio);
  paintOutlines(context, cells, layout, marks, inks);
  context.restore();
  paintHeaders(context, cells, view, seen, marks.follow, inks);
}

let scratch: HTMLCanvasElement | null = null;

function paintCells(
  context: CanvasRenderingContext2D,
  cells: SheetCells,
  scale: Scale,
  layout: SheetLayout,
  seen: VisibleCells,
  numbers: boolean,
  inks: Inks,
  ratio: number,
): void {
  const { values, cols, masked } = cells;
  const { width, height } = layout;
  const [colCount, rowCount] = [seen.c1 - seen.c0, seen.r1 - seen.r0];
  if (colCount <= 0 || rowCount <= 0) return;
  scratch ??= document.createElement("canvas");
  scratch.width = colCount;
  scratch.height = rowCount;
  const small = scratch.getContext("2d") as CanvasRenderingContext2D;
  const pixels = small.createImageData(colCount, rowCount);
  for (let r = 0; r < rowCount; r++)
    for (let c = 0; c < colCount; c++)
      pixels.data.set([...toRgb(values[(seen.r0 + r) * cols.size + seen.c0 + c] as number, scale), 255], (r * colCount + c) * 4);
  small.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false; // one pixel for each cell, enlarged without blending
  context.drawImage(scratch, seen.c0 * width, seen.r0 * height, colCount * width, rowCount * height);
  if (masked) paintMasked(context, masked, layout, seen, inks, ratio);
  if (width >= 9 && height >= 9) paintGrid(context, layout, seen, inks);
  if (!numbers || width < NUMBERS_FROM) return;
  context.font = `${Math.round(layout.font * 0.85)}px ui-monospace, monospace`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let r = seen.r0; r < seen.r1; r++)
    for (let c = seen.c0; c < seen.c1; c++) {
      if (masked?.(r, c)) continue;
      const value = values[r * cols.size + c] as number;
      context.fillStyle = chooseInk(toRgb(value, scale));
      context.fillText(formatShort(value), (c + 0.5) * width, (r + 0.5) * height + 0.5);
    }
}

/** Hatches masked cells, so that they have no colour of the scale. */
function paintMasked(
  context: CanvasRenderingContext2D,
  masked: (row: number, col: number) => boolean,
  layout: SheetLayout,
  seen: VisibleCells,
  inks: Inks,
  ratio: number,
): void {
  context.beginPath();
  for (let r = seen.r0; r < seen.r1; r++) {
    for (let c = seen.c0; c < seen.c1; c++) {
      if (!masked(r, c)) continue;
      const from = c;
      while (c + 1 < seen.c1 && masked(r, c + 1)) c++;
      context.rect(from * layout.width, r * layout.height, (c + 1 - from) * layout.width, layout.height);
    }
  }
  context.fillStyle = inks.panel;
  context.fill();
  context.fillStyle = makeHatching(context, inks, ratio);
  context.fill();
}

/** Makes a fill of slanted lines. */
export function makeHatching(context: CanvasRenderingContext2D, inks: Inks, ratio: number): CanvasPattern | string {
  const side = 6;
  const tile = document.createElement("canvas");
  tile.width = tile.height = side * 2;
  const pen = tile.getContext("2d") as CanvasRenderingContext2D;
  pen.strokeStyle = inks.hatch;
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const from of [-side, 0, side]) {
    pen.moveTo(from * 2 - 2, side * 2 + 2);
    pen.lineTo(from * 2 + side * 2 + 2, -2);
  }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern?.setTransform(new DOMMatrix().scale(Math.max(0.5, 1 / ratio)));
  return pattern ?? inks.hatch;
}

function paintGrid(context: CanvasRenderingContext2D, layout: SheetLayout, seen: VisibleCells, inks: Inks): void {
  context.fillStyle = inks.panel;
  for (let c = seen.c0; c <= seen.c1; c++)
    context.fillRect(c * layout.width - 0.5, seen.r0 * layout.height, 1, (seen.r1 - seen.r0) * layout.height);
  for (let r = seen.r0; r <= seen.r1; r++)
    context.fillRect(seen.c0 * layout.width, r * layout.height - 0.5, (seen.c1 - seen.c0) * layout.width, 1);
}

/** Paints one plain area instead of values, while teach mode hides them. */
function paintHidden(context: CanvasRenderingContext2D, layout: SheetLayout, seen: VisibleCells, inks: Inks): void {
  context.fillStyle = inks.line;
  const width = (seen.c1 - seen.c0) * layout.width;
  context.fillRect(seen.c0 * layout.width, seen.r0 * layout.height, width, (seen.r1 - seen.r0) * layout.height);
  if (layout.width >= 9 && layout.height >= 9) paintGrid(context, layout, seen, inks);
}

function paintOutlines(context: CanvasRenderingContext2D, cells: SheetCells, layout: SheetLayout, marks: SheetMarks, inks: Inks): void {
  const { width, height } = layout;
  const [sheetWidth, sheetHeight] = [cells.cols.size * width, cells.rows.size * height];
  const outline = (x: number, y: number, w: number, h: number, colour: string, line: number) => {
    context.strokeStyle = inks.panel;
    context.lineWidth = line + 2;
    context.strokeRect(x, y, w, h);
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(x, y, w, h);
  };
  const { follow } = marks;
  if (follow && cells.rows.dim === follow.dim) outline(1, follow.index * height, sheetWidth - 2, height, inks.follow, 2);
  if (follow && cells.cols.dim === follow.dim) outline(follow.index * width, 1, width, sheetHeight - 2, inks.follow, 2);
  if (marks.hover) outline(marks.hover[1] * width, marks.hover[0] * height, width, height, inks.ink, 1);
  if (marks.pinned) outline(marks.pinned[1] * width, marks.pinned[0] * height, width, height, inks.accent, 2.5);
}
