// Painting of sheets and thumbnails: where cells and headers stand, what lies under a point, and how they are drawn.
import { chooseInk, getColourTable, type Inks, type Scale, toRgb } from "./colour";
import { formatShort } from "./format";
import { SPACE } from "./parts";
import type { FramedCells, SheetAxis, SheetProps } from "./picture";
import { countFilled, type PlayFrame } from "./play";
import type { FollowedPiece } from "./state";

/** Angle of headers that are wider than their column. */
const SLANT = Math.PI / 3;

interface SheetCells {
  rows: SheetAxis;
  cols: SheetAxis;
  values: ArrayLike<number>;
  masked?: (row: number, col: number) => boolean;
}

/** Sizes in CSS pixels; cells begin at (left, top) and move under the headers when scrolled. */
export interface SheetLayout {
  left: number;
  top: number;
  right: number; // room for slanted headers beyond the last column
  width: number; // of a cell
  height: number;
  slanted: boolean;
  font: number;
}

export interface SheetView {
  layout: SheetLayout;
  scrollLeft: number;
  scrollTop: number;
  viewWidth: number;
  viewHeight: number;
  ratio: number;
}

/** The visible cells: rows from r0 up to but not including r1, columns likewise. */
interface VisibleCells {
  c0: number;
  c1: number;
  r0: number;
  r1: number;
}

function findVisibleCells(cells: SheetCells, view: SheetView): VisibleCells {
  const { layout } = view;
  return {
    c0: Math.max(0, Math.floor(view.scrollLeft / layout.width)),
    c1: Math.min(cells.cols.size, Math.ceil((view.scrollLeft + view.viewWidth - layout.left) / layout.width)),
    r0: Math.max(0, Math.floor(view.scrollTop / layout.height)),
    r1: Math.min(cells.rows.size, Math.ceil((view.scrollTop + view.viewHeight - layout.top) / layout.height)),
  };
}

/** Lays out cells as large as the room allows, within limits: small ones are hard to point at, large ones look clumsy. */
export function layOutSheet(
  cells: SheetCells,
  room: number,
  font: number,
  measure: (text: string) => number,
  options: { cell?: number; maxHeight?: number; numbers: boolean },
): SheetLayout {
  const { rows, cols } = cells;
  const left = measureRowHeader(rows, measure);
  const minWidth = options.numbers ? font * 3.4 : cols.labels ? font * 1.5 : 2;
  const maxWidth = Math.max(minWidth, cols.labels ? font * 3.2 : font * 1.4);
  const fitting = Math.floor((room - left - layOutColumnHeader(cols, 0, font, measure).right) / cols.size);
  const width = options.cell ?? Math.max(minWidth, Math.min(maxWidth, fitting));
  const header = layOutColumnHeader(cols, width, font, measure);
  const height = options.cell ?? chooseRowHeight(cells, width, font, options.numbers, (options.maxHeight ?? Number.POSITIVE_INFINITY) - header.top - 2);
  return { left, ...header, width, height, font };
}

/** Measures the room for the headers of rows. */
function measureRowHeader(rows: SheetAxis, measure: (text: string) => number): number {
  if (rows.size === 1 && !rows.labels) return 0;
  return rows.labels ? Math.min(150, measureWidest(rows.labels, measure)) + 18 : measure("0000") + 10;
}

/** Lays out the headers of columns of some width: slanted where a piece is wider than its column. */
function layOutColumnHeader(cols: SheetAxis, width: number, font: number, measure: (text: string) => number): Pick<SheetLayout, "top" | "right" | "slanted"> {
  if (!cols.labels) return { top: font + 8, right: 2, slanted: false };
  const widest = Math.min(120, measureWidest(cols.labels, measure));
  if (widest + 8 <= width) return { top: font + 12, right: 2, slanted: false };
  return { top: widest * Math.sin(SLANT) + font + 6, right: widest * Math.cos(SLANT) + 8, slanted: true };
}

const [VECTOR_WIDTH, VECTOR_HEIGHT] = [230, 150]; // CSS pixels of a vector that runs across or down
const [VECTORS_WIDTH, PRODUCT_WIDTH] = [280, 420]; // CSS pixels at most, beside and below a matrix of weights

/** CSS pixels of the line below a matrix: with fewer, it would be broken into four. */
export const CAPTION_WIDTH = 170;

/** Chooses the side of cells without words, in whole pixels where there is room for one each. */
function chooseSide(cells: number, room: number, font: number): number {
  const side = Math.min(font * 1.4, Math.max(0.1, room / cells));
  return side >= 1 ? Math.floor(side) : side;
}

/**
 * Lays out a product of two matrices so that they meet: the rows of the left factor are as high as those of the product beside
 * it, and the columns of the right factor as wide as those of the product below it. The product itself needs no headers.
 */
export function layOutProduct(
  { rows, cols, inner }: { rows: SheetAxis; cols: SheetAxis; inner: SheetAxis },
  room: number,
  font: number,
  measure: (text: string) => number,
  numbers: boolean,
): { left: SheetLayout; above: SheetLayout; result: SheetLayout } {
  const [leftHeader, aboveHeader] = [measureRowHeader(rows, measure), measureRowHeader(inner, measure)];
  if (!inner.labels && !cols.labels) {
    const share = room - leftHeader - aboveHeader - 2 * font;
    const innerRoom = Math.max(64, Math.min(VECTORS_WIDTH, share / 2, share - CAPTION_WIDTH));
    const innerWidth = numbers ? font * 3.4 : chooseSide(inner.size, innerRoom, font);
    const width = numbers ? font * 3.4 : chooseSide(cols.size, Math.min(PRODUCT_WIDTH, share - inner.size * innerWidth), font);
    const [height, innerHeight] = [font * 1.6, numbers ? font * 1.4 : chooseSide(inner.size, VECTOR_HEIGHT, font)];
    return {
      left: { left: leftHeader, ...layOutColumnHeader(inner, innerWidth, font, measure), width: innerWidth, height, font },
      above: { left: aboveHeader, ...layOutColumnHeader(cols, width, font, measure), width, height: innerHeight, font },
      result: { left: 0, top: 0, right: 2, width, height, slanted: false, font },
    };
  }
  const [words, plain] = inner.labels ? [inner, cols] : [cols, inner];
  const headers = leftHeader + aboveHeader + layOutColumnHeader(words, 0, font, measure).right + 4;
  const narrow = font * 1.5; // of a column with a piece above it
  const share = Math.min(VECTOR_WIDTH, room - headers - words.size * narrow);
  const plainWidth = numbers ? font * 3.4 : Math.max(2, Math.min(font * 1.4, Math.floor(share / plain.size)));
  const rest = room - headers - plain.size * plainWidth;
  const wordWidth = numbers ? font * 3.4 : Math.max(narrow, Math.min(font * 2.6, Math.floor(rest / words.size)));
  const height = Math.min(font * 2.6, Math.max(font * 1.6, wordWidth));
  const innerHeight = inner.labels ? font * 1.6 : numbers ? font * 1.4 : Math.max(2, Math.min(font * 1.4, Math.floor(VECTOR_HEIGHT / inner.size)));
  const [leftWidth, width] = inner.labels ? [wordWidth, plainWidth] : [plainWidth, wordWidth];
  // Beside few columns there is room for a sum, which the play writes under the cell that it gives.
  const used = leftHeader + aboveHeader + inner.size * leftWidth + cols.size * width;
  const right = Math.max(2, Math.min(font * 17 - cols.size * width, room - used - layOutColumnHeader(inner, leftWidth, font, measure).right));
  return {
    left: { left: leftHeader, ...layOutColumnHeader(inner, leftWidth, font, measure), width: leftWidth, height, font },
    above: { left: aboveHeader, ...layOutColumnHeader(cols, width, font, measure), width, height: innerHeight, font },
    result: { left: 0, top: 0, right, width, height, slanted: false, font },
  };
}

/** Chooses the height of rows: with words as high as letters need, if possible square; without, small enough to fit `room`. */
function chooseRowHeight(cells: SheetCells, width: number, font: number, numbers: boolean, room: number): number {
  const { rows, cols } = cells;
  if (rows.labels || rows.dim === "1") return Math.min(font * 3.2, Math.max(font * 1.6, cols.labels ? width : 0));
  return numbers ? font * 1.4 : Math.max(2, Math.min(font * 1.4, width, Math.floor(room / rows.size)));
}

function measureWidest(labels: string[], measure: (text: string) => number): number {
  return Math.max(0, ...labels.map(measure));
}

/** Finds the cell under a point of the view; null over a header. */
export function findCell(cells: SheetCells, view: SheetView, x: number, y: number): [number, number] | null {
  const { layout } = view;
  if (x < layout.left || y < layout.top) return null;
  const col = Math.floor((x - layout.left + view.scrollLeft) / layout.width);
  const row = Math.floor((y - layout.top + view.scrollTop) / layout.height);
  return row < cells.rows.size && col < cells.cols.size ? [row, col] : null;
}

/** Finds the header under a point of the view: its axis and position. */
export function findHeader(cells: SheetCells, view: SheetView, x: number, y: number): { axis: SheetAxis; at: number } | null {
  const { layout } = view;
  if (x < layout.left && y >= layout.top) {
    const row = Math.floor((y - layout.top + view.scrollTop) / layout.height);
    return row < cells.rows.size ? { axis: cells.rows, at: row } : null;
  }
  if (y < layout.top && x >= layout.left) {
    const lean = layout.slanted ? (layout.top - 6 - y) / Math.tan(SLANT) : 0;
    const col = Math.floor((x - lean - layout.left + view.scrollLeft) / layout.width);
    return col >= 0 && col < cells.cols.size ? { axis: cells.cols, at: col } : null;
  }
  return null;
}

interface SheetMarks {
  follow: FollowedPiece | null;
  framed: FramedCells;
  dimmed: boolean; // all rows but the framed one
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
  if (marks.dimmed) paintDimmed(context, layout, seen, marks.framed, inks);
  paintOutlines(context, cells, layout, marks, inks);
  context.restore();
  paintHeaders(context, cells, view, seen, marks.follow, inks);
}

/** How far a sheet has come in the play: its filled cells, and the row or column that another sheet is computed from. */
interface PlayedCells {
  row: number | null; // null: the sheet is whole
  filled: number; // cells of that row
  isTransposed: boolean; // the sheet fills by columns, and `row` is one of them
  sum: string; // how the newest of them is computed; "" for nothing
  read: { axis: "row" | "col"; at: number } | null;
}

/** Finds how far a sheet has come in a frame of the play; null where it takes no part. */
export function findPlayedCells({ rows, cols, play, masked }: SheetProps, frame: PlayFrame | null): PlayedCells | null {
  if (!play || !frame) return null;
  const { fills, reads, writeSum, isTransposed = false } = play;
  const [down, across] = isTransposed ? [cols, rows] : [rows, cols];
  const row = fills && down.dim === frame.dim && frame.row < down.size ? frame.row : null;
  const filled = fills && row !== null ? countFilled(fills, frame.share, across.size) : 0;
  const isFilling = row !== null && filled > 0 && filled < across.size && !isTransposed;
  const sum = !isFilling ? "" : masked?.(row, filled - 1) ? "masked" : (writeSum?.(row, filled - 1) ?? "");
  const count = reads?.axis === "row" ? rows.size : cols.size;
  const at = reads ? countFilled(reads, frame.share, count) : 0;
  const read = reads && at > 0 && frame.share < reads.to ? { axis: reads.axis, at: at - 1 } : null;
  return { row, filled, isTransposed, sum, read };
}

/** Paints a sheet as it is in the play: from the picture of the whole one, with the cells covered that are not computed yet. */
export function paintPlayedSheet(
  context: CanvasRenderingContext2D,
  whole: HTMLCanvasElement,
  cells: SheetCells,
  view: SheetView,
  { row, filled, isTransposed, sum, read }: PlayedCells,
  inks: Inks,
): void {
  const { layout, viewWidth, viewHeight, ratio } = view;
  const { width, height } = layout;
  const [sheetWidth, sheetHeight] = [cells.cols.size * width, cells.rows.size * height];
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, whole.width, whole.height);
  context.drawImage(whole, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.save();
  context.beginPath();
  context.rect(layout.left, layout.top, viewWidth - layout.left, viewHeight - layout.top);
  context.clip();
  context.translate(layout.left - view.scrollLeft, layout.top - view.scrollTop);
  if (row !== null) {
    context.fillStyle = inks.panel;
    if (isTransposed) {
      context.fillRect(row * width, filled * height, width, sheetHeight - filled * height);
      context.fillRect((row + 1) * width, 0, sheetWidth - (row + 1) * width, sheetHeight);
    } else {
      context.fillRect(filled * width, row * height, sheetWidth - filled * width, height);
      context.fillRect(0, (row + 1) * height, sheetWidth, sheetHeight - (row + 1) * height);
    }
    context.strokeStyle = inks.line;
    context.lineWidth = 1;
    context.strokeRect(0.5, 0.5, sheetWidth - 1, sheetHeight - 1);
  }
  if (row !== null && !isTransposed && filled > 0 && filled < cells.cols.size) outlineCells(context, (filled - 1) * width, row * height, width, height, inks.accent, 2.5, inks);
  if (read?.axis === "row") outlineCells(context, 1, read.at * height, sheetWidth - 2, height, inks.accent, 2.5, inks);
  if (read?.axis === "col") outlineCells(context, read.at * width, 1, width, sheetHeight - 2, inks.accent, 2.5, inks);
  context.restore();
  if (sum && row !== null) paintSum(context, sum, view, (filled - 0.5) * width, row * height, inks);
}

/** Writes a sum under the cell it gives, where nothing is computed yet; above it where there is no room below. */
function paintSum(context: CanvasRenderingContext2D, sum: string, view: SheetView, middle: number, top: number, inks: Inks): void {
  const { layout, viewWidth, viewHeight } = view;
  const { font, height } = layout;
  context.font = `${font}px ui-monospace, monospace`;
  const plateWidth = context.measureText(sum).width + 12;
  const plateHeight = font * 1.6;
  const left = Math.max(2, Math.min(viewWidth - plateWidth - 2, layout.left + middle - view.scrollLeft - plateWidth / 2));
  const below = layout.top + top - view.scrollTop + height + 5;
  const y = below + plateHeight < viewHeight ? below : below - height - plateHeight - 10;
  context.fillStyle = inks.panel;
  context.strokeStyle = inks.accent;
  context.lineWidth = 1;
  context.beginPath();
  context.roundRect(left, y, plateWidth, plateHeight, 4);
  context.fill();
  context.stroke();
  context.fillStyle = inks.ink;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(sum, left + 6, y + plateHeight / 2);
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
  for (let row = 0; row < rowCount; row++)
    for (let col = 0; col < colCount; col++)
      pixels.data.set([...toRgb(values[(seen.r0 + row) * cols.size + seen.c0 + col] as number, scale), 255], (row * colCount + col) * 4);
  small.putImageData(pixels, 0, 0);
  // One pixel for each cell, enlarged without blending; of cells smaller than a pixel the mean is seen.
  context.imageSmoothingEnabled = width < 1 || height < 1;
  context.drawImage(scratch, seen.c0 * width, seen.r0 * height, colCount * width, rowCount * height);
  if (masked) paintMasked(context, masked, layout, seen, inks, ratio);
  if (width >= 9 && height >= 9) paintGrid(context, layout, seen, inks);
  if (cols.group) paintGroups(context, cols.group.size, layout, seen, inks);
  if (!numbers || width < NUMBERS_FROM) return;
  context.font = `${Math.round(layout.font * 0.85)}px ui-monospace, monospace`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let row = seen.r0; row < seen.r1; row++)
    for (let col = seen.c0; col < seen.c1; col++) {
      if (masked?.(row, col)) continue;
      const value = values[row * cols.size + col] as number;
      context.fillStyle = chooseInk(toRgb(value, scale));
      context.fillText(formatShort(value), (col + 0.5) * width, (row + 0.5) * height + 0.5);
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
  for (let row = seen.r0; row < seen.r1; row++) {
    for (let col = seen.c0; col < seen.c1; col++) {
      if (!masked(row, col)) continue;
      const from = col;
      while (col + 1 < seen.c1 && masked(row, col + 1)) col++;
      context.rect(from * layout.width, row * layout.height, (col + 1 - from) * layout.width, layout.height);
    }
  }
  context.fillStyle = inks.panel;
  context.fill();
  context.fillStyle = makeHatching(context, inks, ratio);
  context.fill();
}

/** Makes a fill of slanted lines. */
function makeHatching(context: CanvasRenderingContext2D, inks: Inks, ratio: number): CanvasPattern | string {
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
  for (let col = seen.c0; col <= seen.c1; col++)
    context.fillRect(col * layout.width - 0.5, seen.r0 * layout.height, 1, (seen.r1 - seen.r0) * layout.height);
  for (let row = seen.r0; row <= seen.r1; row++)
    context.fillRect(seen.c0 * layout.width, row * layout.height - 0.5, (seen.c1 - seen.c0) * layout.width, 1);
}

/** Parts the columns of one group from those of the next. */
function paintGroups(context: CanvasRenderingContext2D, size: number, layout: SheetLayout, seen: VisibleCells, inks: Inks): void {
  context.fillStyle = inks.ink;
  for (let col = Math.ceil(Math.max(1, seen.c0) / size) * size; col < seen.c1; col += size)
    context.fillRect(col * layout.width - 0.5, seen.r0 * layout.height, 1, (seen.r1 - seen.r0) * layout.height);
}

/** Paints one plain area instead of values, while teach mode hides them. */
function paintHidden(context: CanvasRenderingContext2D, layout: SheetLayout, seen: VisibleCells, inks: Inks): void {
  context.fillStyle = inks.line;
  const width = (seen.c1 - seen.c0) * layout.width;
  context.fillRect(seen.c0 * layout.width, seen.r0 * layout.height, width, (seen.r1 - seen.r0) * layout.height);
  if (layout.width >= 9 && layout.height >= 9) paintGrid(context, layout, seen, inks);
}

const DIMMED = 0.6; // share of the paper's colour over rows that are not spoken of

/** Dims all visible rows but the framed one; where only a column is framed, all columns but that. */
function paintDimmed(context: CanvasRenderingContext2D, layout: SheetLayout, seen: VisibleCells, { row, col }: FramedCells, inks: Inks): void {
  const { width, height } = layout;
  const dim = (c0: number, r0: number, c1: number, r1: number) => context.fillRect(c0 * width, r0 * height, (c1 - c0) * width, (r1 - r0) * height);
  context.fillStyle = inks.panel;
  context.globalAlpha = DIMMED;
  if (row !== undefined) {
    dim(seen.c0, seen.r0, seen.c1, row);
    dim(seen.c0, row + 1, seen.c1, seen.r1);
  } else if (col !== undefined) {
    dim(seen.c0, seen.r0, col, seen.r1);
    dim(col + 1, seen.r0, seen.c1, seen.r1);
  }
  context.globalAlpha = 1;
}

function paintOutlines(context: CanvasRenderingContext2D, cells: SheetCells, layout: SheetLayout, marks: SheetMarks, inks: Inks): void {
  const { width, height } = layout;
  const [sheetWidth, sheetHeight] = [cells.cols.size * width, cells.rows.size * height];
  const outline = (x: number, y: number, w: number, h: number, colour: string, line: number) =>
    outlineCells(context, x, y, w, h, colour, line, inks);
  const { follow, framed } = marks;
  if (framed.row !== undefined) outline(1, framed.row * height, sheetWidth - 2, height, inks.accent, 2);
  // A product stands right of its left factor and below its right one: a row of the one and a column of the other meet in a cell.
  if (framed.col !== undefined && (framed.row === undefined || layout.top === 0)) outline(framed.col * width, 1, width, (framed.row === undefined ? sheetHeight : (framed.row + 1) * height) - 2, inks.accent, 2);
  if (framed.row !== undefined && framed.col !== undefined) outline(framed.col * width, framed.row * height, width, height, inks.accent, 3);
  if (follow && cells.rows.dim === follow.dim) outline(1, follow.index * height, sheetWidth - 2, height, inks.follow, 2);
  if (follow && cells.cols.dim === follow.dim) outline(follow.index * width, 1, width, sheetHeight - 2, inks.follow, 2);
  if (marks.hover) outline(marks.hover[1] * width, marks.hover[0] * height, width, height, inks.ink, 1);
  if (marks.pinned) outline(marks.pinned[1] * width, marks.pinned[0] * height, width, height, inks.accent, 2.5);
}

/** Draws a line around cells that stands out from any colour. */
function outlineCells(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, colour: string, line: number, inks: Inks): void {
  context.strokeStyle = inks.panel;
  context.lineWidth = line + 2;
  context.strokeRect(x, y, width, height);
  context.strokeStyle = colour;
  context.lineWidth = line;
  context.strokeRect(x, y, width, height);
}

/** Paints the headers of the visible part. */
function paintHeaders(
  context: CanvasRenderingContext2D,
  cells: SheetCells,
  view: SheetView,
  seen: VisibleCells,
  follow: FollowedPiece | null,
  inks: Inks,
): void {
  const { layout, viewWidth, viewHeight } = view;
  const plain = `${layout.font}px ui-sans-serif, system-ui, sans-serif`;
  const label = (text: string, followed: boolean, x: number, y: number) => {
    context.font = followed ? `bold ${plain}` : plain;
    if (followed) {
      const textWidth = context.measureText(text).width;
      const left = context.textAlign === "right" ? x - textWidth : context.textAlign === "center" ? x - textWidth / 2 : x;
      context.fillStyle = inks.follow;
      context.beginPath();
      context.roundRect(left - 5, y - layout.font * 0.72, textWidth + 10, layout.font * 1.4, 4);
      context.fill();
    }
    context.fillStyle = followed ? inks.followInk : inks.ink;
    fillPiece(context, text, x, y);
  };
  context.save();
  context.textBaseline = "middle";
  context.beginPath();
  const above = view.scrollTop === 0 ? layout.font * 0.6 : 0; // the number of a first row that is lower than its letters
  context.rect(0, layout.top - above, layout.left, viewHeight - layout.top + above);
  context.clip();
  context.textAlign = "right";
  for (const row of chooseTicks(cells.rows, seen.r0, seen.r1, layout.height, layout.font * 1.4)) {
    const y = layout.top + (row + 0.5) * layout.height - view.scrollTop;
    const text = clipText(context, cells.rows.labels?.[row], layout.left - 14, plain) ?? String(row);
    label(text, follow?.dim === cells.rows.dim && follow.index === row, layout.left - 8, y);
  }
  context.restore();
  context.save();
  context.textBaseline = "middle";
  context.beginPath();
  context.rect(layout.left - 4, 0, viewWidth - layout.left + 4, layout.top);
  context.clip();
  const { group } = cells.cols;
  const ticks = group
    ? Array.from({ length: cells.cols.size / group.size }, (_, i) => (i + 0.5) * group.size - 0.5)
    : chooseTicks(cells.cols, seen.c0, seen.c1, layout.width, layout.font * 3);
  for (const col of ticks) {
    const x = layout.left + (col + 0.5) * layout.width - view.scrollLeft;
    const name = group ? `${group.name} ${Math.floor(col / group.size) + 1}` : cells.cols.labels?.[col];
    const text = clipText(context, name, group ? group.size * layout.width : 120, plain) ?? String(col);
    const followed = follow?.dim === cells.cols.dim && follow.index === col;
    context.save();
    if (layout.slanted) {
      context.translate(x, layout.top - 6);
      context.rotate(-SLANT);
      context.textAlign = "left";
      label(text, followed, 2, 0);
    } else {
      context.textAlign = "center";
      label(text, followed, x, layout.top - layout.font * 0.75);
    }
    context.restore();
  }
  context.restore();
}

/** Paints a piece with the mark of its space dimmed. */
function fillPiece(context: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  if (!text.startsWith(SPACE)) return context.fillText(text, x, y);
  const textWidth = context.measureText(text).width;
  const start = context.textAlign === "right" ? x - textWidth : context.textAlign === "center" ? x - textWidth / 2 : x;
  const align = context.textAlign;
  context.textAlign = "left";
  context.globalAlpha = 0.75;
  context.fillText(SPACE, start, y);
  context.globalAlpha = 1;
  context.fillText(text.slice(1), start + context.measureText(SPACE).width, y);
  context.textAlign = align;
}

/** Chooses the positions that get a header: all pieces, and as many numbers as do not touch. */
function chooseTicks(axis: SheetAxis, from: number, to: number, side: number, room: number): number[] {
  if (axis.dim === "1") return [];
  const interval = axis.labels ? 1 : ([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((step) => step * side >= room) ?? 2048);
  const ticks = [];
  for (let position = Math.ceil(from / interval) * interval; position < to; position += interval) ticks.push(position);
  return ticks;
}

function clipText(context: CanvasRenderingContext2D, text: string | undefined, room: number, font: string): string | undefined {
  if (text === undefined) return undefined;
  context.font = font;
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return `${text.slice(0, end)}…`;
}

/** Paints every cell as a square of `side` device pixels. */
export function paintThumbnail(canvas: HTMLCanvasElement, cells: SheetCells, scale: Scale, side: number, inks: Inks): void {
  const { rows, cols, values, masked } = cells;
  const width = cols.size * side;
  canvas.width = width;
  canvas.height = rows.size * side;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const pixels = context.createImageData(width, canvas.height);
  const words = new Uint32Array(pixels.data.buffer);
  const table = getColourTable(scale).map(packPixel);
  const last = table.length - 1;
  const spread = last / (scale.largest - scale.least);
  const notANumber = packPixel(toRgb(Number.NaN, scale));
  const [panel, line] = [packPixel(parseHex(inks.panel)), packPixel(parseHex(inks.hatch))];
  for (let row = 0; row < rows.size; row++) {
    for (let col = 0; col < cols.size; col++) {
      const value = values[row * cols.size + col] as number;
      const hatched = masked?.(row, col) ?? false;
      const entry = Math.round((value - scale.least) * spread);
      const word = Number.isFinite(value) ? (table[entry < 0 ? 0 : entry > last ? last : entry] as number) : notANumber;
      for (let y = row * side; y < (row + 1) * side; y++)
        for (let x = col * side; x < (col + 1) * side; x++)
          words[y * width + x] = hatched ? ((x + y) % 6 === 0 ? line : panel) : word;
    }
  }
  context.putImageData(pixels, 0, 0);
}

function packPixel([red, green, blue]: readonly [number, number, number]): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function parseHex(colour: string): [number, number, number] {
  return [1, 3, 5].map((start) => Number.parseInt(colour.slice(start, start + 2), 16)) as [number, number, number];
}
