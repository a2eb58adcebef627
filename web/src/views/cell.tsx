// One cell, or one learned number: how it is computed, its captured and recomputed value, and links to its inputs.
import { useState } from "preact/hooks";
import { explainCell, type Explanation, listParameters } from "../computation";
import { formatExact, formatNumber, quotePiece } from "../format";
import { useApp, useArrival, useLoaded } from "../hooks";
import { makeFormula } from "../mathml";
import { findTensorRow } from "../network";
import { labelPosition } from "../operands";
import { Missing, NotReady, Strip, Value } from "../parts";
import type { App } from "../state";
import type { Manifest, TensorRow } from "../types";
import { makeCellPlace, OperandButton, SumTerms } from "./sum_terms";

export function CellView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const { tensor, index } = app.place.value;
  if (!manifest) return null;
  if (!tensor || !index) return <Missing message="No cell is open: choose one in a matrix and press Enter." />;
  const row = findTensorRow(manifest, tensor);
  if (row) return <TensorCell manifest={manifest} row={row} index={index} />;
  return <ParameterCell key={`${tensor} ${index.join(" ")}`} manifest={manifest} name={tensor} index={index} />;
}

function TensorCell(props: { manifest: Manifest; row: TensorRow; index: number[] }) {
  const app = useApp();
  const { manifest, row, index } = props;
  const key = `${manifest.id} ${row.name} ${index.join(" ")}`;
  const loaded = useLoaded(() => explainCell(getTraceNumbers(app, manifest), row.name, index), key);
  return (
    <article class="cell-body" data-cell={`${row.name} ${index.join(".")}`}>
      <header class="panel" data-subject="cell">
        <CellName manifest={manifest} row={row} index={index} />
        <p>{row.means}</p>
        {app.code.value ? (
          <>
            {makeFormula(row.op)}
            <p class="quiet">{row.of}</p>
            {row.code ? (
              <p class="mono cell-code">
                <span class="quiet">
                  {row.code.file}:{row.code.line}
                </span>{" "}
                {row.code.text.trim()}
              </p>
            ) : null}
          </>
        ) : null}
        {loaded.state === "ready" ? <Receipt explanation={loaded.value} /> : null}
      </header>
      <NotReady loaded={loaded} />
      {loaded.state === "ready" ? <ComputationView key={key} explanation={loaded.value} /> : null}
    </article>
  );
}

function getTraceNumbers(app: App, manifest: Manifest) {
  return { manifest, loadTensor: app.loadTensor, loadParameter: app.loadParameter };
}

/** Shows the tensor's name, and the meaning of each number of the index. */
function CellName(props: { manifest: Manifest; row: TensorRow; index: number[] }) {
  const { manifest, row, index } = props;
  const heading = useArrival<HTMLHeadingElement>(`${row.name} ${index.join(" ")}`);
  return (
    <h2 ref={heading} tabIndex={-1}>
      <span class="mono">{row.name}</span>
      <span class="cell-index">
        {row.dims.map((dim, axis) =>
          dim === "1" ? null : (
            <span class="chip">
              {dim === "H" ? "head" : dim} {describePlace(manifest, dim, index[axis] ?? 0)}
            </span>
          ),
        )}
      </span>
    </h2>
  );
}

function describePlace(manifest: Manifest, dim: string, position: number): string {
  if (dim === "H") return String(position + 1);
  const named = manifest.axes[dim]?.labels !== undefined;
  return named ? `${position} ${quotePiece(labelPosition(manifest, dim, position))}` : String(position);
}

/** Shows the captured and the recomputed value and whether they agree (check 9). */
function Receipt(props: { explanation: Explanation }) {
  const { row, captured, computation, comparison } = props.explanation;
  const passed = comparison?.passed === true;
  const verdict = row.edited ? "edited: not what its inputs give" : passed ? "✓ OK" : "✗ differs";
  return (
    <dl class="cell-receipt">
      <div>
        <dt>captured in the run</dt>
        <dd class="mono">{captured === null ? "not captured" : <Value shown={formatExact(captured)} />}</dd>
      </div>
      <div>
        <dt>recomputed here</dt>
        <dd class="mono">{computation ? <Value shown={formatExact(computation.value)} /> : "not possible: inputs are missing"}</dd>
      </div>
      {comparison ? (
        <div class={row.edited ? "" : passed ? "receipt-good" : "receipt-bad"}>
          <dt>difference</dt>
          <dd>
            <Value shown={formatNumber(comparison.difference)} /> (limit <Value shown={formatNumber(comparison.limit)} />){" "}
            <strong>{verdict}</strong>
          </dd>
        </div>
      ) : null}
    </dl>
  );
}

function ComputationView(props: { explanation: Explanation }) {
  const { computation, missing } = props.explanation;
  if (!computation) return <Missing message={`Computed from ${missing.join(" and ")}: not captured, so it cannot be recomputed.`} />;
  return (
    <div class="cell-computation">
      {computation.sums.map((sum) => (
        <SumTerms sum={sum} />
      ))}
      {computation.steps.length ? (
        <section class="panel">
          <h3>{computation.sums.length ? "then" : "how it is computed"}</h3>
          <ol class="computation-steps">
            {computation.steps.map((step) => (
              <li>
                <span>{step.text}</span>
                {step.operands?.map((operand) => <OperandButton operand={operand} named />)}
                {step.operands?.some((operand) => operand.value === step.value) ? null : (
                  <span class="computation-value">
                    <Value shown={formatNumber(step.value)} exact={formatExact(step.value)} />
                  </span>
                )}
              </li>
            ))}
          </ol>
        </section>
      ) : null}
    </div>
  );
}

function ParameterCell(props: { manifest: Manifest; name: string; index: number[] }) {
  const app = useApp();
  const { manifest, name, index } = props;
  const parameter = manifest.parameters.find((parameter) => parameter.name === name);
  const isMatrix = parameter?.shape.length === 2;
  const [row = 0, column = 0] = index;
  const [first, end, place] = isMatrix ? [row, row + 1, column] : [0, parameter?.shape[0] ?? 0, row];
  const isInside = parameter?.shape.length === index.length && index.every((at, i) => at < (parameter.shape[i] ?? 0));
  const read = async () => (isInside ? app.loadParameter(name, first, end) : null);
  const loaded = useLoaded(read, `${manifest.id} ${name} ${first}`);
  const [picked, setPicked] = useState<number | null>(null);
  const heading = useArrival<HTMLHeadingElement>(`${name} ${index.join(" ")}`);
  if (!parameter) return <Missing message={`This trace has neither a tensor nor a parameter named ${name}.`} />;
  if (!isInside) return <Missing message={`${name} is ${parameter.shape.join(" × ")}; it has no cell ${index.join(", ")}.`} />;
  const values = loaded.state === "ready" ? loaded.value?.values : undefined;
  const openNumber = (at: number) => app.goTo(makeCellPlace({ name, index: isMatrix ? [row, at] : [at] }));
  const shownPlace = picked ?? place;
  return (
    <article class="cell-body">
      <header class="panel">
        <h2 ref={heading} tabIndex={-1}>
          <span class="mono">{name}</span>
          <span class="cell-index">
            {isMatrix ? <span class="chip">row {row}</span> : null}
            <span class="chip">{isMatrix ? `column ${column}` : `place ${row}`}</span>
          </span>
        </h2>
        <p>
          Learned in training: one of {parameter.shape.join(" × ")} numbers. It is not computed from anything else in this run.
          {describePiece(manifest, name, row)}
        </p>
        {values ? (
          <dl class="cell-receipt">
            <div>
              <dt>this number</dt>
              <dd class="mono">
                <Value shown={formatExact(values[place] ?? Number.NaN)} />
              </dd>
            </div>
          </dl>
        ) : null}
        <p class="quiet">
          Read by{" "}
          {manifest.tensors
            .filter((tensor) => listParameters(tensor.op).includes(name))
            .map((tensor) => tensor.name)
            .join(", ")}
          .
        </p>
      </header>
      <NotReady loaded={loaded} />
      {values ? (
        <section class="panel">
          <h3>{isMatrix ? `all ${parameter.shape[1]} numbers of row ${row}` : `all ${parameter.shape[0]} numbers`}</h3>
          <Strip
            kind="bars"
            label={isMatrix ? `row ${row}` : "vector"}
            values={[...values]}
            picked={shownPlace}
            onPick={setPicked}
            onOpen={openNumber}
          />
          <p class="mono">
            {shownPlace}: <Value shown={formatExact(values[shownPlace] ?? Number.NaN)} />
          </p>
        </section>
      ) : null}
    </article>
  );
}

/** Says which piece of this sentence a row of an embedding table belongs to; empty where to none. */
function describePiece(manifest: Manifest, name: string, row: number): string {
  const pieces = manifest.tensors.flatMap(({ op }) => {
    if (op.kind !== "lookup" || op.table !== name) return [];
    const side = op.side === "source" ? manifest.source : manifest.inputs;
    return side.ids.flatMap((id, position) => (id === row ? [quotePiece(side.pieces[position])] : []));
  });
  return pieces.length ? ` This row is the vector of the piece ${pieces[0]}.` : "";
}
