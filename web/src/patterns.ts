// Measures of attention weights: entropy, largest weight, weight on special tokens, norms of contributions.

import type { AttentionParts } from "./tensor_graph";
import type { Manifest } from "./types";

/** Number of keys above which pictures of patterns need more room beside each other. */
export const WIDE_KEYS = 14;

/** All heads of one attention: values of (H, queries, keys). */
export interface Pattern {
  values: Float32Array;
  heads: number;
  queries: number;
  keys: number;
}

export interface HeadMeasures {
  head: number;
  entropy: number; // in nats, the mean over the queries
  largest: number; // the largest weight of a row, the mean over the queries
  onSpecialTokens: number; // weight on special tokens, the mean over the queries
}

export function makePattern(values: Float32Array, shape: number[]): Pattern {
  const [heads = 0, queries = 0, keys = 0] = shape;
  return { values, heads, queries, keys };
}

/** Gets the weights of one head, row after row. */
export function getHeadWeights(pattern: Pattern, head: number): Float32Array {
  const size = pattern.queries * pattern.keys;
  return pattern.values.subarray(head * size, (head + 1) * size);
}

export function measureHead(pattern: Pattern, head: number, specialTokens: ReadonlySet<number>): HeadMeasures {
  const weights = getHeadWeights(pattern, head);
  let [entropy, largest, onSpecialTokens] = [0, 0, 0];
  for (let q = 0; q < pattern.queries; q++) {
    const row = weights.subarray(q * pattern.keys, (q + 1) * pattern.keys);
    entropy += computeEntropy(row);
    largest += Math.max(...row);
    row.forEach((weight, key) => {
      if (specialTokens.has(key)) onSpecialTokens += weight;
    });
  }
  const n = Math.max(1, pattern.queries);
  return { head, entropy: entropy / n, largest: largest / n, onSpecialTokens: onSpecialTokens / n };
}

/** Computes the entropy -sum of p log p, in nats; a weight of 0 adds nothing. */
export function computeEntropy(weights: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < weights.length; i++) {
    const p = weights[i] ?? 0;
    if (p > 0) sum -= p * Math.log(p);
  }
  return sum;
}

/** Finds the keys that are special tokens: in the source those without a word, in the target the start mark. */
export function findSpecialTokens(manifest: Manifest, dim: string): Set<number> {
  if (dim !== "S") return new Set([0]);
  return new Set(manifest.source.words.flatMap((word, i) => (word === null ? [i] : [])));
}

/** Averages the weights over the heads, row after row. */
export function averageHeads(pattern: Pattern): Float32Array {
  const mean = new Float32Array(pattern.queries * pattern.keys);
  for (let h = 0; h < pattern.heads; h++) getHeadWeights(pattern, h).forEach((weight, i) => (mean[i] = (mean[i] ?? 0) + weight / pattern.heads));
  return mean;
}

/**
 * Computes the length of the vector that each key adds to each query: weight times the norm of the value times W_O (Kobayashi
 * et al. 2020). `v` is (H, keys, E); `rows` are the rows of W_O, (D, H * E) from row `first` on.
 */
export function computeContributionNorms(pattern: Pattern, head: number, v: Float32Array, width: number, rows: Float32Array): Float32Array {
  const inner = pattern.heads * width;
  const outer = rows.length / inner;
  const norms = Array.from({ length: pattern.keys }, (_, key) => {
    const value = v.subarray((head * pattern.keys + key) * width, (head * pattern.keys + key + 1) * width);
    let square = 0;
    for (let d = 0; d < outer; d++) {
      let sum = 0;
      for (let e = 0; e < width; e++) sum += (value[e] ?? NaN) * (rows[d * inner + head * width + e] ?? NaN);
      square += sum * sum;
    }
    return Math.sqrt(square);
  });
  return getHeadWeights(pattern, head).map((weight, i) => weight * (norms[i % pattern.keys] ?? NaN));
}

/** Makes a test for masked cells: `allowed` has a number for each, or one row for all; undefined where none is masked. */
export function makeMask(allowed: Float32Array | undefined, keys: number): ((row: number, col: number) => boolean) | undefined {
  if (!allowed?.includes(0)) return undefined;
  return (row, col) => allowed[allowed.length > keys ? row * keys + col : col] === 0;
}

/** Tells whether two attentions can be compared cell by cell: they have the same queries and keys. */
export function haveSameAxes(first: AttentionParts, second: AttentionParts): boolean {
  return first.queryDim === second.queryDim && first.keyDim === second.keyDim;
}
