// One learned number, where the way back from any cell ends.

import { useState } from "preact/hooks";
import { listParameters } from "../explanation";
import { quotePiece } from "../format";
import { useApp, useLoaded } from "../hooks";
import { formatExact } from "../readout";
import type { Manifest } from "../types";
import { useArrival } from "./arrival_focus";
import { Strip } from "./number_strip";
import { makeCellPlace } from "./sum_terms";
import { Loading, Missing, Value } from "./values";

export function ParameterCell(props: { manifest: Manifest; name: string; index: number[] }) {
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
      {loaded.state === "loading" ? <Loading /> : null}
      {loaded.state === "missing" ? <Missing message={loaded.message} /> : null}
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
