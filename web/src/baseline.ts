// A trace put aside, so that another one (edited, or of another beginning) can be laid beside it.

import { type Signal, signal } from "@preact/signals";
import type { App } from "./state";
import { attentions } from "./tensor_graph";
import type { Manifest } from "./types";

export interface Kept {
  manifest: Manifest;
  /** The weights of every attention that was captured and what it may read, by name. */
  numbers: Map<string, Float32Array>;
}

const aside = new WeakMap<App, Signal<Kept | null>>();

/** What was put aside on this page, if anything. */
export function keptOf(app: App): Signal<Kept | null> {
  const found = aside.get(app) ?? signal<Kept | null>(null);
  aside.set(app, found);
  return found;
}

/** Puts the trace that is shown aside, with its attention weights: they are small, and all that is compared. */
export async function keep(app: App): Promise<void> {
  const manifest = app.manifest.value;
  if (!manifest) return;
  const names = attentions(manifest).flatMap((parts) => [parts.pattern, parts.allowed]);
  const captured = manifest.tensors.filter((row) => row.captured && names.includes(row.name));
  const numbers = await Promise.all(captured.map(async (row) => [row.name, (await app.tensor(row.name)).values] as const));
  keptOf(app).value = { manifest, numbers: new Map(numbers) };
}

/** Size of the difference of two heads, in the mean over their rows: 0 for the same, 2 for weights that share nothing. */
export function distance(one: Float32Array, other: Float32Array, queries: number): number {
  let sum = 0;
  one.forEach((value, i) => (sum += Math.abs(value - (other[i] ?? NaN))));
  return sum / Math.max(1, queries);
}
