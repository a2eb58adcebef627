// Multi-head attention (paper, 3.2), with the formulas and names of src/pellucid/model/attention.py.
import type { LayerCache } from "./cache";
import type { Run } from "./model";
import { rotate } from "./positions";
import { joinPositions, linear, makeTensor, mapNumbers, mergeHeads, multiply, multiplyTransposed, splitHeads, type Tensor } from "./tensor";

/** softmax(q k^T / sqrt(E)) v for all heads at once (paper, 3.2.1, equation 1); `allowed` is 1 where a query may read a key. */
export function attend(run: Run, name: string, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor): Tensor {
  const products = run.watch(`${name}.products`, multiplyTransposed(q, k));
  const scores = run.watch(`${name}.scores`, mapNumbers(products, (product) => product / Math.sqrt(q.shape[2]!)));
  const pattern = run.watch(`${name}.pattern`, maskedSoftmax(scores, run.watch(`${name}.allowed`, allowed)));
  return run.watch(`${name}.head_output`, multiply(pattern, v));
}

/** The softmax over the allowed keys of each query, 0 elsewhere; a query that may read no key gets zeros. */
export function maskedSoftmax(scores: Tensor, allowed: Tensor): Tensor {
  const [heads, queries, keys] = scores.shape as [number, number, number];
  const pattern = makeTensor(heads, queries, keys);
  for (let row = 0; row < heads * queries; row++) {
    const [start, mask] = [row * keys, allowed.shape[1] === 1 ? 0 : (row % queries) * keys];
    let largest = Number.NEGATIVE_INFINITY;
    for (let k = 0; k < keys; k++) if (allowed.values[mask + k]) largest = Math.max(largest, scores.values[start + k]!);
    let sum = 0;
    for (let k = 0; k < keys; k++)
      if (allowed.values[mask + k]) sum += pattern.values[start + k] = Math.exp(scores.values[start + k]! - largest);
    for (let k = 0; sum > 0 && k < keys; k++) pattern.values[start + k]! /= sum;
  }
  return pattern;
}

/** Attention with queries, keys and values all projected from x (Q D), which stands at `positions`. */
export function selfAttention(run: Run, name: string, x: Tensor, allowed: Tensor, positions: number[], cache: LayerCache | null): Tensor {
  const turn = (part: Tensor) => (run.model.config.positions === "rotary" ? rotate(part, positions) : part);
  const q = run.watch(`${name}.q`, turn(project(run, name, x, 0)));
  let k = run.watch(`${name}.k`, turn(project(run, name, x, 1)));
  let v = run.watch(`${name}.v`, project(run, name, x, 2));
  if (cache) {
    k = cache.k = joinPositions(cache.k, k);
    v = cache.v = joinPositions(cache.v, v);
  }
  return output(run, name, attend(run, name, q, k, v, allowed));
}

/** Attention with queries from the decoder's x, and keys and values from the encoder's output, which a cache keeps. */
export function crossAttention(run: Run, name: string, x: Tensor, memory: Tensor, allowed: Tensor, cache: LayerCache | null): Tensor {
  const q = run.watch(`${name}.q`, project(run, name, x, 0));
  const { k, v } = cache?.source ?? { k: project(run, name, memory, 1), v: project(run, name, memory, 2) };
  if (cache) cache.source = { k, v };
  return output(run, name, attend(run, name, q, run.watch(`${name}.k`, k), run.watch(`${name}.v`, v), allowed));
}

/** Projects to the queries (third 0), the keys (1) or the values (2), which share one matrix, and cuts them into heads. */
function project(run: Run, name: string, x: Tensor, third: 0 | 1 | 2): Tensor {
  const { d_model, heads } = run.model.config;
  const [weight, bias] = [run.model.parameter(`${name}.qkv.weight`), run.model.parameter(`${name}.qkv.bias`)];
  return splitHeads(linear(x, weight, bias, third * d_model, d_model), heads);
}

/** Puts the heads side by side again and mixes them with the output projection. */
function output(run: Run, name: string, z: Tensor): Tensor {
  const [weight, bias] = [run.model.parameter(`${name}.output.weight`), run.model.parameter(`${name}.output.bias`)];
  return run.watch(`${name}.output`, linear(mergeHeads(z), weight, bias));
}
