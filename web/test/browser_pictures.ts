// Functions that tests call in a browser: they paint given numbers, read them back pixel by pixel, and time many pictures.
import { getColourTable, getInks, readValue, type Scale } from "../src/colour";
import { layOutSheet, paintSheet, paintThumbnail, type SheetView } from "../src/sheet_painting";

const makeWords = (size: number) => Array.from({ length: size }, (_, i) => `w${i}`);

/** Paints a sheet and gives the values read back from the middle of each cell, row by row. */
function sheetReadBack(values: number[], rows: number, cols: number, scale: Scale, ratio: number): number[] {
  const cells = { values, rows: { dim: "T", size: rows, labels: makeWords(rows) }, cols: { dim: "S", size: cols, labels: makeWords(cols) } };
  const layout = layOutSheet(cells, 900, 12, (text) => text.length * 7, { numbers: false });
  const canvas = document.createElement("canvas");
  const view: SheetView = { layout, scrollLeft: 0, scrollTop: 0, viewWidth: 900, viewHeight: 700, ratio };
  canvas.width = 900 * ratio;
  canvas.height = 700 * ratio;
  const context = canvas.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
  paintSheet(context, cells, scale, view, { follow: null, framed: {}, dimmed: false, pinned: null, hover: null, numbers: false, hidden: false }, getInks(scale.dark));
  return values.map((_, i) => {
    const x = layout.left + ((i % cols) + 0.5) * layout.width;
    const y = layout.top + (Math.floor(i / cols) + 0.5) * layout.height;
    return readPixel(context, x * ratio, y * ratio, scale);
  });
}

function thumbnailReadBack(values: number[], rows: number, cols: number, scale: Scale): number[] {
  const canvas = document.createElement("canvas");
  paintThumbnail(canvas, { values, rows: { dim: "T", size: rows }, cols: { dim: "S", size: cols } }, scale, 3, getInks(scale.dark));
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  return values.map((_, i) => readPixel(context, (i % cols) * 3 + 1, Math.floor(i / cols) * 3 + 1, scale));
}

function readPixel(context: CanvasRenderingContext2D, x: number, y: number, scale: Scale): number {
  const [red, green, blue] = context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data;
  return readValue([red as number, green as number, blue as number], scale);
}

/** Counts the calls of the canvas that paint one map of `side` squared, a triangle of it masked. */
function countPaintingCalls(side: number): number {
  const prototype = CanvasRenderingContext2D.prototype as unknown as Record<string, unknown>;
  const methods = Object.entries(Object.getOwnPropertyDescriptors(prototype)).filter(([, method]) => typeof method.value === "function");
  let calls = 0;
  for (const [name, method] of methods)
    prototype[name] = function (this: CanvasRenderingContext2D, ...values: unknown[]) {
      calls += 1;
      return method.value.apply(this, values);
    };
  const axis = { dim: "S", size: side };
  const values = Float32Array.from({ length: side * side }, (_, i) => i / side ** 2);
  const scale: Scale = { kind: "sequential", least: 0, largest: 1, dark: false };
  const masked = (row: number, col: number) => col > row;
  paintThumbnail(document.createElement("canvas"), { values, rows: axis, cols: axis, masked }, scale, 3, getInks(false));
  for (const [name, method] of methods) prototype[name] = method.value;
  return calls;
}

Object.assign(globalThis, { sheetReadBack, thumbnailReadBack, countPaintingCalls, tableLength: (scale: Scale) => getColourTable(scale).length });
