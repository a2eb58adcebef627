// One sub-layer as a flow of matrices: the inputs and the output of each operation.
import { useState } from "preact/hooks";
import { formatRoot } from "../computation";
import { formatExact, formatNumber, formatQuantity, quotePiece } from "../format";
import { useApp, useArrival, useTensor } from "../hooks";
import { chooseHeight, FlowStep, Matrix, MatrixProduct } from "../matrix";
import {
  type Block,
  describeSection,
  findBlock,
  findTensorRow,
  getPositionDim,
  listBlocks,
  listInputs,
  listLabels,
} from "../network";
import { getLastName } from "../operands";
import { Loading, Missing, NotReady, Strip, Value } from "../parts";
import type { FramedCells } from "../picture";
import type { PlaySpan } from "../play";
import type { App } from "../state";
import type { Tensor } from "../trace_cache";
import type { Manifest, Op, TensorRow } from "../types";
import { canDrawWeights, TableRows, Weights } from "../weights";
import { HeadsRow } from "./head_roles";

export function BlockView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const { section } = app.place.value;
  const heading = useArrival<HTMLHeadingElement>(section ?? "");
  if (!manifest) return null;
  const block = section === undefined ? listBlocks(manifest)[0] : findBlock(manifest, section);
  if (!block) return <Missing message={`This model has no part ${section ?? ""}.`} />;
  return (
    <article class="block-body">
      <header class="row view-title">
        <h2 ref={heading} tabIndex={-1}>
          {describeSection(block.key)}
        </h2>
        <NeighbourLinks manifest={manifest} block={block} />
      </header>
      {block.tensors.map((row, i) => {
        if (row.name === block.attention?.pattern) return <HeadsPanel key={row.name} block={block} manifest={manifest} />;
        if (row.dims.includes("H") || row.dims.includes("1")) return null; // shown head by head
        return <TensorStep key={row.name} manifest={manifest} row={row} fills={{ from: (0.95 * i) / block.tensors.length, to: (0.95 * (i + 1)) / block.tensors.length }} />;
      })}
    </article>
  );
}

/** Links to the blocks computed before and after this one. */
function NeighbourLinks(props: { manifest: Manifest; block: Block }) {
  const app = useApp();
  const blocks = listBlocks(props.manifest);
  const position = blocks.findIndex((block) => block.key === props.block.key);
  const makeLink = (block: Block | undefined, arrow: string) =>
    block ? (
      <button type="button" class="button" onClick={() => app.goTo({ view: "block", section: block.key })}>
        {arrow} {describeSection(block.key)}
      </button>
    ) : null;
  return (
    <>
      {makeLink(blocks[position - 1], "←")}
      {makeLink(blocks[position + 1], "→")}
    </>
  );
}

function HeadsPanel(props: { block: Block; manifest: Manifest }) {
  const { attention } = props.block;
  if (!attention) return null;
  const width = findTensorRow(props.manifest, attention.q)?.shape[2] ?? 0;
  const keys = findTensorRow(props.manifest, attention.k);
  return (
    <section class="panel">
      <h3>
        {formatQuantity(attention.heads, "head")}, each reading {keys ? listInputs(keys.op)[0] : "its input"} in its own way
      </h3>
      <p>
        Each computes queries, keys and values of {width} numbers, and weights from how well queries and keys match. Rows
        read, columns are read; in the light theme dark cells mean much weight, in the dark theme light cells do. Open a
        head to see its whole chain of matrices.
      </p>
      <div class="heads-row-large">
        <HeadsRow parts={attention} named />
      </div>
    </section>
  );
}

/** Shows one tensor beside the tensors it is computed from. */
export function TensorStep(props: { manifest: Manifest; row: TensorRow; fills: PlaySpan }) {
  const app = useApp();
  const { manifest, row } = props;
  return (
    <section class="panel">
      <h3>
        {getLastName(row.name).replaceAll("_", " ")} <span class="quiet">{row.means}</span>
      </h3>
      {isDrawnAsProduct(manifest, row) ? <TensorProduct {...props} /> : <TensorFlow {...props} />}
      {row.op.kind === "norm" ? <MeansAndDeviations manifest={manifest} row={row} before={row.op.inputs[0]} /> : null}
      {row.op.kind === "activation" ? <ActiveUnits row={row} position={choosePosition(app, manifest, row)} /> : null}
    </section>
  );
}

const WIDEST = 1024; // columns of a product

/** Tells whether a step is a product with trained weights that can be drawn. */
function isDrawnAsProduct(manifest: Manifest, { op, shape, captured }: TensorRow): boolean {
  return op.kind === "linear" && captured && (shape.at(-1) ?? 0) <= WIDEST && canDrawWeights(manifest, op.weight);
}

/** Draws a step as a product with trained weights; what all heads have found stands side by side. */
function TensorProduct({ manifest, row, fills }: { manifest: Manifest; row: TensorRow; fills: PlaySpan }) {
  const app = useApp();
  const input = row.op.kind === "linear" ? findTensorRow(manifest, row.op.inputs[0]) : undefined;
  if (row.op.kind !== "linear" || !input) return null;
  const { weight, first, bias, merged } = row.op;
  const dim = getPositionDim(row) ?? "1";
  const [heads, width] = merged ? [input.shape[0] ?? 1, input.shape.at(-1) ?? 0] : [1, input.shape.at(-1) ?? 0];
  const columns = row.shape.at(-1) ?? 0;
  const name = merged ? "W_O" : weight;
  const framed = frameRow(app, row);
  return (
    <MatrixProduct
      rows={{ dim, size: row.shape.at(-2) ?? 1, labels: manifest.axes[dim]?.labels }}
      cols={{ dim: "D", size: columns }}
      inner={{ dim: "HE", size: heads * width }}
      left={{ tensor: input.name, merged, label: merged ? "heads side by side" : input.name, framed }}
      above={{ label: name, draw: (shared) => <Weights parameter={weight} first={first} rows={columns} label={name} {...shared} /> }}
      result={{ tensor: row.name, label: row.name, framed, play: { fills } }}
    >
      {merged ? (
        <p>
          {formatQuantity(heads, "head")} side by side: {heads} × {width} numbers for each position. Times <b>W_O</b>
          {bias === null ? "" : ", plus a learned bias,"} they become one vector of {columns}.
        </p>
      ) : (
        <p>
          Each row, times the trained matrix{bias === null ? "" : ", plus a learned bias"}: {columns} sums of {width} products.
        </p>
      )}
    </MatrixProduct>
  );
}

/** Draws what a step is computed from and its result side by side. */
function TensorFlow(props: { manifest: Manifest; row: TensorRow; fills: PlaySpan }) {
  const app = useApp();
  const { manifest, row } = props;
  const { op } = row;
  const inputs = listInputs(op).flatMap((name) => findTensorRow(manifest, name) ?? []);
  const headInput = inputs.find((input) => input.dims.includes("H"));
  const plainInputs = inputs.filter((input) => !input.dims.includes("H"));
  const hasTable = op.kind === "lookup" && manifest.parameters.some((parameter) => parameter.name === op.table && parameter.captured);
  const framed = frameRow(app, row);
  return (
    <div class="flow">
      {headInput ? (
        <p class="flow-note">
          {headInput.shape[0]} heads side by side: {headInput.shape[0]} × {headInput.shape[2]} numbers for each position
        </p>
      ) : null}
      {plainInputs.map((input, i) => (
        <FlowStep key={input.name} sign={i > 0 ? "+" : undefined} numbers={input.shape.at(-1)}>
          <Matrix tensor={input.name} label={input.name} maxHeight={chooseHeight(input.shape.at(-2) ?? 1)} framed={framed} />
        </FlowStep>
      ))}
      {hasTable && (
        <FlowStep numbers={row.shape.at(-1)}>
          <LookedUp manifest={manifest} op={op} framed={framed} />
        </FlowStep>
      )}
      <FlowStep sign={hasTable ? `× ${formatRoot(op.scale)} =` : describeOperation(op, manifest)} numbers={row.shape.at(-1)}>
        <Matrix
          tensor={row.name}
          label={row.name}
          maxHeight={chooseHeight(row.shape.at(-2) ?? 1)}
          framed={framed}
          play={{ fills: props.fills }}
        />
      </FlowStep>
    </div>
  );
}

/** Draws the rows of the table that the pieces of a side pick by their ids. */
function LookedUp({ manifest, op, framed }: { manifest: Manifest; op: Extract<Op, { kind: "lookup" }>; framed: FramedCells }) {
  const { ids, pieces } = op.side === "source" ? manifest.source : manifest.inputs;
  const dim = op.side === "source" ? "S" : "T";
  return <TableRows table={op.table} dim={dim} ids={ids} labels={pieces} maxHeight={chooseHeight(ids.length)} framed={framed} />;
}

/** Frames the row that the story speaks of; in the decoder that is the step. Without a story nothing is framed but a row of the link. */
function frameRow(app: App, tensor: TensorRow): FramedCells {
  const isTold = app.story.value !== null;
  return { row: getPositionDim(tensor) === "T" ? (isTold ? app.step.value : undefined) : app.place.value.row };
}

/** Chooses the row to look at: that of the link, the followed piece, else the step of decoding, else the first. */
function choosePosition(app: App, manifest: Manifest, row: TensorRow): { at: number; label: string } {
  const dim = getPositionDim(row);
  const follow = app.followed.value;
  const followed = follow?.dim === dim ? follow.index : undefined;
  const position = dim === "T" ? (followed ?? app.step.value) : (app.place.value.row ?? followed ?? 0);
  const at = Math.min(position, (row.shape.at(-2) ?? 1) - 1);
  return { at, label: (dim && listLabels(manifest, dim)[at]) || String(at) };
}

function describeOperation(op: Op, manifest: Manifest): string {
  switch (op.kind) {
    case "lookup":
      return `table rows × ${formatRoot(op.scale)} →`;
    case "linear": {
      const shape = manifest.parameters.find((parameter) => parameter.name === op.weight)?.shape.join(" × ") ?? "";
      return `× ${getLastName(op.weight) === "weight" ? op.weight.split(".").at(-2) : op.weight} (${shape})ᵀ →`;
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

function MeansAndDeviations(props: { manifest: Manifest; row: TensorRow; before: string }) {
  const app = useApp();
  const before = useTensor(props.before);
  const after = useTensor(props.row.name);
  if (before.state === "missing") return <Missing message={before.message} />;
  if (after.state === "missing") return <Missing message={after.message} />;
  if (before.state === "loading" || after.state === "loading") return <Loading />;
  const dim = getPositionDim(props.row);
  const labels = dim ? listLabels(props.manifest, dim) : [];
  const [momentsBefore, momentsAfter] = [computeMoments(before.value), computeMoments(after.value)];
  const followed = app.followed.value?.dim === dim ? app.followed.value?.index : dim === "T" ? app.step.value : null;
  return (
    <details>
      <summary>mean and standard deviation of each vector, before and after</summary>
      <table class="moments-table" aria-label="Mean and standard deviation of each vector">
        <thead>
          <tr>
            <th scope="col">piece</th>
            <th scope="col">mean before</th>
            <th scope="col">deviation before</th>
            <th scope="col">mean after</th>
            <th scope="col">deviation after</th>
          </tr>
        </thead>
        <tbody>
          {momentsBefore.map((moments, position) => (
            <tr class={position === followed ? "picked-row" : ""}>
              <th scope="row">{quotePiece(labels[position])}</th>
              {[...moments, ...(momentsAfter[position] ?? [])].map((value) => (
                <td>
                  <Value shown={formatNumber(value)} exact={formatExact(value)} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="quiet">
        {props.row.op.kind === "norm" && props.row.op.rms
          ? "This norm subtracts no mean: it divides by the root of the mean square; then each dimension gets its own weight."
          : "Afterwards they are not exactly 0 and 1, because each dimension then gets its own weight and bias."}
      </p>
    </details>
  );
}

/** Computes the mean and standard deviation of each vector. */
function computeMoments({ row, values }: Tensor): [number, number][] {
  const width = row.shape.at(-1) ?? 1;
  return Array.from({ length: values.length / width }, (_, position) => {
    const vector = values.subarray(position * width, (position + 1) * width);
    const mean = vector.reduce((sum, x) => sum + x, 0) / width;
    return [mean, Math.sqrt(vector.reduce((sum, x) => sum + (x - mean) ** 2, 0) / width)];
  });
}

const SHOWN = 10;

function ActiveUnits(props: { row: TensorRow; position: { at: number; label: string } }) {
  const app = useApp();
  const loaded = useTensor(props.row.name);
  const [picked, setPicked] = useState(0);
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  const { row, values } = loaded.value;
  const width = row.shape.at(-1) ?? 0;
  const { at, label } = props.position;
  const vector = Array.from(values.subarray(at * width, (at + 1) * width));
  const order = vector.map((_, unit) => unit).sort((one, other) => Math.abs(vector[other] ?? 0) - Math.abs(vector[one] ?? 0));
  const openUnit = (unit: number) => app.goTo({ view: "cell", tensor: row.name, index: [at, unit] });
  const answering = vector.filter((value) => value !== 0).length;
  const unit = order[picked] ?? 0;
  return (
    <div class="active-units">
      <h4>
        At {quotePiece(label)}: {answering} of {width} units are not 0; the strongest first
      </h4>
      <Strip
        kind="bars"
        label="sorted"
        values={order.map((unit) => vector[unit] ?? 0)}
        picked={picked}
        onPick={setPicked}
        onOpen={(place) => openUnit(order[place] ?? 0)}
      />
      <p>
        number {picked + 1}: unit {unit}, <Value shown={formatExact(vector[unit] ?? 0)} />
      </p>
      <ol class="row unit-list">
        {order.slice(0, SHOWN).map((strong) => (
          <li>
            <button type="button" class="operand" onClick={() => openUnit(strong)}>
              unit {strong} <Value shown={formatNumber(vector[strong] ?? 0)} exact={formatExact(vector[strong] ?? 0)} />
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}
