// The operands of a cell, each with the tensor and index where it stands, and sums over them.

import { getTensorRow, type Operand, projectIndex, readNumber, type Sum, type Term, type TraceNumbers } from "./cell_terms";

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
