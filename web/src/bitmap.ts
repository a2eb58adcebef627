// Drawings as bitmaps: saved as PNG, or embedded where a picture has too many cells.

import { type Drawing, paintDrawing } from "./drawing";
import { saveFile } from "./file_formats";

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
