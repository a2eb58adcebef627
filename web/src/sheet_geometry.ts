// Geometry of a sheet: where its cells and headers stand, and what lies under a point.
import type { SheetAxis } from "./picture";

/** Angle of headers that are wider than their column. */
export const SLANT = Math.PI / 3;

export interface SheetCells {
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
export interface VisibleCells {
  c0: number;
  c1: number;
  r0: number;
  r1: number;
}

export function findVisibleCells(cells: SheetCells, view: SheetView): VisibleCells {
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
  const isVector = rows.size === 1 && !rows.labels;
  const left = isVector ? 0 : rows.labels ? Math.min(150, measureWidest(rows.labels, measure)) + 18 : measure("0000") + 10;
  const widestColumn = cols.labels ? Math.min(120, measureWidest(cols.labels, measure)) : 0;
  const minWidth = options.numbers ? font * 3.4 : cols.labels ? font * 1.5 : 2;
  const maxWidth = Math.max(minWidth, cols.labels ? font * 3.2 : font * 1.4);
  const slack = cols.labels ? widestColumn * Math.cos(SLANT) + 8 : 2;
  const fitting = Math.floor((room - left - slack) / cols.size);
  const width = options.cell ?? Math.max(minWidth, Math.min(maxWidth, fitting));
  const slanted = cols.labels !== undefined && widestColumn + 8 > width;
  const top = cols.labels ? (slanted ? widestColumn * Math.sin(SLANT) + font + 6 : font + 12) : font + 8;
  const height = options.cell ?? chooseRowHeight(cells, width, font, options.numbers, (options.maxHeight ?? Number.POSITIVE_INFINITY) - top - 2);
  return { left, top, right: slanted ? slack : 2, width, height, slanted, font };
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
