// The Transformer: embed, encode, decode, logits (paper, 3), as in src/pellucid/model/transformer.py. Parameters and visible
// tensors have the names of the Python model.
import { Cache } from "./cache";
import { decoderLayer, encoderLayer, norm } from "./layers";
import { positionVectors } from "./positions";
import { add, linear, makeTensor, type Tensor } from "./tensor";

/** Choices and sizes of a model, as in src/pellucid/model/config.py. */
export interface ModelConfig {
  source_vocabulary: number;
  target_vocabulary: number;
  d_model: number;
  d_ff: number;
  heads: number;
  encoder_layers: number;
  decoder_layers: number;
  norm: "pre" | "post" | "rms";
  positions: "sinusoidal" | "learned" | "rotary" | "none";
  activation: "relu" | "gelu" | "silu" | "swiglu";
  tie: "all" | "decoder" | "none";
  max_positions: number;
  output_bias: boolean;
}

/** Sees every tensor that the model computes by its name, and gives back the one of the same shape that it goes on with. */
export type Watch = (name: string, value: Tensor) => Tensor;

/** Gives every tensor back as it is. */
export const unseen: Watch = (_, value) => value;

/** One run of a model, and who watches it. */
export interface Run {
  model: Model;
  watch: Watch;
}

/** Weights and their config. It keeps nothing of a run. */
export class Model {
  constructor(
    readonly config: ModelConfig,
    private readonly parameters: ReadonlyMap<string, Tensor>,
  ) {}

  /** Gives a parameter by its name; a table that shares its matrix with another is found under both names. */
  parameter(name: string): Tensor {
    const { tie } = this.config;
    if (name === "output_embedding.weight" && tie !== "none") return this.parameter("target_embedding.weight");
    if (name === "target_embedding.weight" && tie === "all") return this.parameter("source_embedding.weight");
    const parameter = this.parameters.get(name);
    if (!parameter) throw new Error(`This model has no parameter named ${name}.`);
    return parameter;
  }

  /** Gives one row of a parameter. */
  row(name: string, number: number): Float32Array {
    const { shape, values } = this.parameter(name);
    return values.subarray(number * shape[1]!, (number + 1) * shape[1]!);
  }
}

/** Encodes a source sentence, which ends with the end token: the memory (S D). */
export function encode(run: Run, tokens: number[]): Tensor {
  const positions = countPositions(run, tokens.length);
  const allowed = makeTensor(1, 1, tokens.length);
  allowed.values.fill(1); // one sentence has no padding
  let x = embed(run, "encoder", "source", tokens, positions);
  for (let n = 0; n < run.model.config.encoder_layers; n++) x = encoderLayer(run, `encoder.${n}`, x, allowed, positions);
  return run.watch("memory", finish(run, "encoder_norm", x));
}

/**
 * The decoder's state at each of these tokens (T D). They are the whole target so far; with a cache they are the newest token
 * of each hypothesis.
 */
export function decode(run: Run, tokens: number[], memory: Tensor, cache: Cache | null = null): Tensor {
  const positions = cache ? null : countPositions(run, tokens.length);
  const place = positions ? { positions, allowed: causalMask(tokens.length) } : cache!.grow();
  const memoryAllowed = makeTensor(1, 1, memory.shape[0]!);
  memoryAllowed.values.fill(1);
  let x = embed(run, "decoder", "target", tokens, place.positions);
  for (let n = 0; n < run.model.config.decoder_layers; n++)
    x = decoderLayer(run, `decoder.${n}`, x, place.allowed, place.positions, memory, memoryAllowed, cache?.layer(n) ?? null);
  return run.watch("states", finish(run, "decoder_norm", x));
}

/** A logit for each target piece after each position (T V): states times the output embedding (paper, 3.4), plus any bias. */
export function logits(run: Run, states: Tensor): Tensor {
  const { model } = run;
  const bias = model.config.output_bias ? model.parameter("output_bias") : null;
  return run.watch("logits", linear(states, model.parameter("output_embedding.weight"), bias));
}

/** The embeddings times sqrt(D), plus the vectors of the positions (paper, 3.4 and 3.5). */
function embed(run: Run, stack: "encoder" | "decoder", side: "source" | "target", tokens: number[], positions: number[]): Tensor {
  const { model, watch } = run;
  const { d_model } = model.config;
  const embedding = makeTensor(tokens.length, d_model);
  tokens.forEach((token, place) => {
    const vector = model.row(`${side}_embedding.weight`, token);
    for (let i = 0; i < d_model; i++) embedding.values[place * d_model + i] = vector[i]! * Math.sqrt(d_model);
  });
  const x = watch(`${stack}.embedding`, embedding);
  const vectors = positionVectors(model, side, positions);
  return watch(`${stack}.input`, vectors ? add(x, watch(`${stack}.positions`, vectors)) : x);
}

/** The norm at the end of a stack, which only a model with its norms first has. */
function finish(run: Run, name: string, x: Tensor): Tensor {
  return run.model.config.norm === "post" ? x : norm(run, name, x);
}

function countPositions(run: Run, length: number): number[] {
  const most = run.model.config.max_positions;
  if (length > most) throw new Error(`The sequence has ${length} pieces, this model takes ${most}; split the sentence.`);
  return Array.from({ length }, (_, position) => position);
}

/** 1 where a position may read another: itself and those before it (paper, 3.2.3). */
function causalMask(length: number): Tensor {
  const allowed = makeTensor(1, length, length);
  for (let q = 0; q < length; q++) allowed.values.fill(1, q * length, q * length + q + 1);
  return allowed;
}
