// Map of the whole network, drawn bottom up like the paper's; each part opens its matrices.
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatCount, formatProbability, formatQuantity, quotePiece } from "../format";
import { useApp, useArrival } from "../hooks";
import { Matrix } from "../matrix";
import { sumOf } from "../measures";
import { type Block, describeSection, listAttentions, listPieces, listStacks, type Stack } from "../network";
import { getLastName } from "../operands";
import { Piece, Value } from "../parts";
import { ReadingLight, useGrowth } from "../play_controls";
import { PlayLine } from "../play_line";
import type { Manifest, TensorRow } from "../types";
import { HeadsRow, RolesLegend, RolesMissing } from "./head_roles";

export function MapView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const map = useArrival<HTMLElement>("map");
  if (!manifest) return null;
  const allStacks = listStacks(manifest);
  return (
    <article class="map-body" ref={map} tabIndex={-1} aria-label="the whole network">
      <Arrows map={map} key={manifest.id} />
      <PlayLine map={map} key={`line ${manifest.id}`} />
      {allStacks.map((stack, number) => (
        <StackColumn key={stack.name} manifest={manifest} stack={stack}>
          {number === 0 ? <HowToRead manifest={manifest} stacks={allStacks} /> : null}
        </StackColumn>
      ))}
    </article>
  );
}

/** Explains the map to someone who sees it for the first time; folded, so that the whole network fits into a window. */
function HowToRead(props: { manifest: Manifest; stacks: Stack[] }) {
  const { manifest } = props;
  const width = manifest.axes.D?.size;
  const layers = props.stacks.map((stack) => formatQuantity(stack.layers.length, `${stack.name} layer`)).join(", ");
  const heads = formatQuantity(listAttentions(manifest)[0]?.heads ?? 0, "head");
  return (
    <details class="map-how">
      <summary>
        <span class="how-sign" aria-hidden="true">
          ?
        </span>{" "}
        How to read this picture
      </summary>
      <div class="panel">
        <p>
          {manifest.model.name}: {layers}, {heads}, vectors of {width} numbers,{" "}
          {formatCount(manifest.model.parameters)} learned numbers.
        </p>
        <p>
          Read from the bottom up, and each layer from left to right. Pieces become vectors, and each part of a layer adds
          to them. A small square is a head: its rows are the positions that read, its columns the positions that are read.
          The frame marks the row of the current step. A line over a part carries its input past it. The decoder reads BOS, the
          start token, and then the pieces already written.
        </p>
        <p>
          Click a part, or move to it with Tab and press Enter, to open it. Esc goes back. Click a piece to follow it through
          every picture.
        </p>
        <RolesMissing />
        <RolesLegend />
      </div>
    </details>
  );
}

function StackColumn(props: { manifest: Manifest; stack: Stack; children: ComponentChildren }) {
  const { manifest, stack } = props;
  const writes = stack.ends.some((block) => block.tensors.some((row) => row.dims.includes("V")));
  return (
    <section class="map-stack" aria-label={stack.name} data-stack={stack.name}>
      <h2>
        {stack.name}
        {writes ? <StepNumber /> : null}
      </h2>
      {stack.input ? <Pieces block={stack.input} manifest={manifest} /> : null}
      {stack.input ? <InputBox block={stack.input} /> : null}
      {stack.layers.map((layer, number) => (
        <div class="map-layer" role="group" aria-label={`${stack.name}, layer ${number + 1}`}>
          <span class="map-layer-number" aria-hidden="true">
            {number + 1}
          </span>
          {layer.map((block) => (
            <SublayerBox key={block.key} block={block} />
          ))}
        </div>
      ))}
      <div class="map-ends">
        {stack.ends.map((block) => (
          <EndBox key={block.key} block={block} />
        ))}
      </div>
      {writes ? <NextPieceBox manifest={manifest} /> : null}
      {props.children}
    </section>
  );
}

/** Shows the number of the step; apart, so that the whole column need not be rendered with each. */
function StepNumber() {
  return <span class="quiet"> step {useApp().step.value + 1}</span>;
}

/** Shows the pieces that a stack reads; a click on one follows it in every picture. */
function Pieces(props: { block: Block; manifest: Manifest }) {
  const app = useApp();
  const op = props.block.tensors.find((row) => row.op.kind === "lookup")?.op;
  const dim = op?.kind === "lookup" && op.side === "source" ? "S" : "T";
  const pieces = dim === "S" ? listPieces(props.manifest.source) : props.manifest.inputs.pieces;
  const follow = app.followed.value;
  const toggle = (index: number) => {
    app.followed.value = follow?.dim === dim && follow.index === index ? null : { dim, index };
  };
  return (
    <div class="map-pieces" data-pieces={dim}>
      {pieces.map((piece, position) => (
        <button
          type="button"
          class={`chip piece-chip ${dim === "T" && position === app.step.value ? "current-step" : ""}`}
          aria-pressed={follow?.dim === dim && follow.index === position}
          aria-label={`follow ${quotePiece(piece)}`}
          onClick={() => toggle(position)}
        >
          {dim === "S" && <ReadingLight position={position} />}
          <Piece text={piece} />
        </button>
      ))}
    </div>
  );
}

function InputBox(props: { block: Block }) {
  const app = useApp();
  const { block } = props;
  const shown = block.tensors.filter((row) => row.op.kind !== "add");
  const isSum = block.tensors.some((row) => row.op.kind === "add" && row.op.inputs.length > 1);
  return (
    <button
      type="button"
      class="map-box map-input"
      aria-label={`${block.stack}: ${shown.map((row) => getLastName(row.name)).join(isSum ? " + " : " ")}: open`}
      onClick={() => app.goTo({ view: "block", section: block.key })}
    >
      {shown.map((row, i) => (
        <>
          {i > 0 && isSum ? <span class="flow-sign">+</span> : null}
          <span class="map-labelled">
            <span>
              {getLastName(row.name)} <NotCapturedNote row={row} />
            </span>
            <Matrix tensor={row.name} bare />
          </span>
        </>
      ))}
    </button>
  );
}

/** Shows one sub-layer as a row: norms before it, the part itself, addition and norm after it. */
function SublayerBox(props: { block: Block }) {
  const app = useApp();
  const { block } = props;
  const openBlock = () => app.goTo({ view: "block", section: block.key });
  const [before, after] = describeSurroundings(block);
  const name = describeSection(block.key).split(", ").at(-1) ?? block.key;
  const widths = block.kind === "ffn" ? ` ${describeWidths(block)}` : "";
  return (
    <div class={`map-sublayer map-${block.kind}`} data-reads={block.reads ?? undefined} data-block={block.key}>
      {after.includes("add") ? <span class={before ? "map-bypass" : "map-bypass map-bypass-all"} aria-hidden="true" /> : null}
      {before ? <NormBox operations={before} block={block} onOpen={openBlock} /> : null}
      <div class="map-box">
        <button type="button" class="map-name" aria-label={`${describeSection(block.key)}${widths}: open`} onClick={openBlock}>
          {name}
          {widths && <span class="quiet">{widths}</span>}
        </button>
        {block.attention ? <HeadsRow parts={block.attention} /> : null}
      </div>
      {after ? <NormBox operations={after} block={block} onOpen={openBlock} /> : null}
    </div>
  );
}

function NormBox(props: { operations: string; block: Block; onOpen: () => void }) {
  const label = `${describeSection(props.block.key)}, ${props.operations}: open`;
  return (
    <button type="button" class="map-box map-norm" aria-label={label} onClick={props.onOpen}>
      {props.operations}
    </button>
  );
}

/** Describes the operations before and after the part: "norm" and "add", or nothing and "add & norm". */
function describeSurroundings(block: Block): [string, string] {
  const kinds = block.tensors.map((row) => row.op.kind);
  const part = kinds.findIndex((kind) => kind === "linear");
  const listNames = (from: number, to: number) => kinds.slice(from, to).filter((kind) => kind === "norm" || kind === "add");
  return [listNames(0, part).join(" & "), listNames(part, kinds.length).join(" & ")];
}

/** Describes the widths of the vectors on the way through a feed-forward: 128 → 256 → 128. */
function describeWidths(block: Block): string {
  const part = block.tensors.filter((row) => row.op.kind === "linear" || row.op.kind === "activation");
  const widths = part.map((row) => row.shape.at(-1) ?? 0);
  return [widths.at(-1), ...widths].filter((width, i, all) => width !== all[i - 1]).join(" → ");
}

function EndBox(props: { block: Block }) {
  const app = useApp();
  const row = props.block.tensors.at(-1) as TensorRow;
  const isVocabulary = row.dims.includes("V");
  const openEnd = () => (isVocabulary ? app.goTo({ view: "output" }) : app.goTo({ view: "block", section: props.block.key }));
  return (
    <button type="button" class="map-box map-end" data-end={row.name} title={row.means} onClick={openEnd}>
      <span class="map-labelled">
        <span>
          {row.name}{" "}
          <span class="quiet">
            {row.op.kind === "norm" ? "norm, " : ""}
            {row.shape.join(" × ")} <NotCapturedNote row={row} />
          </span>
        </span>
        {isVocabulary ? null : <Matrix tensor={row.name} bare />}
        <span class="unseen">: open</span>
      </span>
    </button>
  );
}

function NotCapturedNote(props: { row: TensorRow }) {
  return props.row.captured ? null : <span class="quiet">not captured</span>;
}

/** Shows the most likely next pieces of this step, and the one that was chosen. */
function NextPieceBox(props: { manifest: Manifest }) {
  const app = useApp();
  const step = props.manifest.steps[app.step.value];
  const box = useRef<HTMLButtonElement>(null);
  useGrowth(box, ".map-chosen, .map-candidates .value-shown", ".bar-weight");
  if (!step) return null;
  return (
    <button ref={box} type="button" class="map-box map-written" onClick={() => app.goTo({ view: "output" })}>
      <span class="map-chosen">
        <span class="quiet">writes</span> <strong>
          <Piece text={step.chosen.piece} />
        </strong>
      </span>
      <span class="map-candidates">
        {step.top.slice(0, 5).map((candidate) => (
          <span class={candidate.id === step.chosen.id ? "current-step" : ""}>
            <span class="map-candidate">
              <Piece text={candidate.piece} />
            </span>
            <span class="map-track">
              <span class="bar-weight" style={{ width: app.hidden.value ? "0" : `${100 * candidate.prob}%` }} />
            </span>
            <Value shown={formatProbability(candidate.prob)} exact={String(candidate.prob)} />
          </span>
        ))}
      </span>
      <span class="unseen">: open the output</span>
    </button>
  );
}

interface ArrowDrawing {
  width: number;
  height: number;
  paths: string[];
  label: { x: number; y: number } | null;
}

function Arrows(props: { map: RefObject<HTMLElement | null> }) {
  const app = useApp();
  const [drawing, setDrawing] = useState<ArrowDrawing | null>(null);
  useLayoutEffect(() => {
    const map = props.map.current;
    if (!map) return;
    const measure = () => {
      if (app.host !== "widget") fitHeads(map);
      setDrawing(measureArrows(map));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(map);
    const rowsAbove = map.closest(".pellucid")?.querySelectorAll(":scope > :not(.columns)") ?? [];
    for (const element of [...map.children, ...rowsAbove]) observer.observe(element);
    addEventListener("resize", measure); // a higher window alone changes the size of nothing yet
    measure();
    return () => {
      observer.disconnect();
      removeEventListener("resize", measure);
    };
  }, []);
  if (!drawing) return null;
  return (
    <svg class="map-arrows" width={drawing.width} height={drawing.height} aria-hidden="true">
      <defs>
        <marker id="map-arrow-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0 L8 4 L0 8 z" />
        </marker>
      </defs>
      {drawing.paths.map((path) => (
        <path class="map-arrow" d={path} marker-end="url(#map-arrow-tip)" />
      ))}
      {drawing.label ? (
        <text x={drawing.label.x} y={drawing.label.y}>
          K, V
        </text>
      ) : null}
    </svg>
  );
}

const [SMALLEST_HEAD, LARGEST_HEAD] = [22, 72]; // CSS pixels of a side

/** What the columns of a map allowed for the side of a head, at this width of the map and with so many heads. */
const allowedByColumns = new WeakMap<HTMLElement, { width: number; heads: number; side: number }>();

/** Makes all heads as large as they can be while the whole map fits into the window. */
function fitHeads(map: HTMLElement): void {
  const layers = [...map.querySelectorAll<HTMLElement>(".map-stack:last-of-type .map-layer")];
  const heights = layers.map((layer) => layer.querySelector<HTMLElement>(".head-face")?.offsetHeight ?? 0);
  if (!heights.length) return;
  const rest = map.getBoundingClientRect().bottom + scrollY - sumOf(heights);
  const fitting = Math.min(LARGEST_HEAD, Math.max(SMALLEST_HEAD, Math.floor((innerHeight - rest) / heights.length)));
  const setSide = (side: number) => map.style.setProperty("--head", `${side}px`);
  const faces = [...map.querySelectorAll<HTMLElement>(".head-face")];
  const [width, heads, known] = [map.clientWidth, faces.length, allowedByColumns.get(map)];
  const isSame = known?.width === width && known.heads === heads;
  const side = isSame ? Math.min(fitting, known.side) : fitting;
  // Every change lays the whole map out anew, which takes longer than drawing a head; a new sentence mostly needs none.
  if (isSame && map.style.getPropertyValue("--head") === `${side}px`) return;
  setSide(side);
  // Where a column is too narrow for that, the heads of the others are no larger: layers stay beside each other.
  const allowed = Math.min(...faces.map((face) => face.offsetHeight));
  if (allowed < side) setSide(allowed);
  if (allowed < side || !isSame) allowedByColumns.set(map, { width, heads, side: allowed < side ? allowed : LARGEST_HEAD });
}

function measureArrows(map: HTMLElement): ArrowDrawing {
  const origin = map.getBoundingClientRect();
  const paths: string[] = [];
  let label: ArrowDrawing["label"] = null;
  for (const reader of map.querySelectorAll<HTMLElement>("[data-reads]")) {
    const stack = map.querySelector<HTMLElement>(`[data-stack="${CSS.escape(reader.dataset.reads ?? "")}"]`);
    const end = [...(stack?.querySelectorAll<HTMLElement>("[data-end]") ?? [])].at(-1);
    const into = reader.querySelector(".map-box:not(.map-norm)");
    if (!end || !into || !stack) continue;
    const [from, to] = [end.getBoundingClientRect(), into.getBoundingClientRect()];
    const [x0, y0] = [from.right - origin.left, from.top + from.height / 2 - origin.top];
    const [x1, below] = [to.left - origin.left + 16, to.bottom - origin.top];
    const bend = stack.getBoundingClientRect().right - origin.left + 22;
    paths.push(`M${x0} ${y0} H${bend} V${below + 5} H${x1} V${below + 1}`);
    label ??= { x: bend + 6, y: y0 - 6 };
  }
  return { width: origin.width, height: origin.height, paths, label };
}
