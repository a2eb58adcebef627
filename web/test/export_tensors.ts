// Saves tensors that Python wrote into a directory, as the page does, into another one: all.npz, NAME.csv and NAME.svg.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getInks, makeTensorScale } from "../src/colour";
import { makeDrawing, writeSvg } from "../src/drawing";
import { writeCsv, writeNpz } from "../src/file_formats";
import { makePicture } from "../src/picture";
import type { Manifest } from "../src/types";

const [from = "", to = ""] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(from, "manifest.json"), "utf-8")) as Manifest;
const arrays = manifest.tensors.map((row) => {
  const values = new Float32Array(Uint8Array.from(readFileSync(join(from, `${row.name}.bin`))).buffer);
  writeFileSync(join(to, `${row.name}.csv`), writeCsv(row, values, manifest.axes));
  const { rows, cols, values: drawn, masked } = makePicture(manifest, row, values, null);
  const panel = { title: row.name, subtitle: row.means, rows, cols, values: drawn, masked, scale: makeTensorScale(row, false), inks: getInks(false), numbers: true };
  writeFileSync(join(to, `${row.name}.svg`), writeSvg(makeDrawing(panel), () => "data:image/png;base64,"));
  return { name: row.name, shape: row.shape, values, flags: row.dtype === "bool" };
});
writeFileSync(join(to, "all.npz"), writeNpz(arrays));
