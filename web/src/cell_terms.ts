// One cell of a tensor: its index, its labels, and the terms and steps it is computed from.

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
export function flattenIndex(shape: number[], index: number[]): number {
  const skip = index.length - shape.length;
  return shape.reduce((sum, size, axis) => sum * size + (size === 1 ? 0 : (index[axis + skip] ?? 0)), 0);
}

/** Projects an index onto the dimensions of a tensor that has fewer of them, or some of size 1. */
export function projectIndex(shape: number[], index: number[]): number[] {
  const skip = index.length - shape.length;
  return shape.map((size, axis) => (size === 1 ? 0 : (index[axis + skip] ?? 0)));
}

/** Labels a position with its piece where it has one, else with its number, counted from 0. */
export function labelPosition(manifest: Manifest, dim: string, position: number): string {
  return manifest.axes[dim]?.labels?.[position] ?? String(position);
}
