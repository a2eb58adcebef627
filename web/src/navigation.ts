// Moving through the network: out of what was opened, to the next head, the next layer, the next step.
import type { App, Place, View } from "./state";
import type { TensorRow } from "./types";

const DEPTH: Partial<Record<View, number>> = { map: 0, block: 1, head: 2, cell: 3 };

const trails = new WeakMap<App, Place[]>();

/** Remembers the way in, so that Esc finds the way out. */
export function remember(app: App, place: Place): void {
  const trail = trails.get(app) ?? [];
  trails.set(app, [...trail.filter((each) => depth(each) < depth(place)), place]);
}

/** Back to where this was opened from; to the map at last. */
export function zoomOut(app: App): void {
  const here = app.place.value;
  const trail = trails.get(app) ?? [];
  const from = trail.filter((each) => depth(each) < depth(here)).at(-1);
  app.place.value = from ?? { view: "map" };
}

function depth(place: Place): number {
  return DEPTH[place.view] ?? 1;
}

/** Another head of the same attention. */
export function turnHead(app: App, by: number): void {
  const { place, manifest } = app;
  const { section, tensor } = place.value;
  const named = (row: TensorRow) => row.dims[0] === "H" && (row.name === tensor || row.name === `${section}.pattern`);
  const heads = manifest.value?.tensors.find(named)?.shape[0] ?? (section ? 0 : manifest.value?.axes.H?.size ?? 0);
  if (!heads) return;
  const head = ((place.value.head ?? place.value.index?.[0] ?? 0) + by + heads) % heads;
  const row = manifest.value?.tensors.find((each) => each.name === place.value.tensor);
  const index = place.value.index && row?.dims[0] === "H" ? [head, ...place.value.index.slice(1)] : place.value.index;
  app.go(index ? { head, index } : { head });
}

/** The same part of another layer. */
export function turnLayer(app: App, by: number): void {
  const { section, tensor } = app.place.value;
  const names = app.manifest.value?.tensors.map((row) => row.name) ?? [];
  const moved = (name: string | undefined) => name?.replace(/\.(\d+)\./, (_, layer) => `.${Number(layer) + by}.`);
  const [toSection, toTensor] = [moved(section), moved(tensor)];
  const there = toSection === undefined || names.some((name) => name.startsWith(`${toSection}.`));
  const known = toTensor === undefined || names.includes(toTensor) || toTensor === tensor;
  if (there && known) app.go({ ...(toSection && { section: toSection }), ...(toTensor && { tensor: toTensor }) });
}

/** Another step of decoding. */
export function turnStep(app: App, by: number): void {
  const steps = app.manifest.value?.steps.length ?? 0;
  app.step.value = Math.min(Math.max(0, steps - 1), Math.max(0, app.step.value + by));
}
