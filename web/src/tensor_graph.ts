// Roles of tensors, read from the operations of the manifest; the page never looks at layer names.

import type { Manifest, Op, TensorRow } from "./types";

/** The tensors of one attention sublayer, each by its name. */
export interface AttentionParts {
  section: string; // what their names begin with: "decoder.3.cross"
  q: string;
  k: string;
  v: string;
  products: string;
  scores: string;
  allowed: string;
  pattern: string;
  headOutput: string; // weights times values of each head
  output: string;
  queryDim: string; // the dimension of its queries: "T"
  keyDim: string; // the dimension of its keys: "S"
  heads: number;
}

/** Lists the attention sublayers that are complete in the manifest, in the order of computation. */
export function listAttentions(manifest: Manifest): AttentionParts[] {
  return manifest.tensors.flatMap((row) => findAttention(manifest, row) ?? []);
}

function findAttention(manifest: Manifest, pattern: TensorRow): AttentionParts | null {
  if (pattern.op.kind !== "softmax" || pattern.dims.length !== 3) return null;
  const [scores, allowed] = pattern.op.inputs;
  const products = findAncestor(manifest, scores, "dot");
  const headOutput = findConsumer(manifest, pattern.name, "mix");
  const output = headOutput && findConsumer(manifest, headOutput.name, "linear");
  if (products?.op.kind !== "dot" || headOutput?.op.kind !== "mix" || !output) return null;
  const [q, k] = products.op.inputs;
  const [heads, queryDim, keyDim] = [pattern.shape[0] ?? 0, pattern.dims[1] ?? "", pattern.dims[2] ?? ""];
  const names = { q, k, v: headOutput.op.inputs[1], products: products.name, scores, allowed, pattern: pattern.name };
  return { section: getSection(pattern.name), ...names, headOutput: headOutput.name, output: output.name, queryDim, keyDim, heads };
}

/** Finds the first tensor of a kind on the way back from `name`, itself included. */
export function findAncestor(manifest: Manifest, name: string, kind: Op["kind"]): TensorRow | undefined {
  const row = findTensorRow(manifest, name);
  if (!row || row.op.kind === kind) return row;
  for (const input of listInputs(row.op)) {
    const origin = findAncestor(manifest, input, kind);
    if (origin) return origin;
  }
  return undefined;
}

/** Finds the first tensor of a kind that has `name` as an input. */
export function findConsumer(manifest: Manifest, name: string, kind: Op["kind"]): TensorRow | undefined {
  return manifest.tensors.find((row) => row.op.kind === kind && listInputs(row.op).includes(name));
}

export function listInputs(op: Op): string[] {
  return "inputs" in op ? op.inputs : [];
}

export function findTensorRow(manifest: Manifest | null, name: string): TensorRow | undefined {
  return manifest?.tensors.find((row) => row.name === name);
}

/** Gets a tensor's name without its last part. */
export function getSection(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf(".")));
}

/** Finds the embeddings of the pieces of one side. */
export function findEmbedding(manifest: Manifest, side: "source" | "target"): TensorRow | undefined {
  return manifest.tensors.find((row) => row.op.kind === "lookup" && row.op.side === side);
}

/** Finds the position vectors that are added on one side, if the model adds any. */
export function findPositions(manifest: Manifest, side: "source" | "target"): TensorRow | undefined {
  const embedding = findEmbedding(manifest, side);
  const sum = embedding && findConsumer(manifest, embedding.name, "add");
  const others = sum ? listInputs(sum.op).filter((name) => name !== embedding?.name) : [];
  return others.map((name) => findTensorRow(manifest, name)).find((row) => row?.op.kind === "sinusoid" || row?.op.kind === "row");
}

/** Finds queries that are rotated by their position, in a model with rotary positions. */
export function findRotatedQueries(manifest: Manifest): TensorRow | undefined {
  return manifest.tensors.find((row) => row.op.kind === "linear" && row.op.turned);
}

/** Finds the logits: a number for each piece that could come next. */
export function findLogits(manifest: Manifest): TensorRow | undefined {
  return manifest.tensors.findLast((row) => row.dims.at(-1) === "V");
}

/** Lists the labels of a dimension: the pieces read by the encoder (S) or the decoder (T), else numbers. */
export function listLabels(manifest: Manifest, dim: string): string[] {
  const axis = manifest.axes[dim];
  return axis?.labels ?? Array.from({ length: axis?.size ?? 0 }, (_, i) => String(i));
}

/** Describes a section in words: "decoder, layer 4, cross-attention" for "decoder.3.cross". */
export function describeSection(section: string): string {
  const kinds: Record<string, string> = { self: "self-attention", cross: "cross-attention", ffn: "feed-forward" };
  const describePart = (text: string) => (/^\d+$/.test(text) ? `layer ${Number(text) + 1}` : (kinds[text] ?? text.replaceAll("_", " ")));
  return section.split(".").map(describePart).join(", ");
}
