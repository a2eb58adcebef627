// The beam search: the candidates of every step, which were kept, pruned or finished, and which one won.
import { useEffect, useRef, useState } from "preact/hooks";
import { saveBaseline } from "../baseline";
import { formatCount, formatNumber, formatQuantity, quotePiece } from "../format";
import { useApp } from "../hooks";
import { display, fraction, line, power } from "../mathml";
import { countPieces, countScored } from "../measures";
import { nameSentence } from "../network";
import { Missing, Value } from "../parts";
import { traceAgain } from "../permalink";
import { markSpot } from "../spots";
import type { App } from "../state";
import type { Manifest, Tree, TreeNode } from "../types";
import { spellPieces, WhatIf } from "./candidates";

export function BeamView() {
  const app = useApp();
  const manifest = app.manifest.value;
  if (!manifest) return null;
  const searched = findSearch(app, manifest);
  if (!searched) {
    const reason = manifest.forced ? "its target was given" : "it was computed with an edit, or by a search that does not record its candidates";
    return <Missing message={`This trace has no beam tree: ${reason}.`} />;
  }
  return <BeamPanel app={app} shown={manifest} {...searched} key={searched.manifest.id} />;
}

interface Search {
  manifest: Manifest; // of the trace that was searched for
  tree: Tree;
}

/** Finds the search to draw: that of the trace shown, or the one that the shown candidate was opened from. */
function findSearch(app: App, shown: Manifest): Search | null {
  const kept = app.baseline.value?.manifest;
  if (shown.tree) return { manifest: shown, tree: shown.tree };
  if (!shown.forced || !kept?.tree || kept.sentence !== shown.sentence || kept.model.sha256 !== shown.model.sha256) return null;
  return { manifest: kept, tree: kept.tree };
}

function BeamPanel({ app, shown, manifest, tree }: Search & { app: App; shown: Manifest }) {
  const largestRank = Math.max(1, ...tree.nodes.map((node) => node.rank));
  const [ranks, setRanks] = useState(Math.min(largestRank, Math.max(6, tree.width + 2)));
  const [picked, setPicked] = useState<number | null>(findShownNode(tree, shown)?.id ?? null);
  const node = tree.nodes.find((node) => node.id === picked);
  const countFate = (fate: TreeNode["fate"]) => tree.nodes.filter((node) => node.fate === fate).length;
  const vocabulary = countPieces(manifest);
  const pick = (id: number) => {
    setPicked(id);
    const opened = tree.nodes.find((candidate) => candidate.id === id);
    if (opened && app.source.act && !app.busy.value) void openCandidate(app, { manifest, tree }, shown, opened);
  };
  return (
    <div class="stack beam-body">
      <header class="row">
        <h2>The beam: {formatQuantity(tree.width, "beginning")} side by side</h2>
        <label>
          Candidates shown in a step{" "}
          <input type="range" min={1} max={largestRank} value={ranks} onInput={(event) => setRanks(Number(event.currentTarget.value))} /> {ranks}
        </label>
      </header>
      <p>
        At each step every kept beginning is extended by every one of the {formatCount(vocabulary)} pieces:{" "}
        {formatQuantity(countScored(tree, vocabulary), "candidate")} were scored. The likeliest stand in a column, the best on top:{" "}
        {formatCount(countFate("kept"))} were kept (solid), {formatCount(countFate("pruned"))} pruned (dashed), {formatCount(countFate("finished"))} finished (★).
        The number of each is its score: log P of the beginning, divided by a power of its length, so that it may grow.
        {app.source.act ? " Click one, and every picture of this page shows the trace of just that candidate." : ""}
      </p>
      <TreePicture app={app} tree={tree} layout={layOutTree(tree, ranks)} picked={picked} onPick={pick} />
      {node ? <PickedCandidate app={app} shown={shown} manifest={manifest} tree={tree} node={node} /> : <p class="quiet">Pick a node to see its numbers.</p>}
      {app.code.value && <ScoreFormula tree={tree} />}
    </div>
  );
}

/** Finds the node whose trace is shown: that with the same pieces, or the winner of the search. */
function findShownNode(tree: Tree, shown: Manifest): TreeNode | undefined {
  const ids = shown.target.ids.join(" ");
  const isShown = (node: TreeNode) => findPath(tree, node.id).map((each) => each.piece_id).join(" ") === ids;
  return (shown.tree ? undefined : tree.nodes.find(isShown)) ?? tree.nodes.findLast((node) => node.best);
}

/** Shows the trace of a candidate everywhere; the trace of the search is kept, to be compared with it and to come back to. */
export async function openCandidate(app: App, search: Search, shown: Manifest, node: TreeNode): Promise<void> {
  const { manifest, tree } = search;
  const isWinner = node.id === tree.nodes.findLast((each) => each.best)?.id;
  if (isWinner && shown.id === manifest.id) return;
  if (isWinner) {
    await traceAgain(app, manifest);
    return;
  }
  if (shown.id === manifest.id) await saveBaseline(app);
  const target_ids = findPath(tree, node.id).map((each) => each.piece_id);
  await app.askSource("trace", { ...nameSentence(manifest), beam: tree.width, edits: listOtherEdits(manifest), target_ids });
}

/** Lists the edits of a trace without its prefix, which a candidate begins with anyway. */
function listOtherEdits(manifest: Manifest) {
  return manifest.edits.filter((edit) => edit.kind !== "prefix");
}

function ScoreFormula({ tree }: { tree: Tree }) {
  const score = fraction("Σ log P", power(line("(", fraction("5 + pieces", "6"), ")"), String(tree.length_penalty)));
  return (
    <figure class="source-line">
      {display(line("score =", score))}
      <figcaption class="quiet">As it was computed: {tree.formula}</figcaption>
    </figure>
  );
}

const TEACH_SCALE = 1.4; // larger in teach mode

interface PictureProps {
  app: App;
  tree: Tree;
  layout: TreeLayout;
  picked: number | null;
  onPick: (id: number) => void;
}

function TreePicture({ app, tree, layout, picked, onPick }: PictureProps) {
  const box = useRef<HTMLDivElement>(null);
  const step = app.step.value;
  const scale = app.mode.value === "teach" ? TEACH_SCALE : 1;
  const isOpen = useRef(false); // at first the candidate is in sight whose trace is shown; from then on, the step
  useEffect(() => {
    const column = isOpen.current ? step : (tree.nodes.find((node) => node.id === picked)?.step ?? step);
    isOpen.current = true;
    const left = scale * (NODE.margin + NODE.root + NODE.gap + column * (NODE.width + NODE.gap));
    const width = scale * NODE.width;
    const frame = box.current;
    if (!frame || (left >= frame.scrollLeft && left + width <= frame.scrollLeft + frame.clientWidth)) return;
    frame.scrollTo({ left: left - (frame.clientWidth - width) / 2 });
  }, [step]);
  const placedById = new Map(layout.placed.map((placed) => [placed.node.id, placed]));
  const reachable = (placedById.has(picked ?? -1) ? picked : undefined) ?? layout.placed.find(({ node }) => node.best)?.node.id ?? layout.placed[0]?.node.id;
  const [focused, setFocused] = useState<number | null>(null);
  const inTabOrder = placedById.has(focused ?? -1) ? focused : reachable;
  const onKeyDown = (event: KeyboardEvent) => {
    const nextId = findNeighbour(layout, inTabOrder ?? -1, event.key);
    if (nextId === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    setFocused(nextId);
    box.current?.querySelector<SVGGElement>(`[data-node="${nextId}"]`)?.focus();
  };
  const pathIds = new Set(picked === null ? [] : findPath(tree, picked).map((node) => node.id));
  return (
    <div class="scroll beam-tree" ref={box} data-subject="beam">
      <svg onKeyDown={onKeyDown} width={scale * layout.width} height={scale * layout.height} viewBox={`0 0 ${layout.width} ${layout.height}`} role="group" aria-label="Candidates by step and rank; arrow keys walk from one to the next">
        {layout.placed.map((placed) => (
          <Edge placed={placed} from={placedById.get(placed.node.parent ?? -1)} layout={layout} isOnPath={pathIds.has(placed.node.id)} />
        ))}
        <text x={layout.root.x} y={layout.root.y + 5}>
          start
        </text>
        {layout.placed.map((placed) => (
          <Node
            placed={placed}
            tree={tree}
            pressed={placed.node.id === picked}
            reachable={placed.node.id === inTabOrder}
            onPick={onPick}
            current={placed.node.step === step}
          />
        ))}
      </svg>
    </div>
  );
}

function getNodeClasses(node: TreeNode): string {
  return `beam-${node.fate}${node.best ? " beam-best" : ""}`;
}

function Edge({ placed, from, layout, isOnPath }: { placed: PlacedNode; from: PlacedNode | undefined; layout: TreeLayout; isOnPath: boolean }) {
  const [x, y] = from ? [from.x + NODE.width, from.y] : [layout.root.x + NODE.root - 6, layout.root.y];
  const middle = (x + placed.x) / 2;
  const path = `M${x},${y} C${middle},${y} ${middle},${placed.y} ${placed.x},${placed.y}`;
  return <path class={`beam-edge ${getNodeClasses(placed.node)}${isOnPath ? " beam-path" : ""}`} d={path} />;
}

interface NodeProps {
  placed: PlacedNode;
  tree: Tree;
  pressed: boolean;
  reachable: boolean; // by Tab; the others by arrow keys
  current: boolean;
  onPick: (id: number) => void;
}

function Node({ placed: { node, x, y }, tree, pressed, reachable, current, onPick }: NodeProps) {
  const hidden = useApp().hidden.value;
  const star = node.fate === "finished" ? "★ " : "";
  const parent = findPath(tree, node.id).at(-2)?.piece;
  const text = fitText(node.piece, star ? 5 : 7);
  const score = hidden ? "?" : formatNumber(Number(node.score.toFixed(2)));
  // It begins with what can be read, so that it can be spoken to.
  const label = `${star}${text} ${score}: step ${node.step + 1}, rank ${node.rank}, ${node.piece}${parent ? ` after ${parent}` : ""}, ${node.fate}${node.best ? ", in the translation" : ""}`;
  const pick = (event: { preventDefault: () => void }) => {
    event.preventDefault();
    onPick(node.id);
  };
  return (
    <g
      class={`beam-node ${getNodeClasses(node)}${current ? " beam-current" : ""}`}
      role="button"
      tabindex={reachable ? 0 : -1} // lower case: attributes of SVG have no other name
      data-node={node.id}
      aria-pressed={pressed}
      aria-label={label}
      onClick={pick}
      onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && pick(event)}
    >
      <rect x={x} y={y - NODE.height / 2} width={NODE.width} height={NODE.height} rx={5} />
      <text x={x + 7} y={y + 5}>
        {star}
        {text}
      </text>
      <text class="beam-score" x={x + NODE.width - 6} y={y + 5} text-anchor="end">
        {score}
      </text>
    </g>
  );
}

function fitText(text: string, room: number): string {
  const letters = [...text];
  return letters.length <= room ? text : `${letters.slice(0, room - 1).join("")}…`;
}

function PickedCandidate({ app, shown, manifest, tree, node }: Search & { app: App; shown: Manifest; node: TreeNode }) {
  const path = findPath(tree, node.id);
  const isWinner = node.id === tree.nodes.findLast((each) => each.best)?.id;
  const isFinished = node.piece_id === manifest.source.ids.at(-1); // the end token is the same on both sides
  const continueSearch = async () => {
    if (shown.id === manifest.id) await saveBaseline(app);
    const prefix_ids = path.map((each) => each.piece_id);
    await app.askSource("trace", { ...nameSentence(manifest), beam: tree.width, edits: listOtherEdits(manifest), prefix_ids }, { view: "compare" });
  };
  return (
    <section class="panel stack" aria-label="The candidate picked">
      <p>
        “{spellPieces(path.map((each) => each.piece))}”: {describeFate(node, tree)}.
      </p>
      <p>
        log P of {quotePiece(node.piece)} <Value shown={formatNumber(node.log_prob)} exact={String(node.log_prob)} />, of the whole beginning{" "}
        <span {...(isWinner && markSpot(app, "log P"))}>
          <Value shown={formatNumber(node.total)} exact={String(node.total)} />
        </span>
        , score{" "}
        <span {...(isWinner && markSpot(app, "score"))}>
          <Value shown={formatNumber(node.score)} exact={String(node.score)} />
        </span>{" "}
        at {formatQuantity(path.length, "piece")}.
      </p>
      {app.source.act ? (
        <p class="row">
          {shown.id !== manifest.id && (
            <button type="button" class="button" onClick={() => app.goTo({ view: "compare" })}>
              Compare it with the translation
            </button>
          )}
          {!isFinished && (
            <button type="button" class="button" disabled={app.busy.value !== null} onClick={continueSearch}>
              Continue the search from here
            </button>
          )}
        </p>
      ) : (
        <p class="quiet">This is a file; to trace another beginning, open the model with “pellucid serve”.</p>
      )}
      <WhatIf app={app} manifest={shown} written={spellPieces(path.slice(0, isFinished ? -1 : undefined).map((each) => each.piece))} />
    </section>
  );
}

function describeFate(node: TreeNode, tree: Tree): string {
  const rank = `rank ${node.rank} of its step`;
  if (node.fate === "finished") return `${rank}, finished${node.best ? " with the best score: the translation" : ""}`;
  if (node.fate === "pruned") return `${rank}, pruned: only ${tree.width} were kept`;
  return `${rank}, kept${node.best ? ", on the way to the translation" : ""}`;
}

interface PlacedNode {
  node: TreeNode;
  x: number; // left edge
  y: number; // middle
}

interface TreeLayout {
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
      .sort((one, other) => one.rank - other.rank || one.id - other.id)
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
