// Painting of thumbnails: small pictures without words, quick enough to paint a hundred at once.
import { getColourTable, type Scale, toRgb } from "./colour";
import type { SheetCells } from "./sheet_geometry";
import type { Inks } from "./theme";

/** Paints every cell as a square of `side` device pixels. */
export function paintThumbnail(canvas: HTMLCanvasElement, cells: SheetCells, scale: Scale, side: number, inks: Inks): void {
  const { rows, cols, values, masked } = cells;
  const width = cols.size * side;
  canvas.width = width;
  canvas.height = rows.size * side;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const pixels = context.createImageData(width, canvas.height);
  const words = new Uint32Array(pixels.data.buffer);
  const table = getColourTable(scale).map(packPixel);
  const last = table.length - 1;
  const spread = last / (scale.largest - scale.least);
  const notANumber = packPixel(toRgb(Number.NaN, scale));
  const [panel, line] = [packPixel(parseHex(inks.panel)), packPixel(parseHex(inks.hatch))];
  for (let r = 0; r < rows.size; r++) {
    for (let c = 0; c < cols.size; c++) {
      const value = values[r * cols.size + c] as number;
      const hatched = masked?.(r, c) ?? false;
      const entry = Math.round((value - scale.least) * spread);
      const word = Number.isFinite(value) ? (table[entry < 0 ? 0 : entry > last ? last : entry] as number) : notANumber;
      for (let y = r * side; y < (r + 1) * side; y++)
        for (let x = c * side; x < (c + 1) * side; x++)
          words[y * width + x] = hatched ? ((x + y) % 6 === 0 ? line : panel) : word;
    }
  }
  context.putImageData(pixels, 0, 0);
}

function packPixel([red, green, blue]: readonly [number, number, number]): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function parseHex(colour: string): [number, number, number] {
  return [1, 3, 5].map((start) => Number.parseInt(colour.slice(start, start + 2), 16)) as [number, number, number];
}
