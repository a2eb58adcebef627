// One number: how it is made of others, what was captured, what comes out again here, and the way back to its inputs.

import { labelOf } from "../cell_terms";
import { explain, type Explanation } from "../explanation";
import { figure, quoted } from "../format";
import { useApp, useLoaded } from "../hooks";
import { formulaOf } from "../mathml";
import { exact } from "../readout";
import type { App } from "../state";
import { rowOf } from "../tensor_graph";
import type { Manifest, TensorRow } from "../types";
import { useArrival } from "./arrival_focus";
import { ParameterCell } from "./parameter_cell";
import { OperandButton, Terms } from "./sum_terms";
import { Loading, Missing, Value } from "./values";

export function CellView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const { tensor, index } = app.place.value;
  if (!manifest) return null;
  if (!tensor || !index) return <Missing says="No cell is open: choose one in a matrix and press Enter." />;
  const row = rowOf(manifest, tensor);
  if (row) return <TensorCell manifest={manifest} row={row} index={index} />;
  return <ParameterCell key={`${tensor} ${index.join(" ")}`} manifest={manifest} name={tensor} index={index} />;
}

function TensorCell(props: { manifest: Manifest; row: TensorRow; index: number[] }) {
  const app = useApp();
  const { manifest, row, index } = props;
  const key = `${manifest.id} ${row.name} ${index.join(" ")}`;
  const loaded = useLoaded(() => explain(numbersOf(app, manifest), row.name, index), key);
  return (
    <article class="cell-body" data-cell={`${row.name} ${index.join(".")}`}>
      <header class="panel">
        <CellName manifest={manifest} row={row} index={index} />
        <p>{row.means}</p>
        {app.code.value ? (
          <>
            {formulaOf(row.op)}
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
        {loaded.state === "ready" ? <Receipt found={loaded.value} /> : null}
      </header>
      {loaded.state === "loading" ? <Loading /> : null}
      {loaded.state === "missing" ? <Missing says={loaded.says} /> : null}
      {loaded.state === "ready" ? <Making key={key} found={loaded.value} /> : null}
    </article>
  );
}

function numbersOf(app: App, manifest: Manifest) {
  return { manifest, tensor: app.tensor, parameter: app.parameter };
}

/** The name with what each number of the index stands for. */
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
              {dim === "H" ? "head" : dim} {spokenPlace(manifest, dim, index[axis] ?? 0)}
            </span>
          ),
        )}
      </span>
    </h2>
  );
}

function spokenPlace(manifest: Manifest, dim: string, position: number): string {
  if (dim === "H") return String(position + 1);
  const named = manifest.axes[dim]?.labels !== undefined;
  return named ? `${position} ${quoted(labelOf(manifest, dim, position))}` : String(position);
}

/** Captured, recomputed, and whether they agree: check 9. */
function Receipt(props: { found: Explanation }) {
  const { row, captured, made, comparison } = props.found;
  const passed = comparison?.passed === true;
  const verdict = row.edited ? "edited: not what its inputs give" : passed ? "✓ OK" : "✗ differs";
  return (
    <dl class="cell-receipt">
      <div>
        <dt>captured in the run</dt>
        <dd class="mono">{captured === null ? "not captured" : <Value shown={exact(captured)} />}</dd>
      </div>
      <div>
        <dt>recomputed here</dt>
        <dd class="mono">{made ? <Value shown={exact(made.value)} /> : "cannot be: inputs are missing"}</dd>
      </div>
      {comparison ? (
        <div class={row.edited ? "" : passed ? "receipt-good" : "receipt-bad"}>
          <dt>difference</dt>
          <dd>
            <Value shown={figure(comparison.difference)} /> (limit <Value shown={figure(comparison.limit)} />){" "}
            <strong>{verdict}</strong>
          </dd>
        </div>
      ) : null}
    </dl>
  );
}

function Making(props: { found: Explanation }) {
  const { made, missing } = props.found;
  if (!made) return <Missing says={`Made from ${missing.join(" and ")}: not captured, so it cannot be recomputed.`} />;
  return (
    <div class="cell-computation">
      {made.sums.map((sum) => (
        <Terms sum={sum} />
      ))}
      {made.lines.length ? (
        <section class="panel">
          <h3>{made.sums.length ? "then" : "how it is made"}</h3>
          <ol class="computation-steps">
            {made.lines.map((line) => (
              <li>
                <span>{line.says}</span>
                {line.operands?.map((operand) => <OperandButton operand={operand} named />)}
                {line.operands?.some((operand) => operand.value === line.value) ? null : (
                  <span class="computation-value">
                    <Value shown={figure(line.value)} exact={exact(line.value)} />
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
