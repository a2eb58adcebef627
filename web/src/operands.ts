// The numbers a cell is made of, each with the place where it stands, and sums over them.

import { at, type Numbers, type Operand, rowOf, type Sum, type Term, within } from "./cell_terms";

/** The cell at an index, or what stands for it in a tensor that is the same for all. */
export async function cell(numbers: Numbers, name: string, index: number[]): Promise<Operand> {
  const { row, values } = await numbers.tensor(name);
  return { from: "tensor", name, index: within(row.shape, index), value: at(values, row.shape, index) };
}

/** All cells along the last dimension. */
export async function cells(numbers: Numbers, name: string, index: number[]): Promise<Operand[]> {
  const { row, values } = await numbers.tensor(name);
  return Array.from({ length: last(row.shape) }, (_, i) => {
    const place = within(row.shape, [...index.slice(0, -1), i]);
    return { from: "tensor", name, index: place, value: at(values, row.shape, place) };
  });
}

/** All cells of a head along the positions, at one place of its width. */
export async function column(numbers: Numbers, name: string, head: number, e: number): Promise<Operand[]> {
  const { row, values } = await numbers.tensor(name);
  return Array.from({ length: row.shape[1] ?? 0 }, (_, k) => {
    const place = [head, k, e];
    return { from: "tensor", name, index: place, value: at(values, row.shape, place) };
  });
}

/** The heads of one position side by side. */
export async function merged(numbers: Numbers, name: string, position: number): Promise<Operand[]> {
  const heads = rowOf(numbers.manifest, name).shape[0] ?? 0;
  const rows = Array.from({ length: heads }, (_, h) => cells(numbers, name, [h, position, 0]));
  return (await Promise.all(rows)).flat();
}

/** The number of a parameter at a row and column, or at a place of a vector. */
export async function parameter(numbers: Numbers, name: string, index: number[]): Promise<Operand> {
  const [row = 0, place = 0] = index;
  const { values } = await numbers.parameter(name, row, row + 1);
  return { from: "parameter", name, index, value: values[place] ?? Number.NaN };
}

/** One row of a matrix of weights. */
export async function weights(numbers: Numbers, name: string, row: number): Promise<Operand[]> {
  const { values } = await numbers.parameter(name, row, row + 1);
  return Array.from(values, (value, i) => ({ from: "parameter", name, index: [row, i], value }));
}

export function total(says: string, operands: readonly string[], term: string, terms: Term[]): Sum {
  return { says, operands, term, terms, value: terms.reduce((sum, one) => sum + one.value, 0) };
}

/** The sum of the sizes: what rounding is relative to. */
export function sizes(terms: Term[]): number {
  return terms.reduce((sum, one) => sum + Math.abs(one.value), 0);
}

export function last<T>(items: T[]): T {
  return items[items.length - 1] as T;
}

export function lastName(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}
