// The numbers a cell is made of, each with the place where it stands, and sums over them.

import { getTensorRow, type Operand, projectIndex, readNumber, type Sum, type Term, type TraceNumbers } from "./cell_terms";

/** The cell at an index, or what stands for it in a tensor that is the same for all. */
export async function readCell(numbers: TraceNumbers, name: string, index: number[]): Promise<Operand> {
  const { row, values } = await numbers.loadTensor(name);
  return { from: "tensor", name, index: projectIndex(row.shape, index), value: readNumber(values, row.shape, index) };
}

/** All cells along the last dimension. */
export async function readCells(numbers: TraceNumbers, name: string, index: number[]): Promise<Operand[]> {
  const { row, values } = await numbers.loadTensor(name);
  return Array.from({ length: last(row.shape) }, (_, i) => {
    const cellIndex = projectIndex(row.shape, [...index.slice(0, -1), i]);
    return { from: "tensor", name, index: cellIndex, value: readNumber(values, row.shape, cellIndex) };
  });
}

/** All cells of a head along the positions, at one place of its width. */
export async function readColumn(numbers: TraceNumbers, name: string, head: number, e: number): Promise<Operand[]> {
  const { row, values } = await numbers.loadTensor(name);
  return Array.from({ length: row.shape[1] ?? 0 }, (_, k) => {
    const cellIndex = [head, k, e];
    return { from: "tensor", name, index: cellIndex, value: readNumber(values, row.shape, cellIndex) };
  });
}

/** The heads of one position side by side. */
export async function readMergedHeads(numbers: TraceNumbers, name: string, position: number): Promise<Operand[]> {
  const heads = getTensorRow(numbers.manifest, name).shape[0] ?? 0;
  const rows = Array.from({ length: heads }, (_, h) => readCells(numbers, name, [h, position, 0]));
  return (await Promise.all(rows)).flat();
}

/** The number of a parameter at a row and column, or at a place of a vector. */
export async function readParameter(numbers: TraceNumbers, name: string, index: number[]): Promise<Operand> {
  const [row = 0, column = 0] = index;
  const { values } = await numbers.loadParameter(name, row, row + 1);
  return { from: "parameter", name, index, value: values[column] ?? Number.NaN };
}

/** One row of a matrix of weights. */
export async function readWeights(numbers: TraceNumbers, name: string, row: number): Promise<Operand[]> {
  const { values } = await numbers.loadParameter(name, row, row + 1);
  return Array.from(values, (value, i) => ({ from: "parameter", name, index: [row, i], value }));
}

export function makeSum(caption: string, operandNames: readonly string[], termName: string, terms: Term[]): Sum {
  return { caption, operandNames, termName, terms, value: terms.reduce((sum, term) => sum + term.value, 0) };
}

/** The sum of the sizes: what rounding is relative to. */
export function sumMagnitudes(terms: Term[]): number {
  return terms.reduce((sum, term) => sum + Math.abs(term.value), 0);
}

export function last<T>(items: T[]): T {
  return items[items.length - 1] as T;
}

export function getLastName(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}
