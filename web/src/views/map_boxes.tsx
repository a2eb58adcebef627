// The boxes of the map: the input of a stack, a sub-layer, the end of a stack, and the next piece.

import { formatProbability, quotePiece } from "../format";
import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import type { Block } from "../network";
import { getLastName } from "../operands";
import { Piece } from "../piece";
import { describeSection } from "../tensor_graph";
import type { Manifest, TensorRow } from "../types";
import { HeadsRow } from "./heads_row";
import { Value } from "./values";

export function InputBox(props: { block: Block }) {
  const app = useApp();
  const { block } = props;
  const shown = block.tensors.filter((row) => row.op.kind !== "add");
  const isSum = block.tensors.some((row) => row.op.kind === "add" && row.op.inputs.length > 1);
  return (
    <button
      type="button"
      class="map-box map-input"
      aria-label={`${block.stack}: ${shown.map((row) => getLastName(row.name)).join(" and ")}: open`}
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
export function SublayerBox(props: { block: Block }) {
  const app = useApp();
  const { block } = props;
  const openBlock = () => app.goTo({ view: "block", section: block.key });
  const [before, after] = describeSurroundings(block);
  const name = describeSection(block.key).split(", ").at(-1) ?? block.key;
  return (
    <div class={`map-sublayer map-${block.kind}`} data-reads={block.reads ?? undefined} data-block={block.key}>
      {after.includes("add") ? <span class={before ? "map-bypass" : "map-bypass map-bypass-all"} aria-hidden="true" /> : null}
      {before ? <NormBox operations={before} block={block} onOpen={openBlock} /> : null}
      <div class="map-box">
        <button type="button" class="map-name" aria-label={`${describeSection(block.key)}: open`} onClick={openBlock}>
          {name}
          {block.kind === "ffn" ? <span class="quiet"> {describeWidths(block)}</span> : null}
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

export function EndBox(props: { block: Block }) {
  const app = useApp();
  const row = props.block.tensors.at(-1) as TensorRow;
  const isVocabulary = row.dims.includes("V");
  const label = `${row.name}, ${row.means}: open`;
  const openEnd = () => (isVocabulary ? app.goTo({ view: "output" }) : app.goTo({ view: "block", section: props.block.key }));
  return (
    <button type="button" class="map-box map-end" data-end={row.name} aria-label={label} onClick={openEnd}>
      <span class="map-labelled">
        <span>
          {row.name}{" "}
          <span class="quiet">
            {row.op.kind === "norm" ? "norm, " : ""}
            {row.shape.join(" × ")} <NotCapturedNote row={row} />
          </span>
        </span>
        {isVocabulary ? <span class="quiet">{row.means}</span> : null}
        {isVocabulary ? null : <Matrix tensor={row.name} bare />}
      </span>
    </button>
  );
}

function NotCapturedNote(props: { row: TensorRow }) {
  return props.row.captured ? null : <span class="quiet">not captured</span>;
}

/** Shows the most likely next pieces of this step, and the one that was chosen. */
export function NextPieceBox(props: { manifest: Manifest }) {
  const app = useApp();
  const step = props.manifest.steps[app.step.value];
  if (!step) return null;
  const label = `writes ${quotePiece(step.chosen.piece)}: open the output`;
  return (
    <button type="button" class="map-box map-written" aria-label={label} onClick={() => app.goTo({ view: "output" })}>
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
    </button>
  );
}
