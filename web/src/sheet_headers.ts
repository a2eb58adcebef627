// The headers of a sheet: words and numbers beside its cells; the followed piece has a background of its own colour.
import type { SheetAxis } from "./picture";
import { SPACE } from "./piece";
import { type SheetCells, type SheetView, SLANT, type VisibleCells } from "./sheet_geometry";
import type { FollowedPiece } from "./state";
import type { Inks } from "./theme";

/** Paints the headers of the visible part. */
export function paintHeaders(
  context: CanvasRenderingContext2D,
  cells: SheetCells,
  view: SheetView,
  seen: VisibleCells,
  follow: FollowedPiece | null,
  inks: Inks,
): void {
  const { layout, viewWidth, viewHeight } = view;
  const plain = `${layout.font}px ui-sans-serif, system-ui, sans-serif`;
  const label = (text: string, followed: boolean, x: number, y: number) => {
    context.font = followed ? `bold ${plain}` : plain;
    if (followed) {
      const textWidth = context.measureText(text).width;
      const left = context.textAlign === "right" ? x - textWidth : context.textAlign === "center" ? x - textWidth / 2 : x;
      context.fillStyle = inks.follow;
      context.beginPath();
      context.roundRect(left - 5, y - layout.font * 0.72, textWidth + 10, layout.font * 1.4, 4);
      context.fill();
    }
    context.fillStyle = followed ? inks.followInk : inks.ink;
    fillPiece(context, text, x, y);
  };
  context.save();
  context.textBaseline = "middle";
  context.beginPath();
  context.rect(0, layout.top, layout.left, viewHeight - layout.top);
  context.clip();
  context.textAlign = "right";
  for (const r of chooseTicks(cells.rows, seen.r0, seen.r1, layout.height, layout.font * 1.4)) {
    const y = layout.top + (r + 0.5) * layout.height - view.scrollTop;
    const text = clipText(context, cells.rows.labels?.[r], layout.left - 14, plain) ?? String(r);
    label(text, follow?.dim === cells.rows.dim && follow.index === r, layout.left - 8, y);
  }
  context.restore();
  context.save();
  context.textBaseline = "middle";
  context.beginPath();
  context.rect(layout.left - 4, 0, viewWidth - layout.left + 4, layout.top);
  context.clip();
  for (const c of chooseTicks(cells.cols, seen.c0, seen.c1, layout.width, layout.font * 3)) {
    const x = layout.left + (c + 0.5) * layout.width - view.scrollLeft;
    const text = clipText(context, cells.cols.labels?.[c], 120, plain) ?? String(c);
    const followed = follow?.dim === cells.cols.dim && follow.index === c;
    context.save();
    if (layout.slanted) {
      context.translate(x, layout.top - 6);
      context.rotate(-SLANT);
      context.textAlign = "left";
      label(text, followed, 2, 0);
    } else {
      context.textAlign = "center";
      label(text, followed, x, layout.top - layout.font * 0.75);
    }
    context.restore();
  }
  context.restore();
}

/** Paints a piece with the mark of its space dimmed. */
function fillPiece(context: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  if (!text.startsWith(SPACE)) return context.fillText(text, x, y);
  const textWidth = context.measureText(text).width;
  const start = context.textAlign === "right" ? x - textWidth : context.textAlign === "center" ? x - textWidth / 2 : x;
  const align = context.textAlign;
  context.textAlign = "left";
  context.globalAlpha = 0.75;
  context.fillText(SPACE, start, y);
  context.globalAlpha = 1;
  context.fillText(text.slice(1), start + context.measureText(SPACE).width, y);
  context.textAlign = align;
}

/** Chooses the positions that get a header: all pieces, and as many numbers as do not touch. */
function chooseTicks(axis: SheetAxis, from: number, to: number, side: number, room: number): number[] {
  if (axis.dim === "1") return [];
  const interval = axis.labels ? 1 : ([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((step) => step * side >= room) ?? 2048);
  const ticks = [];
  for (let position = Math.ceil(from / interval) * interval; position < to; position += interval) ticks.push(position);
  return ticks;
}

function clipText(context: CanvasRenderingContext2D, text: string | undefined, room: number, font: string): string | undefined {
  if (text === undefined) return undefined;
  context.font = font;
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return `${text.slice(0, end)}…`;
}
