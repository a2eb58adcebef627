// Measures of attention weights and of position vectors, computed in the page.
import type { AttentionParts } from "./network";
import type { Drawing, Manifest, Tree } from "./types";

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

/** Finds the keys that are special tokens: in the source those without a word, in the target the start token. */
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

/** Computes e to each number, divided by the sum of them all; minus infinity gives 0. */
export function softmax(scores: readonly number[]): number[] {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = sumOf(powers);
  return powers.map((power) => power / sum);
}

/** Parses numbers separated by commas or spaces; null where there is something else, or fewer than two. */
export function parseNumbers(text: string): number[] | null {
  const words = text.replaceAll("−", "-").split(/[\s,;]+/).filter(Boolean);
  const numbers = words.map(Number);
  return words.length > 1 && words.length <= 64 && numbers.every((number) => Number.isFinite(number)) ? numbers : null;
}

/** Variant of the exponent. `paper`: 10000^(i / width), i the even dimension; `doubled`: code that doubles i although it is even already. */
type Exponent = "paper" | "doubled";

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
interface Sharpness {
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

function mean(values: readonly number[]): number {
  return values.length ? sumOf(values) / values.length : NaN;
}

/** Adds up some numbers. */
export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Counts the pieces that can be written: the likeliest of a step, and all others. */
export function countPieces(manifest: Manifest): number {
  const step = manifest.steps[0];
  return step ? step.top.length + step.others_count : 0;
}

/** Counts the candidates that a search scored: at each step, every piece after each beginning that was kept. */
export function countScored(tree: Tree, pieces: number): number {
  const steps = new Set(tree.nodes.map((node) => node.step));
  const first = Math.min(...steps); // not 0 where the translation began with a prefix
  const countKept = (step: number) => (step < first ? 1 : tree.nodes.filter((node) => node.step === step && node.fate === "kept").length);
  return [...steps].reduce((count, step) => count + pieces * countKept(step - 1), 0);
}

/** Computes the probability of each piece when it is drawn: softmax of logits / temperature, cut to top k, then to top p, each renormalised. */
export function computeDrawingChances(logits: ArrayLike<number>, { temperature, top_k, top_p }: Drawing): Float64Array {
  const order = Array.from(logits, (_, id) => id).sort((one, other) => (logits[other] ?? 0) - (logits[one] ?? 0));
  const kept = order.slice(0, top_k || order.length);
  const largest = logits[order[0] ?? 0] ?? 0;
  const raised = kept.map((id) => Math.exp(((logits[id] ?? 0) - largest) / temperature));
  const sum = sumOf(raised);
  const chances = new Float64Array(logits.length);
  let reached = 0; // by all pieces likelier than this one
  let total = 0;
  kept.forEach((id, place) => {
    const chance = (raised[place] ?? 0) / sum;
    if (reached < top_p) {
      chances[id] = chance;
      total += chance;
    }
    reached += chance;
  });
  return chances.map((chance) => chance / total);
}

/** How likely it is that a person keeps each word of the translation; null where the model was not calibrated. */
export function measureWordConfidences({ word_curve, target, steps }: Manifest): number[] | null {
  if (!word_curve) return null;
  const logProbs: number[] = [];
  target.words.forEach((word, i) => word !== null && (logProbs[word] = (logProbs[word] ?? 0) + (steps[i]?.chosen.log_prob ?? 0)));
  return logProbs.map((logProb) => word_curve.confidences[word_curve.scores.filter((score) => score <= logProb).length] ?? NaN);
}
