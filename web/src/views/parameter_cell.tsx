// A number that training left: where the way back from any cell ends.

import { useState } from "preact/hooks";
import { parametersOf } from "../explanation";
import { quoted } from "../format";
import { useApp, useLoaded } from "../hooks";
import { exact } from "../readout";
import type { Manifest } from "../types";
import { useArrival } from "./arrival_focus";
import { Strip } from "./number_strip";
import { cellOf } from "./sum_terms";
import { Loading, Missing, Value } from "./values";

export function ParameterCell(props: { manifest: Manifest; name: string; index: number[] }) {
  const app = useApp();
  const { manifest, name, index } = props;
  const known = manifest.parameters.find((each) => each.name === name);
  const matrix = known?.shape.length === 2;
  const [row = 0, column = 0] = index;
  const [first, end, place] = matrix ? [row, row + 1, column] : [0, known?.shape[0] ?? 0, row];
  const inside = known?.shape.length === index.length && index.every((at, i) => at < (known.shape[i] ?? 0));
  const read = async () => (inside ? app.parameter(name, first, end) : null);
  const loaded = useLoaded(read, `${manifest.id} ${name} ${first}`);
  const [picked, setPicked] = useState<number | null>(null);
  const heading = useArrival<HTMLHeadingElement>(`${name} ${index.join(" ")}`);
  if (!known) return <Missing says={`This trace has neither a tensor nor a parameter named ${name}.`} />;
  if (!inside) return <Missing says={`${name} is ${known.shape.join(" × ")}; it has no cell ${index.join(", ")}.`} />;
  const values = loaded.state === "ready" ? loaded.value?.values : undefined;
  const open = (at: number) => app.go(cellOf({ name, index: matrix ? [row, at] : [at] }));
  const at = picked ?? place;
  return (
    <article class="cell-body">
      <header class="panel">
        <h2 ref={heading} tabIndex={-1}>
          <span class="mono">{name}</span>
          <span class="cell-index">
            {matrix ? <span class="chip">row {row}</span> : null}
            <span class="chip">{matrix ? `column ${column}` : `place ${row}`}</span>
          </span>
        </h2>
        <p>
          Learned in training: one of {known.shape.join(" × ")} numbers. It is made from nothing else in this run.
          {pieceOf(manifest, name, row)}
        </p>
        {values ? (
          <dl class="cell-receipt">
            <div>
              <dt>this number</dt>
              <dd class="mono">
                <Value shown={exact(values[place] ?? Number.NaN)} />
              </dd>
            </div>
          </dl>
        ) : null}
        <p class="quiet">
          Read by{" "}
          {manifest.tensors
            .filter((tensor) => parametersOf(tensor.op).includes(name))
            .map((tensor) => tensor.name)
            .join(", ")}
          .
        </p>
      </header>
      {loaded.state === "loading" ? <Loading /> : null}
      {loaded.state === "missing" ? <Missing says={loaded.says} /> : null}
      {values ? (
        <section class="panel">
          <h3>{matrix ? `all ${known.shape[1]} numbers of row ${row}` : `all ${known.shape[0]} numbers`}</h3>
          <Strip
            kind="bars"
            label={matrix ? `row ${row}` : "vector"}
            values={[...values]}
            picked={at}
            onPick={setPicked}
            onOpen={open}
          />
          <p class="mono">
            {at}: <Value shown={exact(values[at] ?? Number.NaN)} />
          </p>
        </section>
      ) : null}
    </article>
  );
}

/** Which piece of this sentence a row of an embedding table belongs to. */
function pieceOf(manifest: Manifest, name: string, row: number): string {
  const pieces = manifest.tensors.flatMap(({ op }) => {
    if (op.kind !== "lookup" || op.table !== name) return [];
    const side = op.side === "source" ? manifest.source : manifest.inputs;
    return side.ids.flatMap((id, at) => (id === row ? [quoted(side.pieces[at])] : []));
  });
  return pieces.length ? ` This row is the vector of the piece ${pieces[0]}.` : "";
}
