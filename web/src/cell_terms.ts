// One cell of a tensor: where it stands, what it is called, and the terms and steps it is computed from.

import type { Manifest, TensorRow } from "./types";

/** Where numbers come from: the app, or a test. */
export interface TraceNumbers {
  manifest: Manifest;
  loadTensor(name: string): Promise<{ row: TensorRow; values: Float32Array }>;
  loadParameter(name: string, first: number, end: number): Promise<{ values: Float32Array }>;
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
  caption: string;
  /** What the operands of each term are: "q" and "k", or a name with its weights. */
  operandNames: readonly string[];
  /** What a term is called: "product". */
  termName: string;
  terms: Term[];
  value: number;
}

/** One thing that is done besides summing. */
export interface ComputationStep {
  text: string;
  value: number;
  operands?: Operand[];
}

/** How one cell is made. */
export interface Computation {
  sums: Sum[];
  steps: ComputationStep[];
  value: number;
  /** The sizes of what was added up, at the scale of the cell: what rounding is relative to. */
  magnitude: number;
}

export function getTensorRow(manifest: Manifest, name: string): TensorRow {
  const row = manifest.tensors.find((tensor) => tensor.name === name);
  if (!row) throw new Error(`there is no tensor ${name}`);
  return row;
}

/** The number at an index; where a tensor has fewer dimensions or one of size 1, it is the same for all. */
export function readNumber(values: Float32Array, shape: number[], index: number[]): number {
  return values[flattenIndex(shape, index)] ?? Number.NaN;
}

export function flattenIndex(shape: number[], index: number[]): number {
  const skip = index.length - shape.length;
  return shape.reduce((sum, size, axis) => sum * size + (size === 1 ? 0 : (index[axis + skip] ?? 0)), 0);
}

/** An index within a tensor's own dimensions, for one that stands beside a tensor with more. */
export function projectIndex(shape: number[], index: number[]): number[] {
  const skip = index.length - shape.length;
  return shape.map((size, axis) => (size === 1 ? 0 : (index[axis + skip] ?? 0)));
}

/** What a position is called: its piece where it has one, else its number, counted from 0. */
export function labelPosition(manifest: Manifest, dim: string, position: number): string {
  return manifest.axes[dim]?.labels?.[position] ?? String(position);
}
