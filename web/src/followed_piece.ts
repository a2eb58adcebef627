// Following a piece: it is outlined in every picture until it is let go.
import type { SheetAxis } from "./picture";
import type { App } from "./state";

/** Follows a piece, or lets go of it. */
export function follow(app: App, axis: SheetAxis, at: number): void {
  if (axis.dim !== "S" && axis.dim !== "T") return;
  const now = app.follow.value;
  app.follow.value = now?.dim === axis.dim && now.index === at ? null : { dim: axis.dim, index: at };
}

/** The piece of the row; pressed again, that of the column; then none. */
export function followCell(app: App, props: { rows: SheetAxis; cols: SheetAxis }, cell: readonly [number, number]): void {
  const now = app.follow.value;
  const is = (axis: SheetAxis, at: number) => now?.dim === axis.dim && now.index === at;
  if (is(props.rows, cell[0]) || !props.rows.labels) follow(app, props.cols, cell[1]);
  else if (is(props.cols, cell[1])) app.follow.value = null;
  else follow(app, props.rows, cell[0]);
}
