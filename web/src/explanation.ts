// Explains any cell of any tensor from its operation: the numbers it is made of, and whether they give it again.

import { at, type Made, type Numbers, rowOf } from "./cell_terms";
import { made } from "./computation";
import { inputsOf } from "./tensor_graph";
import type { Manifest, Op, TensorRow } from "./types";

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
