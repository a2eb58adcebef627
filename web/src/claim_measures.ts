// What the cards of claims compute in the page: softmax, sines with two exponents, masks, diagonals, how alike heads are.

import { getHeadWeights, type Pattern } from "./patterns";

/** e to each number, divided by the sum of them all; minus infinity gives 0. */
export function softmax(scores: readonly number[]): number[] {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/** Numbers between commas or spaces; null where something else stands there, or fewer than two. */
export function parseNumbers(text: string): number[] | null {
  const words = text.replaceAll("−", "-").split(/[\s,;]+/).filter(Boolean);
  const numbers = words.map(Number);
  return words.length > 1 && words.length <= 64 && numbers.every((number) => Number.isFinite(number)) ? numbers : null;
}

/** `paper`: 10000^(i / width) with i the even dimension; `doubled`: code in which i is even already, and is doubled again. */
export type Exponent = "paper" | "doubled";

/** One number of the vector of a position: sine on even dimensions, cosine on odd ones. */
export function sinusoid(position: number, dim: number, width: number, exponent: Exponent): number {
  const even = dim - (dim % 2);
  const angle = position / 10000 ** (((exponent === "doubled" ? 2 : 1) * even) / width);
  return dim % 2 ? Math.cos(angle) : Math.sin(angle);
}

/** The vectors of the first positions, row after row. */
export function makeSinusoids(positions: number, width: number, exponent: Exponent): Float32Array {
  return Float32Array.from({ length: positions * width }, (_, i) => sinusoid(Math.floor(i / width), i % width, width, exponent));
}

/** The cosine of the vectors of two positions so far apart: the mean of the cosines of their angles, wherever they stand. */
export function cosineAtDistance(distance: number, width: number): number {
  return mean(Array.from({ length: width / 2 }, (_, i) => Math.cos(distance / 10000 ** ((2 * i) / width))));
}

/** Dimensions whose values lie closer together than this over the first positions. */
export function countConstantDims(width: number, positions: number, exponent: Exponent, tolerance = 0.01): number {
  let constant = 0;
  for (let d = 0; d < width; d++) {
    const column = Array.from({ length: positions }, (_, p) => sinusoid(p, d, width, exponent));
    if (Math.max(...column) - Math.min(...column) < tolerance) constant++;
  }
  return constant;
}

/** How sharp the rows of a head are, and how much a softmax so sharp still lets through to its scores. */
export interface Sharpness {
  largest: number; // the largest weight of a row
  slope: number; // Frobenius norm of the Jacobian of softmax, diag(p) - p p'
}

/**
 * The same head, its products divided by another number than they were: weights to the power `times`, made to sum to 1.
 * That needs no products, as a softmax keeps them but for one number a row. Means over the rows with more than one key.
 */
export function measureSharpness(weights: Float32Array, keys: number, exponent: number): Sharpness {
  const rows = Array.from({ length: weights.length / keys }, (_, q) => [...weights.subarray(q * keys, (q + 1) * keys)]);
  const openRows = rows.filter((row) => row.filter((weight) => weight > 0).length > 1);
  const rescaled = openRows.map((row) => softmax(row.map((weight) => Math.log(weight) * exponent)));
  return { largest: mean(rescaled.map((row) => Math.max(...row))), slope: mean(rescaled.map(softmaxSlope)) };
}

/** |diag(p) - p p'|: the root of sum_i p_i^2 (1 - p_i)^2 + sum_{i != j} p_i^2 p_j^2. */
export function softmaxSlope(p: readonly number[]): number {
  const squares = p.reduce((sum, weight) => sum + weight ** 2, 0);
  const off = squares ** 2 - p.reduce((sum, weight) => sum + weight ** 4, 0);
  return Math.sqrt(p.reduce((sum, weight) => sum + (weight * (1 - weight)) ** 2, 0) + Math.max(0, off));
}

/** The mean weight that row t has on key t + offset, over the rows where there is such a key. */
export function measureDiagonal(pattern: Pattern, head: number, offset: number): number {
  const weights = getHeadWeights(pattern, head);
  const diagonal: number[] = [];
  for (let t = 0; t < pattern.queries; t++) {
    const key = t + offset;
    if (key >= 0 && key < pattern.keys) diagonal.push(weights[t * pattern.keys + key] ?? NaN);
  }
  return diagonal.length ? mean(diagonal) : 0;
}

/** Mean over the queries of the sum of sqrt(p q), Bhattacharyya's coefficient: 1 read alike, 0 nothing in common. */
export function measureOverlap(first: Float32Array, second: Float32Array, queries: number): number {
  let sum = 0;
  first.forEach((weight, i) => (sum += Math.sqrt(weight * (second[i] ?? NaN))));
  return sum / Math.max(1, queries);
}

/** How alike every two heads of an attention read, row after row. */
export function measureOverlaps(pattern: Pattern): Float32Array {
  const heads = Array.from({ length: pattern.heads }, (_, h) => getHeadWeights(pattern, h));
  return Float32Array.from(heads.flatMap((first) => heads.map((second) => measureOverlap(first, second, pattern.queries))));
}

/** Causal weights, `mask` added to the products before they are divided by the root of the width, or to the scores after. */
export function computeMaskedWeights(products: readonly number[][], width: number, mask: number, where: "before" | "after"): number[][] {
  const root = Math.sqrt(width);
  return products.map((row, q) =>
    softmax(row.map((product, k) => (where === "before" ? (product + (k > q ? mask : 0)) / root : product / root + (k > q ? mask : 0)))),
  );
}

/** The largest difference of two tables of numbers. */
export function findLargestDifference(first: readonly number[][], second: readonly number[][]): number {
  return Math.max(...first.flatMap((row, q) => row.map((value, k) => Math.abs(value - (second[q]?.[k] ?? NaN)))));
}

/** The largest weight that a row gives to a key after it. */
export function findLargestLeak(weights: readonly number[][]): number {
  return Math.max(0, ...weights.flatMap((row, q) => row.slice(q + 1)));
}

export function mean(values: readonly number[]): number {
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN;
}
