// Tells the story of a trace that Python wrote into a directory: each stop as JSON, its sentence and its formula as text.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { formatNumber, type RichText } from "../src/format";
import type { HeadStudyAnswer, Manifest } from "../src/types";
import { chooseStory } from "../src/story_choice";
import { makeStory } from "../src/story_stops";
import { listElements, writeXml } from "./small_trace";

// The piece is followed, as by a reader; without one the story chooses it.
const [directory = "", piece = "", step = "", study = "null"] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(directory, "manifest.json"), "utf-8")) as Manifest;

async function readValues(name: string): Promise<Float32Array> {
  const row = manifest.tensors.find((row) => row.name === name);
  if (!row?.captured) throw new Error(`${name} was not captured.`);
  return new Float32Array(Uint8Array.from(readFileSync(join(directory, `${name}.bin`))).buffer);
}

const measured = JSON.parse(study) as HeadStudyAnswer | null;
const choice = await chooseStory(manifest, measured, piece === "" ? null : Number(piece), readValues);
const reader = { piece: choice.piece, step: step === "" ? choice.step : Number(step), readValues };
const stops = makeStory(manifest, choice, true).map(async (stop) => {
  const text = await stop.writeText(reader).catch((error: Error) => [error.message]);
  return {
    title: stop.title,
    place: stop.place,
    tensor: stop.tensor?.name ?? null,
    formula: listElements(stop.formula).map(writeXml).join(""),
    says: toPlainText(text),
    numbers: text.flatMap((part) => (typeof part === "object" && "spot" in part ? [part.value] : [])),
    spots: text.flatMap((part) => (typeof part === "object" && "spot" in part ? [part.spot] : [])),
    unplaced: text.filter((part) => typeof part === "number"),
    attempt: stop.suggestion,
  };
});
const chosen = [choice.self, choice.cross].map((each) => each && { section: each.parts.section, head: each.head });
console.log(JSON.stringify({ ...reader, chosen, stops: await Promise.all(stops) }));

/** Converts rich text to plain text, with nothing hidden. */
function toPlainText(text: RichText): string {
  const write = (part: RichText[number]): string => {
    if (typeof part === "string") return part;
    if (typeof part === "number") return formatNumber(part);
    if ("guess" in part) return part.guess;
    return "name" in part ? part.name : formatNumber(part.value);
  };
  return text.map(write).join("");
}
