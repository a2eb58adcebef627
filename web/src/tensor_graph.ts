// Which tensor plays which part, read from the operations of the manifest: the page never looks at layer names.

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
  mixed: string; // what each head has read
  output: string;
  reader: string; // the dimension of its queries: "T"
  read: string; // the dimension of its keys: "S"
  heads: number;
}

/** Every attention sublayer that is complete in the manifest, in the order of computation. */
export function attentions(manifest: Manifest): AttentionParts[] {
  return manifest.tensors.flatMap((row) => attentionOf(manifest, row) ?? []);
}

function attentionOf(manifest: Manifest, pattern: TensorRow): AttentionParts | null {
  if (pattern.op.kind !== "softmax" || pattern.dims.length !== 3) return null;
  const [scores, allowed] = pattern.op.inputs;
  const products = ancestor(manifest, scores, "dot");
  const mixed = using(manifest, pattern.name, "mix");
  const output = mixed && using(manifest, mixed.name, "linear");
  if (products?.op.kind !== "dot" || mixed?.op.kind !== "mix" || !output) return null;
  const [q, k] = products.op.inputs;
  const [heads, reader, read] = [pattern.shape[0] ?? 0, pattern.dims[1] ?? "", pattern.dims[2] ?? ""];
  const names = { q, k, v: mixed.op.inputs[1], products: products.name, scores, allowed, pattern: pattern.name };
  return { section: sectionOf(pattern.name), ...names, mixed: mixed.name, output: output.name, reader, read, heads };
}

/** The first tensor of this kind on the way back from `name`, itself included. */
export function ancestor(manifest: Manifest, name: string, kind: Op["kind"]): TensorRow | undefined {
  const row = rowOf(manifest, name);
  if (!row || row.op.kind === kind) return row;
  for (const input of inputsOf(row.op)) {
    const found = ancestor(manifest, input, kind);
    if (found) return found;
  }
  return undefined;
}

/** The first tensor of this kind that is made from `name` directly. */
export function using(manifest: Manifest, name: string, kind: Op["kind"]): TensorRow | undefined {
  return manifest.tensors.find((row) => row.op.kind === kind && inputsOf(row.op).includes(name));
}

export function inputsOf(op: Op): string[] {
  return "inputs" in op ? op.inputs : [];
}

export function rowOf(manifest: Manifest, name: string): TensorRow | undefined {
  return manifest.tensors.find((row) => row.name === name);
}

/** A tensor's name without its last part. */
export function sectionOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf(".")));
}

/** The vectors of the pieces of one side. */
export function embeddingOf(manifest: Manifest, side: "source" | "target"): TensorRow | undefined {
  return manifest.tensors.find((row) => row.op.kind === "lookup" && row.op.side === side);
}

/** The vectors of positions that are added on one side, if the model adds any. */
export function positionsOf(manifest: Manifest, side: "source" | "target"): TensorRow | undefined {
  const embedding = embeddingOf(manifest, side);
  const sum = embedding && using(manifest, embedding.name, "add");
  const others = sum ? inputsOf(sum.op).filter((name) => name !== embedding?.name) : [];
  return others.map((name) => rowOf(manifest, name)).find((row) => row?.op.kind === "sinusoid" || row?.op.kind === "row");
}

/** Queries that are turned by their position: how order enters a model with rotary positions. */
export function turnedOf(manifest: Manifest): TensorRow | undefined {
  return manifest.tensors.find((row) => row.op.kind === "linear" && row.op.turned);
}

/** The number for each piece that could come next. */
export function logitsOf(manifest: Manifest): TensorRow | undefined {
  return manifest.tensors.findLast((row) => row.dims.at(-1) === "V");
}

/** What stands at each position of a dimension: the pieces read by the encoder (S) or by the decoder (T). */
export function labelsOf(manifest: Manifest, dim: string): string[] {
  const axis = manifest.axes[dim];
  return axis?.labels ?? Array.from({ length: axis?.size ?? 0 }, (_, i) => String(i));
}

/** The name of a section in words: "decoder, layer 4, cross-attention" for "decoder.3.cross". */
export function sectionInWords(section: string): string {
  const says: Record<string, string> = { self: "self-attention", cross: "cross-attention", ffn: "feed-forward" };
  const part = (text: string) => (/^\d+$/.test(text) ? `layer ${Number(text) + 1}` : (says[text] ?? text.replaceAll("_", " ")));
  return section.split(".").map(part).join(", ");
}
