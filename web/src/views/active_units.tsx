// The inner units of a feed-forward at one position, those of the largest size first.

import { useState } from "preact/hooks";
import { formatNumber, quotePiece } from "../format";
import { useApp, useTensor } from "../hooks";
import { formatExact } from "../readout";
import type { TensorRow } from "../types";
import { Strip } from "./number_strip";
import { Loading, Missing, Value } from "./values";

const SHOWN = 10;

export function ActiveUnits(props: { row: TensorRow; position: { at: number; label: string } }) {
  const app = useApp();
  const loaded = useTensor(props.row.name);
  const [picked, setPicked] = useState(0);
  if (loaded.state === "missing") return <Missing message={loaded.message} />;
  if (loaded.state === "loading") return <Loading />;
  const { row, values } = loaded.value;
  const width = row.shape.at(-1) ?? 0;
  const { at, label } = props.position;
  const vector = Array.from(values.subarray(at * width, (at + 1) * width));
  const order = vector.map((_, unit) => unit).sort((a, b) => Math.abs(vector[b] ?? 0) - Math.abs(vector[a] ?? 0));
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
