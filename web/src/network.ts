// The network as blocks, stacks and layers, read from the names and operations of its tensors.

import { type AttentionParts, findTensorRow, getSection, listAttentions, listInputs } from "./tensor_graph";
import type { Manifest, TensorRow } from "./types";

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
    return makeBlock(manifest, key, rows.sort((a, b) => orderOf(a) - orderOf(b)), attention);
  });
  return ordered.sort((a, b) => orderOf(a.tensors[0]) - orderOf(b.tensors[0]));
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
    const numbers = [...new Set(stackBlocks.flatMap((block) => block.layer ?? []))].sort((a, b) => a - b);
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
