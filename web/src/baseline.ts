// A trace that is kept, to compare another with it.
import { describeError } from "./format";
import { listAttentions } from "./network";
import type { App } from "./state";

/**
 * Saves the trace that is shown as the baseline, with its attention weights: they are small, and all that is compared.
 * False if that failed; the page then says why.
 */
export async function saveBaseline(app: App): Promise<boolean> {
  const manifest = app.manifest.value;
  if (!manifest) return false;
  const names = listAttentions(manifest).flatMap((parts) => [parts.pattern, parts.allowed]);
  const captured = manifest.tensors.filter((row) => row.captured && names.includes(row.name));
  try {
    const load = async (name: string) => [name, (await app.loadTensor(name)).values] as const;
    const tensors = await Promise.all(captured.map((row) => load(row.name)));
    app.baseline.value = { manifest, tensors: new Map(tensors) };
    return true;
  } catch (error) {
    app.problem.value = describeError(error);
    return false;
  }
}
