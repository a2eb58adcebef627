// The network follows from names and operations alone; nothing overlaps in the picture of the beam tree.
import assert from "node:assert/strict";
import { test } from "node:test";
import { findBlock, listBlocks, listStacks } from "../src/network";
import type { Manifest, Op, TensorRow, Tree, TreeNode } from "../src/types";
import { findNeighbour, findPath, layOutTree, NODE } from "../src/views/beam";

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

/** Makes a tree in which every kept candidate has `children` children, of which the first `width` are kept; ranks run through a step. */
function makeTree(width: number, children: number, steps: number): Tree {
  const nodes: TreeNode[] = [];
  let live: (number | null)[] = [null];
  for (let step = 0; step < steps; step++) {
    const grown = live.flatMap((parent) => Array.from({ length: children }, (_, i) => ({ parent, i })));
    const next: number[] = [];
    grown.slice(0, 2 * width).forEach(({ parent, i }, place) => {
      const fate = place < width ? (step === steps - 1 ? "finished" : "kept") : "pruned";
      nodes.push({
        id: nodes.length,
        parent,
        step,
        piece: `p${step}.${place}.${i}`,
        piece_id: 7 * step + place,
        log_prob: -1,
        total: -step,
        score: -step / 2,
        rank: place + 1,
        fate,
        best: place === 0,
      });
      if (fate === "kept") next.push(nodes.length - 1);
    });
    live = next;
  }
  return { width, length_penalty: 0.6, formula: "", candidates: 2 * width, nodes };
}

for (const [width, children, steps] of [[1, 2, 3], [4, 3, 7], [11, 5, 13]] as const) {
  test(`no two of the nodes of a beam of ${width} overlap, and all lie inside the picture`, () => {
    const layout = layOutTree(makeTree(width, children, steps), 99);
    const boxes = layout.placed.map(({ x, y }) => ({ left: x, right: x + NODE.width, top: y - NODE.height / 2, bottom: y + NODE.height / 2 }));
    boxes.forEach((a, i) => {
      assert.ok(a.left >= 0 && a.top >= 0 && a.right <= layout.width && a.bottom <= layout.height);
      for (const b of boxes.slice(i + 1)) {
        const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
        assert.ok(apart, JSON.stringify([a, b]));
      }
    });
  });
}

test("a parent stands to the left of its children", () => {
  const { placed } = layOutTree(makeTree(3, 3, 5), 99);
  const x = new Map(placed.map((node) => [node.node.id, node.x]));
  for (const { node, x: own } of placed) if (node.parent !== null) assert.ok((x.get(node.parent) ?? Infinity) + NODE.width < own);
});

test("fewer ranks leave out pruned candidates only", () => {
  const tree = makeTree(3, 3, 5);
  const shown = layOutTree(tree, 1).placed.map(({ node }) => node.id);
  const keptIds = tree.nodes.filter((node) => node.fate !== "pruned").map((node) => node.id);
  assert.deepEqual([...shown].sort((a, b) => a - b), keptIds);
});

test("the way to a node is what its hypothesis has written, from the first piece on", () => {
  const tree = makeTree(2, 2, 4);
  const path = findPath(tree, tree.nodes.at(-1)?.id ?? -1);
  assert.deepEqual(path.map((node) => node.step), [0, 1, 2, 3]);
  for (const [i, node] of path.entries()) assert.equal(node.parent, path[i - 1]?.id ?? null);
});

test("a tree that bites its own tail ends", () => {
  const tree = makeTree(1, 1, 2);
  const [first, second] = tree.nodes as [TreeNode, TreeNode];
  first.parent = second.id;
  assert.equal(findPath(tree, second.id).length, 2);
});

test("arrow keys walk to parent, child and the next of a step, and nowhere beyond", () => {
  const layout = layOutTree(makeTree(2, 2, 3), 99);
  const [first, second] = layout.placed.map(({ node }) => node);
  assert.equal(findNeighbour(layout, first?.id ?? -1, "ArrowDown"), second?.id);
  assert.equal(findNeighbour(layout, first?.id ?? -1, "ArrowUp"), undefined);
  const child = findNeighbour(layout, first?.id ?? -1, "ArrowRight") ?? -1;
  assert.equal(findNeighbour(layout, child, "ArrowLeft"), first?.id);
  assert.equal(findNeighbour(layout, first?.id ?? -1, "x"), undefined);
});
