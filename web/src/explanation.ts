// Explanation of any cell of any tensor: the numbers it is computed from, and whether they give the captured value again.

import { type Computation, getTensorRow, readNumber, type TraceNumbers } from "./cell_terms";
import { computeCell } from "./computation";
import { listInputs } from "./tensor_graph";
import type { Manifest, Op, TensorRow } from "./types";

export interface Explanation {
  row: TensorRow;
  index: number[];
  /** Null where the tensor was not captured. */
  captured: number | null;
  /** Inputs and parameters that were not captured: then nothing can be recomputed. */
  missing: string[];
  computation: Computation | null;
  comparison: Comparison | null;
}

export interface Comparison {
  passed: boolean;
  difference: number;
  limit: number;
}

/** Explains a cell; throws an Error for a tensor or an index that does not exist. */
export async function explainCell(numbers: TraceNumbers, name: string, index: number[]): Promise<Explanation> {
  const row = getTensorRow(numbers.manifest, name);
  if (index.length !== row.shape.length || index.some((position, axis) => !(position >= 0 && position < (row.shape[axis] ?? 0))))
    throw new Error(`${name} has the shape ${row.shape.join(" x ")}; there is no cell ${index.join(", ")}`);
  const captured = row.captured ? readNumber((await numbers.loadTensor(name)).values, row.shape, index) : null;
  const missing = listUncaptured(numbers.manifest, row.op);
  const computation = missing.length ? null : await computeCell(numbers, row, index);
  const isFloat16 = numbers.manifest.run.capture === "float16";
  return {
    row,
    index,
    captured,
    missing,
    computation,
    comparison: computation && captured !== null ? compareNumbers(captured, computation.value, computation.magnitude, isFloat16) : null,
  };
}

/**
 * Compares a captured number with the recomputed one: they agree within 1e-4 of the number or, where large terms cancel, within
 * 1e-6 of their sizes. A number stored as float16 was rounded by up to 2^-11, two to a product, and below 6e-8 to 0.
 */
export function compareNumbers(captured: number, recomputed: number, size: number, isFloat16: boolean): Comparison {
  const limit = Math.max(1e-4 * Math.abs(captured), isFloat16 ? size / 1024 + 6e-8 : 1e-6 * size);
  if (Object.is(captured, recomputed) || captured === recomputed) return { passed: true, difference: 0, limit };
  const difference = Math.abs(captured - recomputed);
  return { passed: difference <= limit, difference, limit };
}

/** Lists the parameters that an operation reads. */
export function listParameters(op: Op): string[] {
  if (op.kind === "lookup" || op.kind === "row") return [op.table];
  if (op.kind === "norm" || op.kind === "linear") return op.bias === null ? [op.weight] : [op.weight, op.bias];
  return [];
}

function listUncaptured(manifest: Manifest, op: Op): string[] {
  const captured = new Set([...manifest.tensors, ...manifest.parameters].filter((r) => r.captured).map((r) => r.name));
  return [...listInputs(op), ...listParameters(op)].filter((name) => !captured.has(name));
}
