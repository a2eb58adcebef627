// Tells the story of a trace that Python wrote into a directory: each stop as JSON, its sentence and its formula as text.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { formatNumber, type RichText } from "../src/format";
import type { Manifest } from "../src/types";
import { makeStory } from "../src/views/story";
import { listElements, writeXml } from "./small_trace";

const [directory = "", piece = "1", step = "0"] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(directory, "manifest.json"), "utf-8")) as Manifest;

async function readValues(name: string): Promise<Float32Array> {
  const row = manifest.tensors.find((row) => row.name === name);
  if (!row?.captured) throw new Error(`${name} was not captured.`);
  return new Float32Array(Uint8Array.from(readFileSync(join(directory, `${name}.bin`))).buffer);
}

const reader = { piece: Number(piece), step: Number(step), readValues };
const stops = makeStory(manifest, reader.piece, true).map(async (stop) => {
  const text = await stop.writeText(reader).catch((error: Error) => [error.message]);
  return {
    title: stop.title,
    place: stop.place,
    tensor: stop.tensor?.name ?? null,
    formula: listElements(stop.formula).map(writeXml).join(""),
    says: toPlainText(text),
    numbers: text.filter((part) => typeof part === "number"),
    attempt: stop.suggestion,
  };
});
console.log(JSON.stringify(await Promise.all(stops)));

/** Converts rich text to plain text, with nothing hidden. */
function toPlainText(text: RichText): string {
  return text.map((part) => (typeof part === "number" ? formatNumber(part) : typeof part === "object" ? part.guess : part)).join("");
}
