// The numbers that one cell is computed from: operands, terms and sums, read from the trace.
import type { Manifest, TensorRow } from "./types";

/** Source of the numbers of a trace: the app, or a test. */
export interface TraceNumbers {
  manifest: Manifest;
  loadTensor(name: string): Promise<{ row: TensorRow; values: Float32Array }>;
  loadParameter(name: string, first: number, end: number): Promise<{ values: Float32Array }>;
}

/** A number with the tensor or parameter and the index where it stands. */
export interface Operand {
  from: "tensor" | "parameter";
  name: string;
  index: number[];
  value: number;
}

/** One term of a sum, and the numbers it is computed from. */
export interface Term {
  label: string;
  operands: Operand[];
  value: number;
  /** True where the term is left out of the sum: a key that may not be read. */
  masked?: boolean;
  /** True for the term of the cell itself: its own key in a softmax. */
  own?: boolean;
}

export interface Sum {
  caption: string;
  /** Names of the operands of each term: "q" and "k", or a name and "weight". */
  operandNames: readonly string[];
  /** Name of a term: "product". */
  termName: string;
  terms: Term[];
  value: number;
}

/** One step of a computation that is not a sum. */
export interface ComputationStep {
  text: string;
  value: number;
  operands?: Operand[];
}

/** Sums and steps that compute one cell. */
export interface Computation {
  sums: Sum[];
  steps: ComputationStep[];
  value: number;
  /** Sum of the absolute values that were added up, at the scale of the cell; rounding errors are relative to it. */
  magnitude: number;
}

/** Gets the row of the manifest that describes a tensor; throws an Error where there is none. */
export function getTensorRow(manifest: Manifest, name: string): TensorRow {
  const row = manifest.tensors.find((tensor) => tensor.name === name);
  if (!row) throw new Error(`there is no tensor ${name}`);
  return row;
}

/** Reads the number at an index; a missing dimension, or one of size 1, is broadcast. */
export function readNumber(values: Float32Array, shape: number[], index: number[]): number {
  return values[flattenIndex(shape, index)] ?? Number.NaN;
}

/** Converts an index to an offset in row-major order; a missing dimension, or one of size 1, is broadcast. */
function flattenIndex(shape: number[], index: number[]): number {
  const skip = index.length - shape.length;
  return shape.reduce((sum, size, axis) => sum * size + (size === 1 ? 0 : (index[axis + skip] ?? 0)), 0);
}

/** Projects an index onto the dimensions of a tensor that has fewer of them, or some of size 1. */
function projectIndex(shape: number[], index: number[]): number[] {
  const skip = index.length - shape.length;
  return shape.map((size, axis) => (size === 1 ? 0 : (index[axis + skip] ?? 0)));
}

/** Labels a position with its piece where it has one, else with its number, counted from 0. */
export function labelPosition(manifest: Manifest, dim: string, position: number): string {
  return manifest.axes[dim]?.labels?.[position] ?? String(position);
}

/** Reads the cell at an index, broadcast where the tensor has fewer dimensions. */
export async function readCell(numbers: TraceNumbers, name: string, index: number[]): Promise<Operand> {
  const { row, values } = await numbers.loadTensor(name);
  return { from: "tensor", name, index: projectIndex(row.shape, index), value: readNumber(values, row.shape, index) };
}

/** Reads all cells along the last dimension. */
export async function readCells(numbers: TraceNumbers, name: string, index: number[]): Promise<Operand[]> {
  const { row, values } = await numbers.loadTensor(name);
  return Array.from({ length: last(row.shape) }, (_, i) => {
    const cellIndex = projectIndex(row.shape, [...index.slice(0, -1), i]);
    return { from: "tensor", name, index: cellIndex, value: readNumber(values, row.shape, cellIndex) };
  });
}

/** Reads one column of a head: one of its numbers at every position. */
export async function readColumn(numbers: TraceNumbers, name: string, head: number, e: number): Promise<Operand[]> {
  const { row, values } = await numbers.loadTensor(name);
  return Array.from({ length: row.shape[1] ?? 0 }, (_, k) => {
    const cellIndex = [head, k, e];
    return { from: "tensor", name, index: cellIndex, value: readNumber(values, row.shape, cellIndex) };
  });
}

/** Reads the heads of one position side by side. */
export async function readMergedHeads(numbers: TraceNumbers, name: string, position: number): Promise<Operand[]> {
  const heads = getTensorRow(numbers.manifest, name).shape[0] ?? 0;
  const rows = Array.from({ length: heads }, (_, h) => readCells(numbers, name, [h, position, 0]));
  return (await Promise.all(rows)).flat();
}

/** Reads one number of a parameter, at a row and column of a matrix or an index of a vector. */
export async function readParameter(numbers: TraceNumbers, name: string, index: number[]): Promise<Operand> {
  const [row = 0, column = 0] = index;
  const { values } = await numbers.loadParameter(name, row, row + 1);
  return { from: "parameter", name, index, value: values[column] ?? Number.NaN };
}

/** Reads one row of a weight matrix. */
export async function readWeights(numbers: TraceNumbers, name: string, row: number): Promise<Operand[]> {
  const { values } = await numbers.loadParameter(name, row, row + 1);
  return Array.from(values, (value, i) => ({ from: "parameter", name, index: [row, i], value }));
}

export function makeSum(caption: string, operandNames: readonly string[], termName: string, terms: Term[]): Sum {
  return { caption, operandNames, termName, terms, value: terms.reduce((sum, term) => sum + term.value, 0) };
}

/** Sums the absolute values of terms; rounding errors are relative to it. */
export function sumMagnitudes(terms: Term[]): number {
  return terms.reduce((sum, term) => sum + Math.abs(term.value), 0);
}

export function last<T>(items: T[]): T {
  return items[items.length - 1] as T;
}

export function getLastName(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}
