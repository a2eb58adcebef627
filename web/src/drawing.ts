// One tensor as a drawing of vector shapes: painted as a bitmap or written as SVG.
import { chooseInk, getColourTable, type Inks, type Scale, toCssColour, toRgb } from "./colour";
import { saveFile } from "./file_formats";
import { formatShort } from "./format";
import type { SheetAxis } from "./picture";

export interface Panel {
  title: string;
  subtitle: string;
  rows: SheetAxis;
  cols: SheetAxis;
  values: ArrayLike<number>;
  masked?: (row: number, col: number) => boolean;
  scale: Scale;
  inks: Inks;
  numbers: boolean;
}

type Mark =
  | { kind: "rect"; x: number; y: number; width: number; height: number; fill: string }
  | { kind: "line"; x1: number; y1: number; x2: number; y2: number; stroke: string }
  | { kind: "text"; x: number; y: number; text: string; size: number; fill: string; anchor: "start" | "middle" | "end"; turn?: number };

/** A mark, or the place of the cells. */
type Shape = Mark | { kind: "cells"; x: number; y: number; side: number };

interface Drawing {
  width: number;
  height: number;
  shapes: Shape[];
  panel: Panel;
}

/** Largest number of cells that an SVG draws one by one; more become a bitmap. */
export const VECTOR_CELLS = 5000;

/** Largest number of cells in a row or column of a picture. */
export const LONGEST = 4000;

const LETTER = 7; // mean width of a letter of a header, in pixels at size 12

/** Makes the title, headers, cells and legend of a panel, in pixels. */
export function makeDrawing(panel: Panel): Drawing {
  const { rows, cols, inks, scale } = panel;
  const side = Math.max(1, Math.min(34, Math.floor(900 / Math.max(rows.size, cols.size))));
  const left = 16 + measureHeaders(rows, 40);
  const top = 60 + measureHeaders(cols, 22);
  const width = Math.max(420, left + cols.size * side + 60);
  const height = top + rows.size * side + 56;
  const text = (x: number, y: number, content: string, more: Partial<Extract<Mark, { kind: "text" }>> = {}): Mark => ({
    kind: "text",
    x,
    y,
    text: content,
    size: 12,
    fill: inks.ink,
    anchor: "start",
    ...more,
  });
  const headerInterval = (axis: SheetAxis) => Math.max(1, Math.ceil(14 / side)) * (axis.labels ? 1 : Math.max(1, Math.ceil(26 / side)));
  const headers: Mark[] = [];
  for (let row = 0; row < rows.size; row += headerInterval(rows))
    headers.push(text(left - 6, top + (row + 0.5) * side + 4, rows.labels?.[row] ?? String(row), { anchor: "end" }));
  for (let col = 0; col < cols.size; col += headerInterval(cols))
    headers.push(text(left + (col + 0.5) * side + 3, top - 6, cols.labels?.[col] ?? String(col), { turn: cols.labels ? -60 : 0, anchor: cols.labels ? "start" : "middle" }));
  return {
    width,
    height,
    panel,
    shapes: [
      { kind: "rect", x: 0, y: 0, width, height, fill: inks.panel },
      text(16, 24, panel.title, { size: 15 }),
      text(16, 42, panel.subtitle, { fill: inks.quiet }),
      ...headers,
      { kind: "cells", x: left, y: top, side },
      ...makeLegend(scale, inks, left, height - 34, text),
    ],
  };
}

function measureHeaders(axis: SheetAxis, least: number): number {
  return Math.min(160, Math.max(least, LETTER * Math.max(0, ...(axis.labels ?? []).map((label) => [...label].length))));
}

function makeLegend(scale: Scale, inks: Inks, x: number, y: number, text: (x: number, y: number, content: string) => Mark): Mark[] {
  const table = getColourTable(scale);
  const colours = Array.from({ length: 64 }, (_, i): Mark => {
    const [red, green, blue] = table[Math.round((i / 63) * (table.length - 1))] ?? [0, 0, 0];
    return { kind: "rect", x: x + 3 * i, y, width: 3, height: 12, fill: `rgb(${red},${green},${blue})` };
  });
  const frame: Mark = { kind: "line", x1: x, y1: y + 12.5, x2: x + 192, y2: y + 12.5, stroke: inks.line };
  return [...colours, frame, text(x, y + 26, formatShort(scale.least)), text(x + 164, y + 26, formatShort(scale.largest))];
}

/** Makes the shapes of all cells, with hatching where they are masked and numbers where they fit. */
function makeCellShapes({ panel }: Drawing, x: number, y: number, side: number): Mark[] {
  const { rows, cols, values, masked, scale, inks } = panel;
  const shapes: Mark[] = [];
  for (let row = 0; row < rows.size; row++) {
    for (let col = 0; col < cols.size; col++) {
      const [left, top] = [x + col * side, y + row * side];
      const value = values[row * cols.size + col] ?? Number.NaN;
      const hatched = masked?.(row, col) ?? false;
      shapes.push({ kind: "rect", x: left, y: top, width: side, height: side, fill: hatched ? inks.panel : toCssColour(value, scale) });
      if (hatched) shapes.push({ kind: "line", x1: left, y1: top + side, x2: left + side, y2: top, stroke: inks.hatch });
      else if (panel.numbers && side >= 30) {
        const fill = chooseInk(toRgb(value, scale));
        shapes.push({ kind: "text", x: left + side / 2, y: top + side / 2 + 4, text: formatShort(value), size: 10, fill, anchor: "middle" });
      }
    }
  }
  return shapes;
}

/** Writes the drawing as SVG; `makeBitmap` gives the cells as a data URL where there are too many of them. */
export function writeSvg(drawing: Drawing, makeBitmap: (drawing: Drawing) => string): string {
  const { panel, width, height } = drawing;
  const [across, down] = [panel.cols.size, panel.rows.size];
  const elements = drawing.shapes.flatMap((shape) => {
    if (shape.kind !== "cells") return [writeShape(shape)];
    if (across * down <= VECTOR_CELLS) return makeCellShapes(drawing, shape.x, shape.y, shape.side).map(writeShape);
    const size = `x="${shape.x}" y="${shape.y}" width="${across * shape.side}" height="${down * shape.side}"`;
    return [`<image ${size} style="image-rendering:pixelated" href="${makeBitmap(drawing)}"/>`];
  });
  const font = 'font-family="system-ui, sans-serif"';
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${font}>\n${elements.join("\n")}\n</svg>\n`;
}

function writeShape(shape: Mark): string {
  if (shape.kind === "rect")
    return `<rect x="${shape.x}" y="${shape.y}" width="${shape.width}" height="${shape.height}" fill="${shape.fill}"/>`;
  if (shape.kind === "line") return `<line x1="${shape.x1}" y1="${shape.y1}" x2="${shape.x2}" y2="${shape.y2}" stroke="${shape.stroke}"/>`;
  const turn = shape.turn ? ` transform="rotate(${shape.turn} ${shape.x} ${shape.y})"` : "";
  return `<text x="${shape.x}" y="${shape.y}" font-size="${shape.size}" fill="${shape.fill}" text-anchor="${shape.anchor}"${turn}>${escapeXml(shape.text)}</text>`;
}

/** Escapes text for XML, and drops the characters that XML forbids. */
export function escapeXml(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "").replace(/[&<>"]/g, (sign) => entities[sign] ?? sign);
}

/** Paints the drawing, enlarged by `ratio`. */
function paintDrawing(context: CanvasRenderingContext2D, drawing: Drawing, ratio: number): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const shapes = drawing.shapes.flatMap((shape) =>
    shape.kind === "cells" ? makeCellShapes(drawing, shape.x, shape.y, shape.side) : [shape],
  );
  for (const shape of shapes) paintShape(context, shape);
}

function paintShape(context: CanvasRenderingContext2D, shape: Mark): void {
  if (shape.kind === "rect") {
    context.fillStyle = shape.fill;
    context.fillRect(shape.x, shape.y, shape.width, shape.height);
  } else if (shape.kind === "line") {
    context.strokeStyle = shape.stroke;
    context.beginPath();
    context.moveTo(shape.x1, shape.y1);
    context.lineTo(shape.x2, shape.y2);
    context.stroke();
  } else {
    context.save();
    context.fillStyle = shape.fill;
    context.font = `${shape.size}px system-ui, sans-serif`;
    context.textAlign = shape.anchor === "middle" ? "center" : shape.anchor;
    context.translate(shape.x, shape.y);
    context.rotate(((shape.turn ?? 0) * Math.PI) / 180);
    context.fillText(shape.text, 0, 0);
    context.restore();
  }
}

/** Saves the drawing as PNG, at twice its size. */
export function savePng(drawing: Drawing, name: string): Promise<void> {
  const canvas = document.createElement("canvas");
  canvas.width = 2 * drawing.width;
  canvas.height = 2 * drawing.height;
  const context = canvas.getContext("2d");
  if (!context) return Promise.reject(new Error("This browser paints no pictures."));
  paintDrawing(context, drawing, 2);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => {
      if (!blob) return reject(new Error("The picture is too large for this browser."));
      saveFile(name, blob, "image/png");
      resolve();
    }),
  );
}

/** Paints the cells alone, as large as in the drawing, and gives them as a data URL. */
export function makeBitmapUrl(drawing: Drawing): string {
  const cells = drawing.shapes.find((shape) => shape.kind === "cells");
  const canvas = document.createElement("canvas");
  if (cells?.kind !== "cells") return "";
  canvas.width = drawing.panel.cols.size * cells.side;
  canvas.height = drawing.panel.rows.size * cells.side;
  const context = canvas.getContext("2d");
  if (!context) return "";
  paintDrawing(context, { ...drawing, shapes: [{ ...cells, x: 0, y: 0 }] }, 1);
  return canvas.toDataURL("image/png");
}
