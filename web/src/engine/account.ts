// Parts that add up to a logit, as in src/pellucid/interpret/trace/attribution.py: backwards from the direction of a piece's row of the
// output embedding, through norms whose deviation stays as it was, to each place where something was added to the stream.
import type { AccountPart } from "../types";
import { EPSILON } from "./layers";
import type { Model } from "./model";
import type { Tensor } from "./tensor";

/** Accounts for the logit of piece `id` at a step, or with `other` for its difference to that of the other piece. */
export function accountForLogit(model: Model, tensors: ReadonlyMap<string, Tensor>, step: number, id: number, other: number | null): AccountPart[] {
  const { config } = model;
  const parameter = (name: string) => model.parameter(name).values;
  const vectorAt = (name: string) => {
    const { shape, values } = readTensor(tensors, name);
    return values.subarray(step * shape[1]!, (step + 1) * shape[1]!);
  };
  let direction = Float64Array.from(model.row("output_embedding.weight", id));
  if (other !== null) model.row("output_embedding.weight", other).forEach((value, i) => (direction[i]! -= value));
  let norms = 0;
  let biases = config.output_bias ? parameter("output_bias")[id]! - (other === null ? 0 : parameter("output_bias")[other]!) : 0;
  const parts: AccountPart[] = []; // the last of the model first

  /** Takes the direction back through (x - mean) / deviation * weight + bias. */
  const passNorm = (name: string, before: string) => {
    const x = vectorAt(before);
    const isRms = config.norm === "rms";
    const mean = isRms ? 0 : average(x, (value) => value);
    const deviation = Math.sqrt(average(x, (value) => (value - mean) ** 2) + EPSILON);
    if (!isRms) norms += dot(direction, parameter(`${name}.bias`));
    const weight = parameter(`${name}.weight`);
    direction = direction.map((value, i) => (value * weight[i]!) / deviation);
    if (isRms) return;
    const shift = average(direction, (value) => value); // the transpose of subtracting the mean subtracts the mean
    direction = direction.map((value) => value - shift);
  };
  const addFeedForward = (name: string) => {
    const bias = dot(direction, parameter(`${name}.outer.bias`));
    biases += bias;
    parts.push({ name, group: "ffn", value: dot(direction, vectorAt(`${name}.output`)) - bias });
  };
  /** Adds what each head contributes, z W_O with its rows of W_O; z is a sum of pattern times v over the positions read. */
  const addHeads = (name: string, group: "self" | "cross") => {
    biases += dot(direction, parameter(`${name}.output.bias`));
    const weight = parameter(`${name}.output.weight`);
    const { d_model, heads } = config;
    const back = new Float64Array(d_model);
    for (let row = 0; row < d_model; row++) {
      const value = direction[row]!;
      for (let i = 0; i < d_model; i++) back[i]! += value * weight[row * d_model + i]!;
    }
    const [z, pattern, v] = ["head_output", "pattern", "v"].map((last) => readTensor(tensors, `${name}.${last}`)) as [Tensor, Tensor, Tensor];
    const [, queries, keys] = pattern.shape as [number, number, number];
    const width = d_model / heads;
    for (let head = heads - 1; head >= 0; head--) {
      const own = back.subarray(head * width, (head + 1) * width);
      const value = dot(own, z.values.subarray((head * queries + step) * width));
      const byKey = Array.from({ length: keys }, (_, k) => {
        return dot(own, v.values.subarray((head * keys + k) * width)) * pattern.values[(head * queries + step) * keys + k]!;
      });
      // A head that an edit silenced did not write what it read, so there is nothing to split by positions.
      const [sum, size] = [byKey.reduce((total, share) => total + share, 0), byKey.reduce((total, share) => total + Math.abs(share), 0)];
      const isExplained = Math.abs(sum - value) <= 1e-3 * size;
      parts.push({ name: `${name}.head.${head}`, group, value, ...(isExplained && { by_key: byKey }) });
    }
  };

  if (config.norm !== "post") passNorm("decoder_norm", `decoder.${config.decoder_layers - 1}.ffn_residual.sum`);
  for (let layer = config.decoder_layers - 1; layer >= 0; layer--)
    for (const sublayer of ["ffn", "cross", "self"] as const) {
      const name = `decoder.${layer}.${sublayer}`;
      if (config.norm === "post") passNorm(`${name}_residual.norm`, `${name}_residual.sum`);
      if (sublayer === "ffn") addFeedForward(name);
      else addHeads(name, sublayer);
    }
  if (tensors.has("decoder.positions")) parts.push({ name: "positions", group: "positions", value: dot(direction, vectorAt("decoder.positions")) });
  parts.push({ name: "embedding", group: "embedding", value: dot(direction, vectorAt("decoder.embedding")) });
  return [...parts.reverse(), { name: "norms", group: "norm", value: norms }, { name: "biases", group: "bias", value: biases }];
}

function readTensor(tensors: ReadonlyMap<string, Tensor>, name: string): Tensor {
  const tensor = tensors.get(name);
  if (!tensor) throw new Error(`${name} was not captured.`);
  return tensor;
}

/** The sum of the products of a vector with the numbers that another begins with. */
function dot(vector: Float64Array, other: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < vector.length; i++) sum += vector[i]! * other[i]!;
  return sum;
}

function average(vector: Float32Array | Float64Array, take: (value: number) => number): number {
  let sum = 0;
  for (const value of vector) sum += take(value);
  return sum / vector.length;
}
