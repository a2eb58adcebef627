// Asks the engine, in Node, about the model in a file: reads questions from standard input, one JSON array a line of verb and
// arguments, and writes an answer for each. For the laws of tests/page/test_engine.py.
import { readFileSync } from "node:fs";
import { describeError } from "../src/format";
import { makeAnswers } from "../src/engine/answers";
import { findProtected } from "../src/engine/protected";
import { findSentenceEnds } from "../src/engine/sentences";
import { findCounterpart } from "../src/engine/spelling";
import { type PackedModel, unpackModel } from "../src/engine/package";

const [path = ""] = process.argv.slice(2);
const html = readFileSync(path, "utf8");
const readJson = (id: string) => JSON.parse(new RegExp(`<script type="application/json" id="${id}">(.*?)</script>`, "s").exec(html)?.[1] ?? "null");
const blocks: Record<string, string> = {};
for (const [, kind, name, text] of html.matchAll(/<script type="application\/gzip" data-(\w+)="([^"]*)">([^<]*)<\/script>/g)) blocks[`${kind} ${name}`] = text ?? "";

const packed: PackedModel = { header: readJson("pellucid-model"), manifest: readJson("pellucid-manifest"), blocks };
const translator = await unpackModel(packed);
const answers = {
  ...makeAnswers(),
  encode: ({ side, lines }: { side: "source" | "target"; lines: string[] }) => lines.map((line) => translator[side].encode(line)),
  decode: (sentences: number[][]) => sentences.map((ids) => translator.target.decode(ids)),
  sentences: (lines: string[]) => lines.map((line) => findSentenceEnds(line).map((end, i, ends) => line.slice(ends[i - 1] ?? 0, end))),
  split: (lines: string[]) => lines.map((line) => translator.cut(line).split),
  counterparts: (characters: string[]) => characters.map(findCounterpart),
  protected: (lines: string[]) => lines.map((line) => findProtected(line).map(([start, end]) => line.slice(start, end))),
} as Record<string, (args: never) => unknown>;
await answers.open?.(packed as never);
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const [ask, args] = JSON.parse(line) as [string, never];
  const began = performance.now();
  try {
    const value = await answers[ask]?.(args);
    const numbers = value instanceof Float32Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") : undefined;
    console.log(JSON.stringify({ value: numbers ?? value, milliseconds: performance.now() - began }));
  } catch (error) {
    console.log(JSON.stringify({ problem: describeError(error) }));
  }
}
