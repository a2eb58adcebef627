// Saves tensors that Python wrote into a directory, as the page does, into another one: all.npz, NAME.csv and NAME.svg.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scaleOf } from "../src/colour";
import { drawingOf, svgOf } from "../src/drawing";
import { csvOf, npzOf } from "../src/file_formats";
import { pictureOf } from "../src/picture";
import { inksOf } from "../src/theme";
import type { Manifest } from "../src/types";

const [from = "", to = ""] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(from, "manifest.json"), "utf-8")) as Manifest;
const arrays = manifest.tensors.map((row) => {
  const values = new Float32Array(Uint8Array.from(readFileSync(join(from, `${row.name}.bin`))).buffer);
  writeFileSync(join(to, `${row.name}.csv`), csvOf(row, values, manifest.axes));
  const { rows, cols, values: drawn, masked } = pictureOf(manifest, row, values, null);
  const panel = { title: row.name, subtitle: row.means, rows, cols, values: drawn, masked, scale: scaleOf(row, false), inks: inksOf(false), numbers: true };
  writeFileSync(join(to, `${row.name}.svg`), svgOf(drawingOf(panel), () => "data:image/png;base64,"));
  return { name: row.name, shape: row.shape, values, flags: row.dtype === "bool" };
});
writeFileSync(join(to, "all.npz"), npzOf(arrays));
