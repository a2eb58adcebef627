// One sub-layer as a flow of matrices: for each thing that is computed, what came in and what came out.

import { asRoot } from "../computation";
import { many } from "../format";
import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import { type Block, blockAt, blocks, positionDim } from "../network";
import { lastName } from "../operands";
import type { App } from "../state";
import { inputsOf, labelsOf, rowOf, sectionInWords } from "../tensor_graph";
import type { Manifest, Op, TensorRow } from "../types";
import { ActiveUnits } from "./active_units";
import { useArrival } from "./arrival_focus";
import { HeadsRow } from "./heads_row";
import { Figure, heightFor } from "./matrix_flow";
import { MeansAndDeviations } from "./norm_moments";
import { Missing } from "./values";

export function BlockView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const { section } = app.place.value;
  const heading = useArrival<HTMLHeadingElement>(section ?? "");
  if (!manifest) return null;
  const block = section === undefined ? blocks(manifest)[0] : blockAt(manifest, section);
  if (!block) return <Missing says={`This model has no part ${section ?? ""}.`} />;
  return (
    <article class="block-body">
      <header class="row view-title">
        <h2 ref={heading} tabIndex={-1}>
          {sectionInWords(block.key)}
        </h2>
        <Neighbours manifest={manifest} block={block} />
      </header>
      {block.tensors.map((row) => {
        if (row.name === block.attention?.pattern) return <Heads key={row.name} block={block} manifest={manifest} />;
        if (row.dims.includes("H") || row.dims.includes("1")) return null; // shown head by head
        return <Step key={row.name} manifest={manifest} row={row} />;
      })}
    </article>
  );
}

/** The blocks computed before and after this one. */
function Neighbours(props: { manifest: Manifest; block: Block }) {
  const app = useApp();
  const all = blocks(props.manifest);
  const at = all.findIndex((block) => block.key === props.block.key);
  const link = (block: Block | undefined, says: string) =>
    block ? (
      <button type="button" class="button" onClick={() => app.go({ view: "block", section: block.key })}>
        {says} {sectionInWords(block.key)}
      </button>
    ) : null;
  return (
    <>
      {link(all[at - 1], "←")}
      {link(all[at + 1], "→")}
    </>
  );
}

function Heads(props: { block: Block; manifest: Manifest }) {
  const { attention } = props.block;
  if (!attention) return null;
  if (attention.heads === 0)
    return <Missing says="No heads left here: this attention reads nothing, and adds the bias of its output at every position." />;
  const width = rowOf(props.manifest, attention.q)?.shape[2] ?? 0;
  const keys = rowOf(props.manifest, attention.k);
  return (
    <section class="panel">
      <h3>
        {many(attention.heads, "head")}, each reading {keys ? inputsOf(keys.op)[0] : "its input"} in its own way
      </h3>
      <p>
        Each makes queries, keys and values of {width} numbers, and weights from how well they fit. Rows read, columns
        are read; dark is much on light paper, light is much on dark. Open one to see its whole chain of matrices.
      </p>
      <div class="heads-row-large">
        <HeadsRow parts={attention} named />
      </div>
    </section>
  );
}

/** One tensor with what it is made from. */
function Step(props: { manifest: Manifest; row: TensorRow }) {
  const app = useApp();
  const { manifest, row } = props;
  const inputs = inputsOf(row.op).flatMap((name) => rowOf(manifest, name) ?? []);
  const heads = inputs.find((input) => input.dims.includes("H"));
  const flat = inputs.filter((input) => !input.dims.includes("H"));
  return (
    <section class="panel">
      <h3>
        {lastName(row.name).replaceAll("_", " ")} <span class="quiet">{row.means}</span>
      </h3>
      <div class="flow">
        {heads ? (
          <p class="flow-note">
            {heads.shape[0]} heads side by side: {heads.shape[0]} × {heads.shape[2]} numbers for each position
          </p>
        ) : null}
        {flat.map((input, i) => (
          <Figure key={input.name} sign={i > 0 ? "+" : undefined} numbers={input.shape.at(-1)}>
            <Matrix tensor={input.name} label={input.name} maxHeight={heightFor(input.shape.at(-2) ?? 1)} />
          </Figure>
        ))}
        <Figure sign={signOf(row.op, manifest)} numbers={row.shape.at(-1)}>
          <Matrix tensor={row.name} label={row.name} maxHeight={heightFor(row.shape.at(-2) ?? 1)} />
        </Figure>
      </div>
      {row.op.kind === "norm" ? <MeansAndDeviations manifest={manifest} row={row} before={row.op.inputs[0]} /> : null}
      {row.op.kind === "activation" ? <ActiveUnits row={row} position={chosenPosition(app, manifest, row)} /> : null}
    </section>
  );
}

/** The row to look at: the piece that is followed, else the step of decoding, else the first. */
export function chosenPosition(app: App, manifest: Manifest, row: TensorRow): { at: number; label: string } {
  const dim = positionDim(row);
  const follow = app.follow.value;
  const at = follow && follow.dim === dim ? follow.index : dim === "T" ? app.step.value : 0;
  return { at, label: (dim && labelsOf(manifest, dim)[at]) || String(at) };
}

function signOf(op: Op, manifest: Manifest): string {
  switch (op.kind) {
    case "lookup":
      return `table rows × ${asRoot(op.scale)} →`;
    case "linear": {
      const shape = manifest.parameters.find((each) => each.name === op.weight)?.shape.join(" × ") ?? "";
      return `× ${lastName(op.weight) === "weight" ? op.weight.split(".").at(-2) : op.weight} (${shape})ᵀ →`;
    }
    case "add":
      return "=";
    case "norm":
      return op.rms ? "x / root of the mean square →" : "(x − mean) / deviation →";
    case "activation":
      return `${op.function} →`;
    case "sinusoid":
      return "sine, cosine →";
    case "row":
      return "table rows →";
    default:
      return "→";
  }
}
