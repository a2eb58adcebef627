// The baseline: a trace that is kept, so that another one (edited, or with another beginning) can be compared with it.

import { type Signal, signal } from "@preact/signals";
import type { App } from "./state";
import { listAttentions } from "./tensor_graph";
import type { Manifest } from "./types";

export interface Baseline {
  manifest: Manifest;
  /** Weights and masks of all captured attentions, by name of the tensor. */
  tensors: Map<string, Float32Array>;
}

const baselines = new WeakMap<App, Signal<Baseline | null>>();

/** Gets the baseline of this page, if there is one. */
export function getBaseline(app: App): Signal<Baseline | null> {
  const baseline = baselines.get(app) ?? signal<Baseline | null>(null);
  baselines.set(app, baseline);
  return baseline;
}

/** Saves the trace that is shown as the baseline, with its attention weights: they are small, and all that is compared. */
export async function saveBaseline(app: App): Promise<void> {
  const manifest = app.manifest.value;
  if (!manifest) return;
  const names = listAttentions(manifest).flatMap((parts) => [parts.pattern, parts.allowed]);
  const captured = manifest.tensors.filter((row) => row.captured && names.includes(row.name));
  const tensors = await Promise.all(captured.map(async (row) => [row.name, (await app.loadTensor(row.name)).values] as const));
  getBaseline(app).value = { manifest, tensors: new Map(tensors) };
}

/** Measures the difference of two heads, averaged over their rows: 0 for equal weights, 2 for weights with nothing in common. */
export function measureDistance(first: Float32Array, second: Float32Array, queries: number): number {
  let sum = 0;
  first.forEach((value, i) => (sum += Math.abs(value - (second[i] ?? NaN))));
  return sum / Math.max(1, queries);
}
