// Layout of a beam tree: one column for each step, the likeliest candidate on top.

import type { Tree, TreeNode } from "./types";

export interface PlacedNode {
  node: TreeNode;
  x: number; // left edge
  y: number; // middle
}

export interface TreeLayout {
  placed: PlacedNode[];
  root: { x: number; y: number };
  width: number;
  height: number;
}

export const NODE = { width: 124, height: 30, gap: 44, row: 38, margin: 16, root: 44 };

/**
 * Lays out nodes in columns by step and rows by rank: two candidates of a step never share a place, and the height is that of the
 * widest step, however long the sentence is. Nodes beyond `ranks` are left out, but never one that others grew from.
 */
export function layOutTree(tree: Tree, ranks: number): TreeLayout {
  const parents = new Set(tree.nodes.map((node) => node.parent));
  const shown = tree.nodes.filter(
    (node) => node.rank <= ranks || node.fate !== "pruned" || node.best || parents.has(node.id),
  );
  const steps = new Map<number, TreeNode[]>();
  for (const node of shown) steps.set(node.step, [...(steps.get(node.step) ?? []), node]);
  const placed = [...steps].flatMap(([step, nodes]) =>
    nodes
      .sort((a, b) => a.rank - b.rank || a.id - b.id)
      .map((node, place) => ({
        node,
        x: NODE.margin + NODE.root + NODE.gap + step * (NODE.width + NODE.gap),
        y: NODE.margin + NODE.row * (place + 0.5),
      })),
  );
  const tallest = Math.max(1, ...[...steps.values()].map((nodes) => nodes.length));
  const lastStep = Math.max(0, ...steps.keys());
  return {
    placed,
    root: { x: NODE.margin, y: NODE.margin + NODE.row / 2 },
    width: 2 * NODE.margin + NODE.root + (lastStep + 1) * (NODE.width + NODE.gap),
    height: 2 * NODE.margin + tallest * NODE.row,
  };
}

/** Finds the candidates from the first piece to this one, the pieces of its hypothesis. */
export function findPath(tree: Tree, id: number): TreeNode[] {
  const nodesById = new Map(tree.nodes.map((node) => [node.id, node]));
  const path: TreeNode[] = [];
  for (let node = nodesById.get(id); node && path.length < tree.nodes.length; node = nodesById.get(node.parent ?? -1)) path.unshift(node);
  return path;
}

/** Finds the node that an arrow key leads to: the parent, the likeliest child, or the next of the same step. */
export function findNeighbour(layout: TreeLayout, id: number, key: string): number | undefined {
  const { placed } = layout;
  const current = placed.find(({ node }) => node.id === id);
  if (!current) return undefined;
  const column = placed.filter(({ node }) => node.step === current.node.step);
  const position = column.indexOf(current);
  if (key === "ArrowUp") return column[position - 1]?.node.id;
  if (key === "ArrowDown") return column[position + 1]?.node.id;
  if (key === "ArrowLeft") return placed.find(({ node }) => node.id === current.node.parent)?.node.id;
  return key === "ArrowRight" ? placed.find(({ node }) => node.parent === id)?.node.id : undefined;
}
