// Feed-forward network, residual connection with its norm, encoder layer and decoder layer (paper, 3.1 and 3.3).
import { gelu, silu } from "../activations";
import { crossAttention, selfAttention } from "./attention";
import type { LayerCache } from "./cache";
import type { Run } from "./model";
import { add, linear, makeTensor, mapNumbers, type Tensor } from "./tensor";

export const EPSILON = 1e-5; // added under the square root of every norm

/** max(0, x W1 + b1) W2 + b2 (paper, 3.3, equation 2), or another activation in the place of max(0, ...). */
function feedForward(run: Run, name: string, x: Tensor): Tensor {
  const { model, watch } = run;
  const inner = watch(`${name}.inner`, linear(x, model.parameter(`${name}.inner.weight`), model.parameter(`${name}.inner.bias`)));
  const active = watch(`${name}.active`, model.config.activation === "swiglu" ? gate(inner) : mapNumbers(inner, ACTIVATIONS[model.config.activation]));
  return watch(`${name}.output`, linear(active, model.parameter(`${name}.outer.weight`), model.parameter(`${name}.outer.bias`)));
}

const ACTIVATIONS = {
  relu: (x: number) => Math.max(0, x),
  gelu,
  silu,
};

/** silu(a) * b, where each row of x is [a, b] (Shazeer 2020, equation 5). */
function gate(x: Tensor): Tensor {
  const [rows, twice] = x.shape as [number, number];
  const width = twice / 2;
  const y = makeTensor(rows, width);
  for (let row = 0; row < rows; row++)
    for (let i = 0; i < width; i++) y.values[row * width + i] = silu(x.values[row * twice + i]!) * x.values[row * twice + width + i]!;
  return y;
}

/** (x - mean) / sqrt(variance + eps) * weight + bias of each vector; RMSNorm subtracts no mean and adds no bias. */
export function norm(run: Run, name: string, x: Tensor): Tensor {
  const isRms = run.model.config.norm === "rms";
  const weight = run.model.parameter(`${name}.weight`).values;
  const bias = isRms ? null : run.model.parameter(`${name}.bias`).values;
  const [rows, width] = x.shape as [number, number];
  const y = makeTensor(rows, width);
  for (let row = 0; row < rows; row++) {
    const vector = x.values.subarray(row * width, (row + 1) * width);
    let [sum, squares] = [0, 0];
    if (!isRms) for (let i = 0; i < width; i++) sum += vector[i]!;
    const mean = sum / width;
    for (let i = 0; i < width; i++) squares += (vector[i]! - mean) ** 2;
    const scale = 1 / Math.sqrt(squares / width + EPSILON);
    for (let i = 0; i < width; i++) y.values[row * width + i] = (vector[i]! - mean) * scale * weight[i]! + (bias?.[i] ?? 0);
  }
  return y;
}

/** A residual connection around a sublayer f: x + f(norm(x)), or norm(x + f(x)) as in the paper (3.1). */
function residual(run: Run, name: string, x: Tensor, sublayer: (y: Tensor) => Tensor): Tensor {
  const normed = (y: Tensor) => run.watch(`${name}.norm`, norm(run, `${name}.norm`, y));
  const summed = (output: Tensor) => run.watch(`${name}.sum`, add(x, output));
  return run.model.config.norm === "post" ? normed(summed(sublayer(x))) : summed(sublayer(normed(x)));
}

/** One layer of the encoder: self-attention and feed-forward, each inside a residual connection. */
export function encoderLayer(run: Run, name: string, x: Tensor, allowed: Tensor, positions: number[]): Tensor {
  x = residual(run, `${name}.self_residual`, x, (y) => selfAttention(run, `${name}.self`, y, allowed, positions, null));
  return residual(run, `${name}.ffn_residual`, x, (y) => feedForward(run, `${name}.ffn`, y));
}

/** One layer of the decoder: self-attention over the target so far, cross-attention to the source, feed-forward. */
export function decoderLayer(
  run: Run,
  name: string,
  x: Tensor,
  allowed: Tensor,
  positions: number[],
  memory: Tensor,
  memoryAllowed: Tensor,
  cache: LayerCache | null,
): Tensor {
  x = residual(run, `${name}.self_residual`, x, (y) => selfAttention(run, `${name}.self`, y, allowed, positions, cache));
  x = residual(run, `${name}.cross_residual`, x, (y) => crossAttention(run, `${name}.cross`, y, memory, memoryAllowed, cache));
  return residual(run, `${name}.ffn_residual`, x, (y) => feedForward(run, `${name}.ffn`, y));
}
