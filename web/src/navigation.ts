// Navigation through the network: zooming out, the next head, layer or step, and the piece that is followed.
import { findBlock, getPositionDim } from "./network";
import type { SheetAxis } from "./picture";
import type { Stage } from "./play";
import type { App, Place, View } from "./state";
import type { TensorRow } from "./types";

/** Views with a tab of their own; the first nine are shown by the keys 1 to 9. */
export const TABS: [View, string][] = [
  ["map", "Network"],
  ["tokens", "Pieces"],
  ["positions", "Positions"],
  ["words", "Words"],
  ["heads", "Heads"],
  ["output", "Output"],
  ["beam", "Beam"],
  ["align", "Alignment"],
  ["compare", "Compare"],
  ["claims", "Claims"],
  ["training", "Training"],
  ["debug", "Debug"],
  ["checks", "Checks"],
  ["export", "Export"],
];

const DEPTH: Partial<Record<View, number>> = { map: 0, block: 1, head: 2, cell: 3 };

/** Remembers the places on the way in, so that Esc finds the way out. */
export function rememberPlace(app: App, place: Place): void {
  app.trail = [...app.trail.filter((earlier) => getDepth(earlier) < getDepth(place)), place];
}

/** Goes back to the place that this one was opened from, and finally to the map. */
export function zoomOut(app: App): void {
  const current = app.place.value;
  const previous = app.trail.filter((earlier) => getDepth(earlier) < getDepth(current)).at(-1);
  app.place.value = previous ?? { view: "map" };
}

function getDepth(place: Place): number {
  return DEPTH[place.view] ?? 1;
}

/** Moves to another head of the same attention. */
export function moveHead(app: App, by: number): void {
  const { place, manifest } = app;
  const { section, tensor } = place.value;
  const hasHeads = (row: TensorRow) => row.dims[0] === "H" && (row.name === tensor || row.name === `${section}.pattern`);
  const heads = manifest.value?.tensors.find(hasHeads)?.shape[0] ?? (section ? 0 : manifest.value?.axes.H?.size ?? 0);
  if (!heads) return;
  const head = ((place.value.head ?? place.value.index?.[0] ?? 0) + by + heads) % heads;
  const row = manifest.value?.tensors.find((row) => row.name === place.value.tensor);
  const index = place.value.index && row?.dims[0] === "H" ? [head, ...place.value.index.slice(1)] : place.value.index;
  app.goTo(index ? { head, index } : { head });
}

/** Moves to the corresponding part of another layer. */
export function moveLayer(app: App, by: number): void {
  const { section, tensor } = app.place.value;
  const names = app.manifest.value?.tensors.map((row) => row.name) ?? [];
  const shiftLayer = (name: string | undefined) => name?.replace(/\.(\d+)\./, (_, layer) => `.${Number(layer) + by}.`);
  const [toSection, toTensor] = [shiftLayer(section), shiftLayer(tensor)];
  const hasSection = toSection === undefined || names.some((name) => name.startsWith(`${toSection}.`));
  const hasTensor = toTensor === undefined || names.includes(toTensor) || toTensor === tensor;
  if (hasSection && hasTensor) app.goTo({ ...(toSection && { section: toSection }), ...(toTensor && { tensor: toTensor }) });
}

/** Moves to another number of the last dimension, where the computation of one number is shown. */
export function moveCell(app: App, by: number): void {
  const { tensor, index } = app.place.value;
  const manifest = app.manifest.value;
  const row = [...(manifest?.tensors ?? []), ...(manifest?.parameters ?? [])].find((row) => row.name === tensor);
  const last = index?.at(-1);
  if (!row || !index || last === undefined) return;
  const next = Math.min((row.shape.at(-1) ?? 1) - 1, Math.max(0, last + by));
  if (next !== last) app.goTo({ index: [...index.slice(0, -1), next] });
}

/** Moves to another step of decoding. */
export function moveStep(app: App, by: number): void {
  const steps = app.manifest.value?.steps.length ?? 0;
  app.step.value = Math.min(Math.max(0, steps - 1), Math.max(0, app.step.value + by));
}

/** Makes what is played on a page: the steps of decoding or, where a part of the encoder is open, its positions. */
export function makeStage(app: App): Stage {
  const findDim = () => {
    const { view, section } = app.place.value;
    const manifest = app.manifest.value;
    const block = manifest && section !== undefined && (view === "head" || view === "block") ? findBlock(manifest, section) : undefined;
    return (block?.tensors[0] && getPositionDim(block.tensors[0])) ?? "T";
  };
  let [place, manifest, dim] = [app.place.value, app.manifest.value, findDim()];
  const getDim = () => {
    const isSame = place === app.place.value && manifest === app.manifest.value; // as in most frames of the screen
    if (!isSame) [place, manifest, dim] = [app.place.value, app.manifest.value, findDim()];
    return dim;
  };
  return {
    getDim,
    countRows: () => (getDim() === "T" ? (app.manifest.value?.steps.length ?? 0) : (app.manifest.value?.axes.S?.size ?? 0)),
    getRow: () => (getDim() === "T" ? app.step.value : (app.place.value.row ?? 0)),
    showRow(row) {
      if (getDim() === "T") app.step.value = row;
      else app.pointAt({ row });
    },
  };
}

/** Follows a piece, or lets go of it. */
export function toggleFollow(app: App, axis: SheetAxis, position: number): void {
  if (axis.dim !== "S" && axis.dim !== "T") return;
  app.pointAt({ row: undefined, col: undefined }); // the row looked at is now that of the piece
  const followed = app.followed.value;
  app.followed.value = followed?.dim === axis.dim && followed.index === position ? null : { dim: axis.dim, index: position };
}

/** Follows the piece of the row of a cell; pressed again, that of its column; then none. */
export function toggleFollowCell(app: App, props: { rows: SheetAxis; cols: SheetAxis }, cell: readonly [number, number]): void {
  const followed = app.followed.value;
  const isFollowed = (axis: SheetAxis, position: number) => followed?.dim === axis.dim && followed.index === position;
  if (isFollowed(props.rows, cell[0]) || !props.rows.labels) toggleFollow(app, props.cols, cell[1]);
  else if (isFollowed(props.cols, cell[1])) app.followed.value = null;
  else toggleFollow(app, props.rows, cell[0]);
}
