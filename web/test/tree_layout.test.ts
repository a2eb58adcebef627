// Laws of the beam tree's picture: nothing overlaps, parents stand before their children, the way to a node is its hypothesis.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tree, TreeNode } from "../src/types";
import { findNeighbour, findPath, layOutTree, NODE } from "../src/views/beam";

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
