// Which numbers of a tensor stand in which cell of a picture, which of them are masked, and how they are told in words.
import type { Scale } from "./colour";
import { formatExact } from "./readout";
import type { Manifest, TensorRow } from "./types";

export interface SheetAxis {
  dim: string;
  size: number;
  labels?: string[];
}

/** A sheet of numbers: which, how they are coloured and labelled, and what happens when a cell is opened. */
export interface SheetProps {
  values: ArrayLike<number>; // rows.size * cols.size numbers; NaN is shown as such
  rows: SheetAxis;
  cols: SheetAxis;
  scale: Scale;
  label: string;
  masked?: (row: number, col: number) => boolean;
  cell?: number; // CSS pixels of a side; what fits where absent
  maxHeight?: number;
  bare?: boolean; // a thumbnail: no words, no keys
  onOpen?: (row: number, col: number) => void;
  /** Said beside the label: the shape, a fixed dimension. */
  note?: string;
}

export interface Picture {
  rows: SheetAxis;
  cols: SheetAxis;
  values: Float32Array; // rows * cols
  masked?: (row: number, col: number) => boolean;
  /** The whole index of a cell in its tensor. */
  index(row: number, col: number): number[];
  /** Dimensions that were fixed, as words: "head 3". */
  fixedNames: string[];
}

/** The tensor that says which cells of `name` may be read: a pattern's, or its scores'. */
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

/** What remains of a tensor when some dimensions are fixed: two of them, or one as a single row. */
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
  const index = (r: number, c: number) => {
    const cellIndex = [...fixed];
    if (down !== undefined) cellIndex[down] = r;
    if (across !== undefined) cellIndex[across] = c;
    return cellIndex;
  };
  const drawnValues = new Float32Array(rows.size * cols.size);
  const start = fixed.reduce((sum, at, i) => sum + at * (strides[i] as number), 0);
  const stepDown = down === undefined ? 0 : (strides[down] as number);
  const stepAcross = across === undefined ? 0 : (strides[across] as number);
  for (let r = 0; r < rows.size; r++)
    for (let c = 0; c < cols.size; c++)
      drawnValues[r * cols.size + c] = values[start + r * stepDown + c * stepAcross] as number;
  const masked = allowed?.values.includes(0)
    ? (r: number, c: number) => allowed.values[findBroadcastOffset(index(r, c), allowed.row.shape)] === 0
    : undefined;
  return { rows, cols, values: drawnValues, masked, index, fixedNames };
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

/** Where a cell stands in a tensor that is the same along some dimensions; both end with the same ones. */
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
  V: "piece",
};

export function nameDim(dim: string): string {
  return DIM_NAMES[dim] ?? dim;
}

/** A position in words: its piece, or its number. */
export function namePosition(axis: SheetAxis, position: number): string {
  const label = axis.labels?.[position];
  return label === undefined ? `${nameDim(axis.dim)} ${position}` : label;
}

/** One cell in a sentence, as a screen reader says it. */
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
  const allowed = Array.from({ length: width }, (_, c) => c).filter((c) => !masked?.(row, c));
  const larger = allowed.filter((c) => (values[row * width + c] as number) > value).length;
  const rank = larger === 0 ? "largest" : `${formatOrdinal(larger + 1)} largest`;
  const maskedCount = width - allowed.length;
  return `${parts.join(", ")}, value ${formatExact(value)}, ${rank} of ${allowed.length}, masked ${maskedCount || "none"}`;
}

function formatOrdinal(number: number): string {
  const tens = number % 100;
  const end = tens > 10 && tens < 14 ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${number}${end}`;
}
