// Pictures of tensors: which number stands in which cell, which cells are masked, and how a cell is described in words.
import type { Scale } from "./colour";
import { formatExact, type Ink } from "./format";
import type { PlaySpan } from "./play";
import type { SheetLayout } from "./sheet_painting";
import type { Manifest, TensorRow } from "./types";

export interface SheetAxis {
  dim: string;
  size: number;
  labels?: string[];
  /** Neighbours that belong together, such as the numbers of one head. */
  group?: { size: number; name: string };
}

/** A row, a column or, with both, a cell that a sheet points at. */
export interface FramedCells {
  row?: number;
  col?: number;
}

/** The part that a sheet takes in the play. */
export interface SheetPlay {
  /** When the row that is computed fills, cell by cell. */
  fills?: PlaySpan;
  /** Fills columns instead of rows: the sheet draws a transpose. */
  isTransposed?: boolean;
  /** Writes how a cell is computed from the numbers before it. */
  writeSum?: (row: number, col: number) => string;
  /** When a frame goes through the rows or the columns from which the cells of another sheet are computed. */
  reads?: PlaySpan & { axis: "row" | "col" };
}

/** Properties of a sheet: its numbers, colours and labels, and the action when a cell is opened. */
export interface SheetProps {
  values: ArrayLike<number>; // rows.size * cols.size numbers; NaN is shown as such
  rows: SheetAxis;
  cols: SheetAxis;
  scale: Scale;
  label: string;
  masked?: (row: number, col: number) => boolean;
  cell?: number; // CSS pixels of a side; by default chosen to fit
  layout?: SheetLayout; // chosen by what this sheet stands beside
  maxHeight?: number;
  bare?: boolean; // a thumbnail: no words, no keys
  onOpen?: (row: number, col: number) => void;
  /** Name by which the story points at this sheet. */
  subject?: string;
  /** Finds where this sheet shows a number that the story speaks of. */
  locate?: (index: readonly number[]) => FramedCells | null;
  /** Colour of the label: that of queries, keys or values. */
  ink?: Ink;
  framed?: FramedCells;
  play?: SheetPlay;
  onPin?: (row: number, col: number) => void;
  onHover?: (cell: readonly [number, number] | null) => void;
  /** Text beside the label: the shape, a fixed dimension. */
  note?: string;
}

interface Picture {
  rows: SheetAxis;
  cols: SheetAxis;
  values: Float32Array; // rows * cols
  masked?: (row: number, col: number) => boolean;
  /** Gives the whole index of a cell in its tensor. */
  index(row: number, col: number): number[];
  /** Finds the cell of an index, or its row or column where the index is not whole; null where it is not in this picture. */
  locate(index: readonly number[]): FramedCells | null;
  /** Names of the fixed dimensions with their numbers: "head 3". */
  fixedNames: string[];
}

/** Finds the mask of a tensor: of a pattern, or of the scores it was computed from. */
export function findMask(manifest: Manifest, name: string): TensorRow | undefined {
  const scaled = manifest.tensors.filter((row) => row.op.kind === "scale" && row.op.inputs[0] === name);
  const names = new Set([name, ...scaled.map((row) => row.name)]);
  for (const row of manifest.tensors) {
    if (row.op.kind !== "softmax") continue;
    const [scores, allowed] = row.op.inputs;
    if (row.name === name || names.has(scores)) return manifest.tensors.find((row) => row.name === allowed);
  }
  return undefined;
}

/** Makes a picture of a tensor with some dimensions fixed: the last two of the others, or the only one as a single row. */
export function makePicture(
  manifest: Manifest,
  row: TensorRow,
  values: Float32Array,
  allowed: { row: TensorRow; values: Float32Array } | null,
  fixedAt: Record<string, number> = {},
  transposed = false,
): Picture {
  const strides = computeStrides(row.shape);
  const wanted = row.dims.map((dim, i) => (row.dims.indexOf(dim) === i ? fixedAt[dim] : undefined));
  const drawnAxes = row.dims.flatMap((dim, i) => (dim === "1" || wanted[i] !== undefined ? [] : [i])).slice(-2);
  const fixed = row.shape.map((size, i) => Math.min(Math.max(0, wanted[i] ?? 0), size - 1));
  const fixedNames = row.dims.flatMap((dim, i) => (dim === "1" || drawnAxes.includes(i) ? [] : [`${nameDim(dim)} ${fixed[i]}`]));
  const [first, second] = drawnAxes.length > 1 ? drawnAxes : [undefined, drawnAxes[0]];
  const [down, across] = transposed ? [second, first] : [first, second];
  const rows = makeAxis(manifest, row, down);
  const cols = makeAxis(manifest, row, across);
  const index = (row: number, col: number) => {
    const cellIndex = [...fixed];
    if (down !== undefined) cellIndex[down] = row;
    if (across !== undefined) cellIndex[across] = col;
    return cellIndex;
  };
  const drawnValues = new Float32Array(rows.size * cols.size);
  const start = fixed.reduce((sum, at, i) => sum + at * (strides[i] as number), 0);
  const stepDown = down === undefined ? 0 : (strides[down] as number);
  const stepAcross = across === undefined ? 0 : (strides[across] as number);
  for (let row = 0; row < rows.size; row++)
    for (let col = 0; col < cols.size; col++)
      drawnValues[row * cols.size + col] = values[start + row * stepDown + col * stepAcross] as number;
  const masked = allowed?.values.includes(0)
    ? (row: number, col: number) => allowed.values[findBroadcastOffset(index(row, col), allowed.row.shape)] === 0
    : undefined;
  const locate = (sought: readonly number[]) => {
    const isHere = row.dims.every((dim, i) => drawnAxes.includes(i) || dim === "1" || sought[i] === undefined || sought[i] === fixed[i]);
    return isHere ? { row: findOn(sought, down), col: findOn(sought, across) } : null;
  };
  return { rows, cols, values: drawnValues, masked, index, locate, fixedNames };
}

function findOn(index: readonly number[], axis: number | undefined): number | undefined {
  return axis === undefined ? 0 : index[axis];
}

/** Makes a picture of the heads of a tensor (H, positions, E) side by side: one row for each position. */
export function makeMergedPicture(manifest: Manifest, row: TensorRow, values: Float32Array): Picture {
  const [heads = 0, positions = 0, width = 0] = row.shape;
  const rows = makeAxis(manifest, row, 1);
  const cols: SheetAxis = { dim: "HE", size: heads * width, group: { size: width, name: "head" } };
  const merged = Float32Array.from({ length: positions * heads * width }, (_, place) => {
    const [position, col] = [Math.floor(place / cols.size), place % cols.size];
    return values[(Math.floor(col / width) * positions + position) * width + (col % width)] as number;
  });
  const index = (position: number, col: number) => [Math.floor(col / width), position, col % width];
  const locate = ([head, position, number]: readonly number[]) => ({
    row: position,
    col: head === undefined || number === undefined ? undefined : head * width + number,
  });
  return { rows, cols, values: merged, index, locate, fixedNames: [] };
}

function makeAxis(manifest: Manifest, row: TensorRow, place: number | undefined): SheetAxis {
  if (place === undefined) return { dim: "1", size: 1 };
  const dim = row.dims[place] as string;
  const size = row.shape[place] as number;
  const labels = manifest.axes[dim]?.labels;
  return labels?.length === size ? { dim, size, labels } : { dim, size };
}

function computeStrides(shape: number[]): number[] {
  const strides = shape.map(() => 1);
  for (let i = shape.length - 2; i >= 0; i--) strides[i] = (strides[i + 1] as number) * (shape[i + 1] as number);
  return strides;
}

/** Finds the offset of a cell in a tensor that is broadcast to it; both end with the same dimensions. */
function findBroadcastOffset(index: number[], shape: number[]): number {
  const strides = computeStrides(shape);
  const skip = index.length - shape.length;
  return shape.reduce((sum, size, i) => sum + (size === 1 ? 0 : (index[skip + i] as number)) * (strides[i] as number), 0);
}

const DIM_NAMES: Record<string, string> = {
  S: "source position",
  T: "target position",
  D: "number",
  H: "head",
  E: "number of the head",
  F: "inner unit",
  "2F": "gate or value",
  HE: "number",
  V: "piece",
};

function nameDim(dim: string): string {
  return DIM_NAMES[dim] ?? dim;
}

/** Names a position: its piece, or its number. */
export function namePosition(axis: SheetAxis, position: number): string {
  const label = axis.labels?.[position];
  return label === undefined ? `${nameDim(axis.dim)} ${position}` : label;
}

/** Describes one cell in a sentence for a screen reader. */
export function describeCell(
  picture: { rows: SheetAxis; cols: SheetAxis; values: ArrayLike<number>; masked?: (row: number, col: number) => boolean },
  row: number,
  col: number,
): string {
  const { rows, cols, values, masked } = picture;
  const width = cols.size;
  const parts = [
    ...(rows.size > 1 || rows.labels ? [`row ${namePosition(rows, row)}`] : []),
    `column ${namePosition(cols, col)}`,
  ];
  if (masked?.(row, col)) return `${parts.join(", ")}, masked`;
  const value = values[row * width + col] as number;
  const allowed = Array.from({ length: width }, (_, col) => col).filter((col) => !masked?.(row, col));
  const larger = allowed.filter((col) => (values[row * width + col] as number) > value).length;
  const rank = larger === 0 ? "largest" : `${formatOrdinal(larger + 1)} largest`;
  const maskedCount = width - allowed.length;
  return `${parts.join(", ")}, value ${formatExact(value)}, ${rank} of ${allowed.length}, masked ${maskedCount || "none"}`;
}

function formatOrdinal(number: number): string {
  const tens = number % 100;
  const end = tens > 10 && tens < 14 ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${number}${end}`;
}
