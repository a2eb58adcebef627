// Map of the whole network, drawn bottom up like the paper's; each part opens its matrices.

import type { ComponentChildren } from "preact";
import { formatCount, formatQuantity, quotePiece } from "../format";
import { useApp } from "../hooks";
import { type Block, listStacks, type Stack } from "../network";
import { Piece } from "../piece";
import { listAttentions } from "../tensor_graph";
import type { Manifest } from "../types";
import { useArrival } from "./arrival_focus";
import { RolesLegend } from "./head_roles";
import { Arrows } from "./map_arrows";
import { EndBox, InputBox, NextPieceBox, SublayerBox } from "./map_boxes";

export function MapView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const map = useArrival<HTMLElement>("map");
  if (!manifest) return null;
  const allStacks = listStacks(manifest);
  return (
    <article class="map-body" ref={map} tabIndex={-1} aria-label="the whole network">
      <Arrows map={map} key={manifest.id} />
      {allStacks.map((stack, number) => (
        <StackColumn key={stack.name} manifest={manifest} stack={stack}>
          {number === 0 ? <HowToRead manifest={manifest} stacks={allStacks} /> : null}
        </StackColumn>
      ))}
    </article>
  );
}

/** Explains the map to someone who sees it for the first time. */
function HowToRead(props: { manifest: Manifest; stacks: Stack[] }) {
  const { manifest } = props;
  const width = manifest.axes.D?.size;
  const layers = props.stacks.map((stack) => formatQuantity(stack.layers.length, `${stack.name} layer`)).join(", ");
  const heads = listAttentions(manifest).map((parts) => parts.heads);
  const [fewest, most] = [Math.min(...heads), Math.max(...heads)];
  const headsText = heads.length === 0 || most === 0 ? "no heads" : fewest < most ? `up to ${formatQuantity(most, "head")}` : formatQuantity(most, "head");
  return (
    <div class="map-how quiet">
      <p>
        {manifest.model.name}: {layers}, {headsText}, vectors of {width} numbers,{" "}
        {formatCount(manifest.model.parameters)} learned numbers.
      </p>
      <p>
        Read from the bottom up. Pieces become vectors, and each layer adds to them. A small square is a head: its rows
        are the positions that read, its columns the positions that are read. The frame marks the row of the current
        step. A line around a part carries its input past it.
      </p>
      <p>Click a part, or move to it with Tab and press Enter, to open it. Esc goes back.</p>
      <RolesLegend />
    </div>
  );
}

function StackColumn(props: { manifest: Manifest; stack: Stack; children: ComponentChildren }) {
  const { manifest, stack } = props;
  const app = useApp();
  const writes = stack.ends.some((block) => block.tensors.some((row) => row.dims.includes("V")));
  return (
    <section class="map-stack" aria-label={stack.name} data-stack={stack.name}>
      <h2>
        {stack.name}
        {writes ? <span class="quiet"> step {app.step.value + 1}</span> : null}
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
      {stack.ends.map((block) => (
        <EndBox key={block.key} block={block} />
      ))}
      {writes ? <NextPieceBox manifest={manifest} /> : null}
      {props.children}
    </section>
  );
}

/** Shows the pieces that a stack reads; a click on one follows it in every picture. */
function Pieces(props: { block: Block; manifest: Manifest }) {
  const app = useApp();
  const op = props.block.tensors.find((row) => row.op.kind === "lookup")?.op;
  const dim = op?.kind === "lookup" && op.side === "source" ? "S" : "T";
  const pieces = (dim === "S" ? props.manifest.source : props.manifest.inputs).pieces;
  const follow = app.followed.value;
  const toggle = (index: number) => {
    app.followed.value = follow?.dim === dim && follow.index === index ? null : { dim, index };
  };
  return (
    <div class="map-pieces">
      {pieces.map((piece, position) => (
        <button
          type="button"
          class={`chip piece-chip ${dim === "T" && position === app.step.value ? "current-step" : ""}`}
          aria-pressed={follow?.dim === dim && follow.index === position}
          aria-label={`follow ${quotePiece(piece)}`}
          onClick={() => toggle(position)}
        >
          <Piece text={piece} />
        </button>
      ))}
    </div>
  );
}
