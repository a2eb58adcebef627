// The model as a file packs it: a header, the weights and the tokenizer. Nothing in it is trusted: every size is checked.
import { inflate, toNumbers } from "../file_formats";
import type { Manifest } from "../types";
import { Model, type ModelConfig } from "./model";
import { type SourceProfile, SourceReader } from "./source_reader";
import { TokenizerSide, type TokenizerConfig } from "./tokenizer";
import type { Tensor } from "./tensor";
import { Translator } from "./translator";

/** What pellucid/interpret/page/model_file.py writes before the weights. */
export interface ModelHeader {
  format: "pellucid-model";
  version: 1;
  config: ModelConfig;
  precision: "float16" | "float32" | "int8";
  tokenizer: TokenizerConfig;
  limits: { trained: number; longest: number };
  forbidden: number[];
  /** What the training text looked like; its words are a block beside the tokenizer. Null of a model that does not say. */
  profile: SourceProfile | null;
  target_language: string | null;
  /** Sentences to try, of which the first is shown when the file is opened. */
  examples: string[];
  languages: [source: string, target: string] | null;
}

/** A model as it is packed, its blocks by kind and name ("parameter encoder_norm.weight"): base64 of gzip in a file, bytes of a server. */
export interface PackedModel {
  header: Omit<ModelHeader, "examples" | "languages">;
  manifest: Manifest;
  blocks: Readonly<Record<string, string | ArrayBuffer>>;
}

const CHOICES = {
  norm: ["pre", "post", "rms"],
  positions: ["sinusoidal", "learned", "rotary", "none"],
  activation: ["relu", "gelu", "silu", "swiglu"],
  tie: ["all", "decoder", "none"],
} as const;
const SIZES = ["source_vocabulary", "target_vocabulary", "d_model", "d_ff", "heads", "encoder_layers", "decoder_layers", "max_positions"] as const;
const LARGEST_SIZE = 2 ** 20;

/** Unpacks a model. Throws an Error with one sentence for anything that is not one. */
export async function unpackModel({ header, manifest, blocks }: PackedModel): Promise<Translator> {
  if (header.format !== "pellucid-model" || header.version !== 1) throw new Error("The model in this file is of a version that this page does not know.");
  const { config } = header;
  checkConfig(config);
  const parameters = new Map<string, Tensor>();
  const unpack = async ([name, shape]: [string, number[]]) => {
    const values = readWeights(await readBlock(blocks, "parameter", name), shape, header.precision);
    const count = shape.reduce((product, size) => product * size, 1);
    if (values.length !== count) throw new Error(`${name} came with ${values.length} numbers; its shape has ${count}.`);
    parameters.set(name, { shape, values });
  };
  await Promise.all(listParameters(config).map(unpack)); // together: each waits longer than it computes
  const readSide = async (side: "source" | "target"): Promise<TokenizerSide> => {
    const hasList = `tokenizer ${side}.pieces` in blocks; // that of an imported tokenizer
    const list = hasList ? (JSON.parse(new TextDecoder().decode(await readBlock(blocks, "tokenizer", `${side}.pieces`))) as string[]) : null;
    return new TokenizerSide(new Uint8Array(await readBlock(blocks, "tokenizer", side)), header.tokenizer, list);
  };
  const source = await readSide("source");
  const target = "tokenizer target" in blocks ? await readSide("target") : source; // one may serve both languages
  if (source.names.length !== config.source_vocabulary || target.names.length !== config.target_vocabulary)
    throw new Error("The tokenizer in this file has another number of pieces than its model.");
  const words = "tokenizer words" in blocks ? new TextDecoder().decode(await readBlock(blocks, "tokenizer", "words")).split("\n") : [];
  const { lowercase } = header.tokenizer;
  const reader = new SourceReader(source, lowercase, header.profile, words, header.target_language);
  return new Translator(new Model(config, parameters), source, target, header.limits, header.forbidden, reader, manifest.model.context ?? 0);
}

/** Reads the numbers of a parameter; in int8 a matrix has the scales of its rows first, and a vector is float32. */
function readWeights(bytes: ArrayBuffer, shape: number[], precision: ModelHeader["precision"]): Float32Array {
  if (precision !== "int8") return toNumbers(bytes, precision);
  const [rows, width] = shape as [number, number | undefined];
  if (width === undefined) return toNumbers(bytes, "float32");
  if (bytes.byteLength < 4 * rows) throw new Error("The weights of this file are cut off.");
  const scales = new Float32Array(bytes, 0, rows);
  return Float32Array.from(new Int8Array(bytes, 4 * rows), (step, place) => step * scales[Math.floor(place / width)]!);
}

function checkConfig(config: ModelConfig): void {
  for (const name of SIZES) {
    const size = config[name];
    if (!Number.isInteger(size) || size < 1 || size > LARGEST_SIZE) throw new Error(`The model's ${name} is ${size}, which is no size.`);
  }
  for (const [name, choices] of Object.entries(CHOICES))
    if (!(choices as readonly string[]).includes(config[name as keyof typeof CHOICES]))
      throw new Error(`The model's ${name} is ${config[name as keyof typeof CHOICES]}, which this page cannot compute.`);
  const width = config.d_model / config.heads;
  if (!Number.isInteger(width)) throw new Error(`A width of ${config.d_model} cannot be cut into ${config.heads} heads.`);
}

/** Lists every parameter of a model of this config with its shape, in the order of `Transformer.named_parameters`. */
export function listParameters(config: ModelConfig): [name: string, shape: number[]][] {
  const { d_model, d_ff, source_vocabulary, target_vocabulary, tie, norm, positions } = config;
  const norms = (name: string): [string, number[]][] => [[`${name}.weight`, [d_model]], ...(norm === "rms" ? [] : [[`${name}.bias`, [d_model]] as [string, number[]]])];
  const linear = (name: string, rows: number, columns: number): [string, number[]][] => [
    [`${name}.weight`, [rows, columns]],
    [`${name}.bias`, [rows]],
  ];
  const attention = (name: string) => [...linear(`${name}.qkv`, 3 * d_model, d_model), ...linear(`${name}.output`, d_model, d_model), ...norms(`${name}_residual.norm`)];
  const feedForward = (name: string) => [
    ...linear(`${name}.inner`, config.activation === "swiglu" ? 2 * d_ff : d_ff, d_model),
    ...linear(`${name}.outer`, d_model, d_ff),
    ...norms(`${name}_residual.norm`),
  ];
  const layers = (stack: string, count: number, sublayers: string[]) =>
    Array.from({ length: count }, (_, n) => [...sublayers.flatMap((sublayer) => attention(`${stack}.${n}.${sublayer}`)), ...feedForward(`${stack}.${n}.ffn`)]).flat();
  return [
    ...(config.output_bias ? [["output_bias", [target_vocabulary]] as [string, number[]]] : []),
    ["source_embedding.weight", [source_vocabulary, d_model]],
    ...(tie === "all" ? [] : [["target_embedding.weight", [target_vocabulary, d_model]] as [string, number[]]]),
    ...(tie === "none" ? [["output_embedding.weight", [target_vocabulary, d_model]] as [string, number[]]] : []),
    ...(positions === "learned" ? ["source", "target"].map((side): [string, number[]] => [`${side}_positions.table`, [config.max_positions, d_model]]) : []),
    ...layers("encoder", config.encoder_layers, ["self"]),
    ...layers("decoder", config.decoder_layers, ["self", "cross"]),
    ...(norm === "post" ? [] : [...norms("encoder_norm"), ...norms("decoder_norm")]),
  ];
}

async function readBlock(blocks: PackedModel["blocks"], kind: string, name: string): Promise<ArrayBuffer> {
  const block = blocks[`${kind} ${name}`];
  if (block === undefined) throw new Error(`The file lacks ${name} of its model.`);
  return typeof block === "string" ? inflate(block) : block;
}
