// Measures that the claim cards compute in the page: softmax, sines with two exponents, masks, diagonals, overlap of heads.

import { getHeadWeights, type Pattern } from "./patterns";

/** Computes e to each number, divided by the sum of them all; minus infinity gives 0. */
export function softmax(scores: readonly number[]): number[] {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/** Parses numbers separated by commas or spaces; null where there is something else, or fewer than two. */
export function parseNumbers(text: string): number[] | null {
  const words = text.replaceAll("−", "-").split(/[\s,;]+/).filter(Boolean);
  const numbers = words.map(Number);
  return words.length > 1 && words.length <= 64 && numbers.every((number) => Number.isFinite(number)) ? numbers : null;
}

/** Variant of the exponent. `paper`: 10000^(i / width), i the even dimension; `doubled`: code that doubles i although it is even already. */
export type Exponent = "paper" | "doubled";

/** Computes one number of a position vector: sine on even dimensions, cosine on odd ones. */
export function sinusoid(position: number, dim: number, width: number, exponent: Exponent): number {
  const even = dim - (dim % 2);
  const angle = position / 10000 ** (((exponent === "doubled" ? 2 : 1) * even) / width);
  return dim % 2 ? Math.cos(angle) : Math.sin(angle);
}

/** Makes the vectors of the first positions, row after row. */
export function makeSinusoids(positions: number, width: number, exponent: Exponent): Float32Array {
  return Float32Array.from({ length: positions * width }, (_, i) => sinusoid(Math.floor(i / width), i % width, width, exponent));
}

/** Computes the cosine of two position vectors from their distance alone: the mean of the cosines of their angles. */
export function cosineAtDistance(distance: number, width: number): number {
  return mean(Array.from({ length: width / 2 }, (_, i) => Math.cos(distance / 10000 ** ((2 * i) / width))));
}

/** Counts the dimensions whose values differ by less than the tolerance over the first positions. */
export function countConstantDims(width: number, positions: number, exponent: Exponent, tolerance = 0.01): number {
  let constant = 0;
  for (let d = 0; d < width; d++) {
    const column = Array.from({ length: positions }, (_, p) => sinusoid(p, d, width, exponent));
    if (Math.max(...column) - Math.min(...column) < tolerance) constant++;
  }
  return constant;
}

/** Sharpness of the rows of a head, and the slope of softmax there, by which gradients reach the scores. */
export interface Sharpness {
  largest: number; // the largest weight of a row
  slope: number; // Frobenius norm of the Jacobian of softmax, diag(p) - p p'
}

/**
 * Measures a head as if its products had been divided by another number: weights to the power `exponent`, made to sum to 1.
 * The products are not needed, since weights determine them up to one number a row. Means over the rows with more than one key.
 */
export function measureSharpness(weights: Float32Array, keys: number, exponent: number): Sharpness {
  const rows = Array.from({ length: weights.length / keys }, (_, q) => [...weights.subarray(q * keys, (q + 1) * keys)]);
  const openRows = rows.filter((row) => row.filter((weight) => weight > 0).length > 1);
  const rescaled = openRows.map((row) => softmax(row.map((weight) => Math.log(weight) * exponent)));
  return { largest: mean(rescaled.map((row) => Math.max(...row))), slope: mean(rescaled.map(softmaxSlope)) };
}

/** Computes |diag(p) - p p'|: the root of sum_i p_i^2 (1 - p_i)^2 + sum_{i != j} p_i^2 p_j^2. */
export function softmaxSlope(p: readonly number[]): number {
  const squares = p.reduce((sum, weight) => sum + weight ** 2, 0);
  const off = squares ** 2 - p.reduce((sum, weight) => sum + weight ** 4, 0);
  return Math.sqrt(p.reduce((sum, weight) => sum + (weight * (1 - weight)) ** 2, 0) + Math.max(0, off));
}

/** Averages the weight of row t on key t + offset, over the rows where there is such a key. */
export function measureDiagonal(pattern: Pattern, head: number, offset: number): number {
  const weights = getHeadWeights(pattern, head);
  const diagonal: number[] = [];
  for (let t = 0; t < pattern.queries; t++) {
    const key = t + offset;
    if (key >= 0 && key < pattern.keys) diagonal.push(weights[t * pattern.keys + key] ?? NaN);
  }
  return diagonal.length ? mean(diagonal) : 0;
}

/** Averages Bhattacharyya's coefficient, the sum of sqrt(p q), over the queries: 1 for equal weights, 0 for nothing in common. */
export function measureOverlap(first: Float32Array, second: Float32Array, queries: number): number {
  let sum = 0;
  first.forEach((weight, i) => (sum += Math.sqrt(weight * (second[i] ?? NaN))));
  return sum / Math.max(1, queries);
}

/** Measures the overlap of every pair of heads of an attention, row after row. */
export function measureOverlaps(pattern: Pattern): Float32Array {
  const heads = Array.from({ length: pattern.heads }, (_, h) => getHeadWeights(pattern, h));
  return Float32Array.from(heads.flatMap((first) => heads.map((second) => measureOverlap(first, second, pattern.queries))));
}

/** Computes causal weights, with `mask` added to the products before their division by the root of the width, or after it. */
export function computeMaskedWeights(products: readonly number[][], width: number, mask: number, where: "before" | "after"): number[][] {
  const root = Math.sqrt(width);
  return products.map((row, q) =>
    softmax(row.map((product, k) => (where === "before" ? (product + (k > q ? mask : 0)) / root : product / root + (k > q ? mask : 0)))),
  );
}

/** Finds the largest difference of two tables of numbers. */
export function findLargestDifference(first: readonly number[][], second: readonly number[][]): number {
  return Math.max(...first.flatMap((row, q) => row.map((value, k) => Math.abs(value - (second[q]?.[k] ?? NaN)))));
}

/** Finds the largest weight that a row gives to a later key. */
export function findLargestLeak(weights: readonly number[][]): number {
  return Math.max(0, ...weights.flatMap((row, q) => row.slice(q + 1)));
}

export function mean(values: readonly number[]): number {
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN;
}
