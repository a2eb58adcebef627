// Explains any cell of any tensor from its operation: the numbers it is made of, and whether they give it again.

import { made } from "./made";
import { inputsOf } from "./roles";
import type { Manifest, Op, TensorRow } from "./types";

/** Where numbers come from: the app, or a test. */
export interface Numbers {
  manifest: Manifest;
  tensor(name: string): Promise<{ row: TensorRow; values: Float32Array }>;
  parameter(name: string, first: number, end: number): Promise<{ values: Float32Array }>;
}

/** A number with the place where it stands. */
export interface Operand {
  from: "tensor" | "parameter";
  name: string;
  index: number[];
  value: number;
}

/** One number of a sum, and the numbers it is made of. */
export interface Term {
  label: string;
  operands: Operand[];
  value: number;
  /** Set where the term is left out of the sum: a key that may not be read. */
  masked?: boolean;
  /** Set on the term that the cell itself stands for: its own key in a softmax. */
  own?: boolean;
}

export interface Sum {
  says: string;
  /** What the operands of each term are: "q" and "k", or a name with its weights. */
  operands: readonly string[];
  /** What a term is called: "product". */
  term: string;
  terms: Term[];
  value: number;
}

/** One thing that is done besides summing. */
export interface Line {
  says: string;
  value: number;
  operands?: Operand[];
}

/** How one cell is made. */
export interface Made {
  sums: Sum[];
  lines: Line[];
  value: number;
  /** The sizes of what was added up, at the scale of the cell: what rounding is relative to. */
  size: number;
}

export interface Explanation {
  row: TensorRow;
  index: number[];
  /** Null where the tensor was not captured. */
  captured: number | null;
  /** Inputs and parameters that were not captured: then nothing can be recomputed. */
  missing: string[];
  made: Made | null;
  comparison: Comparison | null;
}

export interface Comparison {
  passed: boolean;
  difference: number;
  limit: number;
}

/** How a cell is made; an Error for a tensor or an index that is not there. */
export async function explain(numbers: Numbers, name: string, index: number[]): Promise<Explanation> {
  const row = rowOf(numbers.manifest, name);
  if (index.length !== row.shape.length || index.some((at, axis) => !(at >= 0 && at < (row.shape[axis] ?? 0))))
    throw new Error(`${name} has the shape ${row.shape.join(" x ")}; there is no cell ${index.join(", ")}`);
  const captured = row.captured ? at((await numbers.tensor(name)).values, row.shape, index) : null;
  const missing = notCaptured(numbers.manifest, row.op);
  const cell = missing.length ? null : await made(numbers, row, index);
  const half = numbers.manifest.run.capture === "float16";
  return {
    row,
    index,
    captured,
    missing,
    made: cell,
    comparison: cell && captured !== null ? compare(captured, cell.value, cell.size, half) : null,
  };
}

/**
 * Whether a captured number is the recomputed one: within 1e-4 of itself or, where large terms cancel, within 1e-6 of
 * their sizes. Numbers stored as float16 were each rounded by up to 2^-11, two to a product, and below 6e-8 to nothing.
 */
export function compare(captured: number, recomputed: number, size: number, half: boolean): Comparison {
  const limit = Math.max(1e-4 * Math.abs(captured), half ? size / 1024 + 6e-8 : 1e-6 * size);
  if (Object.is(captured, recomputed) || captured === recomputed) return { passed: true, difference: 0, limit };
  const difference = Math.abs(captured - recomputed);
  return { passed: difference <= limit, difference, limit };
}

export function rowOf(manifest: Manifest, name: string): TensorRow {
  const row = manifest.tensors.find((tensor) => tensor.name === name);
  if (!row) throw new Error(`there is no tensor ${name}`);
  return row;
}

/** The parameters an operation reads. */
export function parametersOf(op: Op): string[] {
  if (op.kind === "lookup" || op.kind === "row") return [op.table];
  if (op.kind === "norm" || op.kind === "linear") return op.bias === null ? [op.weight] : [op.weight, op.bias];
  return [];
}

function notCaptured(manifest: Manifest, op: Op): string[] {
  const captured = new Set([...manifest.tensors, ...manifest.parameters].filter((r) => r.captured).map((r) => r.name));
  return [...inputsOf(op), ...parametersOf(op)].filter((name) => !captured.has(name));
}

/** The number at an index; where a tensor has fewer dimensions or one of size 1, it is the same for all. */
export function at(values: Float32Array, shape: number[], index: number[]): number {
  return values[offset(shape, index)] ?? Number.NaN;
}

export function offset(shape: number[], index: number[]): number {
  const skip = index.length - shape.length;
  return shape.reduce((sum, size, axis) => sum * size + (size === 1 ? 0 : (index[axis + skip] ?? 0)), 0);
}

/** An index within a tensor's own dimensions, for one that stands beside a tensor with more. */
export function within(shape: number[], index: number[]): number[] {
  const skip = index.length - shape.length;
  return shape.map((size, axis) => (size === 1 ? 0 : (index[axis + skip] ?? 0)));
}

/** What a position is called: its piece where it has one, else its number, counted from 0. */
export function labelOf(manifest: Manifest, dim: string, position: number): string {
  return manifest.axes[dim]?.labels?.[position] ?? String(position);
}
