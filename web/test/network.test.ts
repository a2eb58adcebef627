// The picture of the network follows from names and operations alone: which parts there are, and what reads what.
import assert from "node:assert/strict";
import test from "node:test";
import { findBlock, listBlocks, listStacks } from "../src/network";
import type { Manifest, Op, TensorRow } from "../src/types";

const makeLinear = (input: string): Op => ({ kind: "linear", inputs: [input], weight: "w", bias: null, first: 0 });
const makeNorm = (input: string): Op => ({ kind: "norm", inputs: [input], weight: "w", bias: "b", eps: 1e-5 });

function makeAttention(at: string, reads: string, memory: string, [q, k]: [string, string]): [string, string[], Op][] {
  const of = (part: string) => `${at}.${part}`;
  return [
    [of("q"), ["H", q, "E"], makeLinear(reads)],
    [of("k"), ["H", k, "E"], makeLinear(memory)],
    [of("v"), ["H", k, "E"], makeLinear(memory)],
    [of("products"), ["H", q, k], { kind: "dot", inputs: [of("q"), of("k")] }],
    [of("scores"), ["H", q, k], { kind: "scale", inputs: [of("products")], divisor: 2 }],
    [of("allowed"), ["1", "1", k], { kind: "present" }],
    [of("pattern"), ["H", q, k], { kind: "softmax", inputs: [of("scores"), of("allowed")] }],
    [of("head_output"), ["H", q, "E"], { kind: "mix", inputs: [of("pattern"), of("v")] }],
    [of("output"), [q, "D"], makeLinear(of("head_output"))],
  ];
}

function makeManifest(rows: [string, string[], Op][]): Manifest {
  const shape = (dims: string[]) => dims.map(() => 2);
  const tensors = rows.map(([name, dims, op]) => ({ name, dims, op, shape: shape(dims), captured: true }) as TensorRow);
  return { tensors, parameters: [], axes: {} } as unknown as Manifest;
}

/** One encoder layer with its norm before, one decoder layer with its norm after; other names than this project's. */
const MANIFEST = makeManifest([
  ["reader.vectors", ["S", "D"], { kind: "lookup", table: "t", scale: 1, side: "source" }],
  ["reader.0.look_around.norm", ["S", "D"], makeNorm("reader.vectors")],
  ...makeAttention("reader.0.look", "reader.0.look_around.norm", "reader.0.look_around.norm", ["S", "S"]),
  ["reader.0.look_around.sum", ["S", "D"], { kind: "add", inputs: ["reader.vectors", "reader.0.look.output"] }],
  ["gist", ["S", "D"], makeNorm("reader.0.look_around.sum")],
  ["writer.vectors", ["T", "D"], { kind: "lookup", table: "t", scale: 1, side: "target" }],
  ...makeAttention("writer.0.peek", "writer.vectors", "gist", ["T", "S"]),
  ["writer.0.peek_around.sum", ["T", "D"], { kind: "add", inputs: ["writer.vectors", "writer.0.peek.output"] }],
  ["writer.0.peek_around.norm", ["T", "D"], makeNorm("writer.0.peek_around.sum")],
  ["writer.0.think.inner", ["T", "F"], makeLinear("writer.0.peek_around.norm")],
  ["writer.0.think.active", ["T", "F"], { kind: "activation", inputs: ["writer.0.think.inner"], function: "relu" }],
  ["writer.0.think.output", ["T", "D"], makeLinear("writer.0.think.active")],
  ["votes", ["T", "V"], makeLinear("writer.0.think.output")],
]);

test("a sub-layer holds its residual and norm, whether the norm comes before or after", () => {
  const look = findBlock(MANIFEST, "reader.0.look");
  assert.deepEqual([look?.tensors[0]?.name, look?.tensors.at(-1)?.name], [
    "reader.0.look_around.norm",
    "reader.0.look_around.sum",
  ]);
  assert.equal(findBlock(MANIFEST, "writer.0.peek")?.tensors.at(-1)?.name, "writer.0.peek_around.norm");
  assert.equal(findBlock(MANIFEST, "writer.0.peek_around")?.key, "writer.0.peek");
});

test("every tensor stands in one block, and blocks in the order of computation", () => {
  const all = listBlocks(MANIFEST);
  const names = all.flatMap((block) => block.tensors.map((row) => row.name));
  assert.deepEqual(names, MANIFEST.tensors.map((row) => row.name));
  const kinds = all.map((block) => `${block.key} ${block.kind}`);
  assert.deepEqual(kinds, [
    "reader input",
    "reader.0.look attention",
    "gist end",
    "writer input",
    "writer.0.peek attention",
    "writer.0.think ffn",
    "votes end",
  ]);
});

test("an attention says which other stack its keys come from", () => {
  assert.equal(findBlock(MANIFEST, "reader.0.look")?.reads, null);
  assert.equal(findBlock(MANIFEST, "writer.0.peek")?.reads, "reader");
});

test("stacks hold their input, their layers and what comes after them; only what is there", () => {
  const [reader, writer, ...others] = listStacks(MANIFEST);
  assert.deepEqual(others, []);
  assert.deepEqual([reader?.name, reader?.layers.length], ["reader", 1]);
  assert.deepEqual(reader?.ends.map((block) => block.key), ["gist"]);
  assert.deepEqual([writer?.name, writer?.layers.map((layer) => layer.length)], ["writer", [2]]);
  assert.deepEqual(writer?.ends.map((block) => block.key), ["votes"]);
  const alone = makeManifest([["only.x", ["T", "D"], { kind: "lookup", table: "t", scale: 1, side: "target" }]]);
  assert.deepEqual(listStacks(alone).map(({ name, layers, ends }) => [name, layers, ends]), [["only", [], []]]);
  assert.equal(findBlock(alone, "nothing"), undefined);
});
