// Runs beside the one that is shown: without the mask, step by step, and how near cross-attention is to the identity.
import type { Diagonals, Masking } from "../types";
import { Cache } from "./cache";
import { decode, encode, logits, unseen, type Watch } from "./model";
import type { Trace } from "./trace";
import type { Translator } from "./translator";
import { mapNumbers, type Tensor } from "./tensor";

/** Compares the logits of the pieces that were read: with cached steps, with the mask, and without the mask. */
export function compareMasking({ model }: Translator, { manifest }: Trace): Masking {
  const { inputs, source } = manifest;
  const memory = encode({ model, watch: unseen }, source.ids);
  const products: number[][] = [];
  const record: Watch = (name, value) => {
    if (name === "decoder.0.self.products") products.push(...listRows(value, inputs.ids.length));
    return value;
  };
  const unmask: Watch = (name, value) => (/^decoder\.\d+\.self\.allowed$/.test(name) ? mapNumbers(value, () => 1) : value);
  const masked = logits({ model, watch: unseen }, decode({ model, watch: record }, inputs.ids, memory));
  const unmasked = logits({ model, watch: unseen }, decode({ model, watch: unmask }, inputs.ids, memory));
  const cache = new Cache();
  const steps = inputs.ids.map((id) => [...logits({ model, watch: unseen }, decode({ model, watch: unseen }, [id], memory, cache)).values]);
  const [rows, other] = [listRows(masked), listRows(unmasked)];
  const findDistances = (numbers: number[][]) => numbers.map((row, t) => row.reduce((most, value, i) => Math.max(most, Math.abs(value - rows[t]![i]!)), 0));
  const findBest = (row: number[]) => row.reduce((best, value, i) => (value > row[best]! ? i : best), 0);
  return {
    size: rows.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 0),
    kept: findDistances(steps),
    unmasked: findDistances(other),
    parted: rows.filter((row, t) => findBest(row) !== findBest(other[t]!)).length,
    products: { section: "decoder.0.self", head: 0, width: model.config.d_model / model.config.heads, rows: products },
  };
}

/** The weight on the diagonal of every head of every cross-attention of a trace, in the mean over the rows that have one. */
export function findDiagonals({ manifest, tensors }: Trace): Diagonals {
  const attentions = [...tensors.keys()].flatMap((name) => /^(decoder\.\d+\.cross)\.pattern$/.exec(name)?.[1] ?? []);
  return {
    source: manifest.source.text,
    target: manifest.target.text,
    pieces: [manifest.source.ids.length, manifest.target.ids.length],
    attentions: attentions.map((section) => {
      const pattern = tensors.get(`${section}.pattern`)!;
      // Row t of a pattern reads target piece t - 1 and writes piece t.
      return { section, written: averageDiagonal(pattern, 0), read: averageDiagonal(pattern, -1) };
    }),
  };
}

/** The mean weight of each head (H Q K) that row q has on key q + offset, over the rows with such a key; 0 where there is none. */
function averageDiagonal({ shape, values }: Tensor, offset: number): number[] {
  const [heads, queries, keys] = shape as [number, number, number];
  return Array.from({ length: heads }, (_, h) => {
    let [sum, count] = [0, 0];
    for (let q = Math.max(0, -offset); q < queries && q + offset < keys; q++, count++) sum += values[(h * queries + q) * keys + q + offset]!;
    return count ? sum / count : 0;
  });
}

/** The rows of a tensor whose last dimension has this length, or the first `count` of them. */
function listRows({ shape, values }: Tensor, count = Number.POSITIVE_INFINITY): number[][] {
  const width = shape.at(-1)!;
  return Array.from({ length: Math.min(count, values.length / width) }, (_, row) => [...values.subarray(row * width, (row + 1) * width)]);
}
