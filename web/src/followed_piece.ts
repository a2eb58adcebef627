// The followed piece, which is outlined in every picture until it is let go.
import type { SheetAxis } from "./picture";
import type { App } from "./state";

/** Follows a piece, or lets go of it. */
export function toggleFollow(app: App, axis: SheetAxis, position: number): void {
  if (axis.dim !== "S" && axis.dim !== "T") return;
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
