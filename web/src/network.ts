// The network as blocks, stacks and layers, read from the names and operations of its tensors.

import { type AttentionParts, attentions, inputsOf, rowOf, sectionOf } from "./tensor_graph";
import type { Manifest, TensorRow } from "./types";

/** What is computed together: a sub-layer with its residual and norm, or what stands before or after the layers. */
export interface Block {
  /** The section it is named by: "decoder.3.cross", "encoder", "logits". */
  key: string;
  kind: "input" | "attention" | "ffn" | "end";
  stack: string;
  layer: number | null;
  tensors: TensorRow[]; // in the order of computation
  attention: AttentionParts | null;
  /** The stack that the keys and values come from, where it is another one. */
  reads: string | null;
}

export interface Stack {
  name: string;
  input: Block | null;
  layers: Block[][]; // first layer first
  ends: Block[]; // what comes after the last layer
}

/** Every block, in the order of computation. */
export function blocks(manifest: Manifest): Block[] {
  const grouped = new Map<string, TensorRow[]>();
  for (const row of manifest.tensors) {
    const key = sectionOf(row.name) || row.name;
    grouped.set(key, [...(grouped.get(key) ?? []), row]);
  }
  for (const [key, rows] of grouped) {
    const part = residualOf(manifest, rows);
    if (part === null || part === key) continue;
    grouped.set(part, [...(grouped.get(part) ?? []), ...rows]);
    grouped.delete(key);
  }
  const order = new Map(manifest.tensors.map((row, i) => [row.name, i]));
  const placeOf = (row: TensorRow | undefined) => order.get(row?.name ?? "") ?? 0;
  const all = attentions(manifest);
  const found = [...grouped].map(([key, rows]) => {
    const attention = all.find((each) => each.section === key) ?? null;
    return blockOf(manifest, key, rows.sort((a, b) => placeOf(a) - placeOf(b)), attention);
  });
  return found.sort((a, b) => placeOf(a.tensors[0]) - placeOf(b.tensors[0]));
}

/** The section that these tensors add what came in to, if they are a residual. */
function residualOf(manifest: Manifest, rows: TensorRow[]): string | null {
  const sum = rows.find((row) => row.op.kind === "add");
  const added = sum ? inputsOf(sum.op).at(-1) : undefined;
  const made = added === undefined ? undefined : rowOf(manifest, added);
  return made?.op.kind === "linear" ? sectionOf(made.name) : null;
}

function blockOf(manifest: Manifest, key: string, tensors: TensorRow[], attention: AttentionParts | null): Block {
  const number = key.split(".")[1];
  const layer = number === undefined || !/^\d+$/.test(number) ? null : Number(number);
  const has = (kind: string) => tensors.some((row) => row.op.kind === kind);
  const kind = attention ? "attention" : has("activation") ? "ffn" : has("lookup") ? "input" : "end";
  const stack = stackOf(manifest, tensors[0]);
  const keys = attention ? rowOf(manifest, attention.k) : undefined;
  const from = keys ? stackOf(manifest, rowOf(manifest, inputsOf(keys.op)[0] ?? "")) : stack;
  return { key, kind, stack, layer, tensors, attention, reads: from === stack ? null : from };
}

/** What a name begins with; a name without dots belongs where its input does. */
function stackOf(manifest: Manifest, row: TensorRow | undefined): string {
  if (!row) return "";
  if (row.name.includes(".")) return row.name.split(".")[0] as string;
  return stackOf(manifest, rowOf(manifest, inputsOf(row.op)[0] ?? ""));
}

/** The stacks side by side, as the paper draws them. */
export function stacks(manifest: Manifest): Stack[] {
  const all = blocks(manifest);
  return [...new Set(all.map((block) => block.stack))].map((name) => {
    const own = all.filter((block) => block.stack === name);
    const numbers = [...new Set(own.flatMap((block) => block.layer ?? []))].sort((a, b) => a - b);
    return {
      name,
      input: own.find((block) => block.kind === "input") ?? null,
      layers: numbers.map((number) => own.filter((block) => block.layer === number)),
      ends: own.filter((block) => block.kind === "end" && block.layer === null),
    };
  });
}

/** The block that a section belongs to: its own, or the one that holds its tensors. */
export function blockAt(manifest: Manifest, section: string | undefined): Block | undefined {
  const all = blocks(manifest);
  const holds = (block: Block) => block.tensors.some((row) => (sectionOf(row.name) || row.name) === section);
  return all.find((block) => block.key === section) ?? all.find(holds);
}

/** The dimension of the positions that a tensor's rows stand for, and their side. */
export function positionDim(row: TensorRow): "S" | "T" | null {
  const dim = row.dims.find((each) => each === "S" || each === "T");
  return dim === "S" || dim === "T" ? dim : null;
}
