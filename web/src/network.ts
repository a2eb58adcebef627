// The network read from the operations of the manifest: the roles of tensors, blocks, stacks and layers; never from names of layers.
import type { Manifest, Op, Question, Side, TensorRow } from "./types";

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
function findAncestor(manifest: Manifest, name: string, kind: Op["kind"]): TensorRow | undefined {
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

/** Finds what positions add to the scores of self-attention, in a model whose positions are told in no other way. */
export function findPositionBias(manifest: Manifest): TensorRow | undefined {
  return manifest.tensors.find((row) => row.name.endsWith(".position_bias"));
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

/** Lists the words of one side, as white space parts them; those of the sentence before stand in brackets. */
export function listWords(side: Side): string[] {
  const words = side.text.split(/\s+/).filter(Boolean);
  return bracket(words, side.context ? (side.words[side.context - 1] ?? 0) : 0);
}

/** Lists the pieces of one side; those of the sentence before stand in brackets. */
export function listPieces(side: Side): string[] {
  return bracket(side.pieces, (side.context || 1) - 1); // the start token after them belongs to neither sentence
}

function bracket(texts: string[], count: number): string[] {
  return texts.map((text, i) => (i < count ? `(${text})` : text));
}

/** Names the sentence of a trace with the one before it, as a question does. */
export function nameSentence({ sentence, context, part }: Manifest): Pick<Question, "sentence" | "context" | "segment"> {
  if (part) return { sentence: part.line, ...(part.context && { context: part.context }), segment: part.segment };
  return { sentence, ...(context && { context }) };
}

/** Describes a section in words: "decoder, layer 4, cross-attention" for "decoder.3.cross". */
export function describeSection(section: string): string {
  const kinds: Record<string, string> = { self: "self-attention", cross: "cross-attention", ffn: "feed-forward" };
  const describePart = (text: string) => (/^\d+$/.test(text) ? `layer ${Number(text) + 1}` : (kinds[text] ?? text.replaceAll("_", " ")));
  return section.split(".").map(describePart).join(", ");
}

/** Tensors that are computed together: a sub-layer with its residual and norm, or the input or the end of a stack. */
export interface Block {
  /** Section that names it: "decoder.3.cross", "encoder", "logits". */
  key: string;
  kind: "input" | "attention" | "ffn" | "end";
  stack: string;
  layer: number | null;
  tensors: TensorRow[]; // in the order of computation
  attention: AttentionParts | null;
  /** Stack that the keys and values come from, where it is another one. */
  reads: string | null;
}

export interface Stack {
  name: string;
  input: Block | null;
  layers: Block[][]; // first layer first
  ends: Block[]; // what comes after the last layer
}

/** Lists all blocks, in the order of computation. */
export function listBlocks(manifest: Manifest): Block[] {
  const grouped = new Map<string, TensorRow[]>();
  for (const row of manifest.tensors) {
    const key = getSection(row.name) || row.name;
    grouped.set(key, [...(grouped.get(key) ?? []), row]);
  }
  for (const [key, rows] of grouped) {
    const section = findResidualSection(manifest, rows);
    if (section === null || section === key) continue;
    grouped.set(section, [...(grouped.get(section) ?? []), ...rows]);
    grouped.delete(key);
  }
  const order = new Map(manifest.tensors.map((row, i) => [row.name, i]));
  const orderOf = (row: TensorRow | undefined) => order.get(row?.name ?? "") ?? 0;
  const allAttentions = listAttentions(manifest);
  const ordered = [...grouped].map(([key, rows]) => {
    const attention = allAttentions.find((parts) => parts.section === key) ?? null;
    return makeBlock(manifest, key, rows.sort((one, other) => orderOf(one) - orderOf(other)), attention);
  });
  return ordered.sort((one, other) => orderOf(one.tensors[0]) - orderOf(other.tensors[0]));
}

/** Finds the section whose output these tensors add to its input, if they are a residual. */
function findResidualSection(manifest: Manifest, rows: TensorRow[]): string | null {
  const sum = rows.find((row) => row.op.kind === "add");
  const added = sum ? listInputs(sum.op).at(-1) : undefined;
  const addedRow = added === undefined ? undefined : findTensorRow(manifest, added);
  return addedRow?.op.kind === "linear" ? getSection(addedRow.name) : null;
}

function makeBlock(manifest: Manifest, key: string, tensors: TensorRow[], attention: AttentionParts | null): Block {
  const layerText = key.split(".")[1];
  const layer = layerText === undefined || !/^\d+$/.test(layerText) ? null : Number(layerText);
  const hasKind = (kind: string) => tensors.some((row) => row.op.kind === kind);
  const kind = attention ? "attention" : hasKind("activation") ? "ffn" : hasKind("lookup") ? "input" : "end";
  const stack = findStack(manifest, tensors[0]);
  const keys = attention ? findTensorRow(manifest, attention.k) : undefined;
  const keyStack = keys ? findStack(manifest, findTensorRow(manifest, listInputs(keys.op)[0] ?? "")) : stack;
  return { key, kind, stack, layer, tensors, attention, reads: keyStack === stack ? null : keyStack };
}

/** Finds the stack of a tensor, the first part of its name; a name without dots belongs to the stack of its input. */
function findStack(manifest: Manifest, row: TensorRow | undefined): string {
  if (!row) return "";
  if (row.name.includes(".")) return row.name.split(".")[0] as string;
  return findStack(manifest, findTensorRow(manifest, listInputs(row.op)[0] ?? ""));
}

/** Lists the stacks, which the paper draws side by side. */
export function listStacks(manifest: Manifest): Stack[] {
  const blocks = listBlocks(manifest);
  return [...new Set(blocks.map((block) => block.stack))].map((name) => {
    const stackBlocks = blocks.filter((block) => block.stack === name);
    const numbers = [...new Set(stackBlocks.flatMap((block) => block.layer ?? []))].sort((one, other) => one - other);
    return {
      name,
      input: stackBlocks.find((block) => block.kind === "input") ?? null,
      layers: numbers.map((number) => stackBlocks.filter((block) => block.layer === number)),
      ends: stackBlocks.filter((block) => block.kind === "end" && block.layer === null),
    };
  });
}

/** Finds the block of a section: its own, or the one that holds its tensors. */
export function findBlock(manifest: Manifest, section: string | undefined): Block | undefined {
  const blocks = listBlocks(manifest);
  const hasTensor = (block: Block) => block.tensors.some((row) => (getSection(row.name) || row.name) === section);
  return blocks.find((block) => block.key === section) ?? blocks.find(hasTensor);
}

/** Gets the dimension of a tensor's positions, S or T. */
export function getPositionDim(row: TensorRow): "S" | "T" | null {
  const dim = row.dims.find((name) => name === "S" || name === "T");
  return dim === "S" || dim === "T" ? dim : null;
}
