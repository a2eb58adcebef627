// The product that a head begins with: the vectors that it reads, times a trained matrix, give its queries, keys or
// values.
import { useEffect, useState } from "preact/hooks";
import type { Ink } from "../format";
import { useApp } from "../hooks";
import { MatrixProduct } from "../matrix";
import { type AttentionParts, findTensorRow } from "../network";
import type { PlaySpan } from "../play";
import type { Manifest } from "../types";
import { Weights } from "../weights";

const INKS: readonly Ink[] = ["q", "k", "v"];
const NAMES = { q: "queries", k: "keys", v: "values" };

interface ProjectionProps {
  manifest: Manifest;
  parts: AttentionParts;
  head: number;
  /** The query and the key that are looked at. */
  pointed: { query: number | undefined; key: number | undefined };
  fills: PlaySpan;
  onPoint(pair: { query?: number; key?: number }): void;
}

export function Projection({ manifest, parts, head, pointed, fills, onPoint }: ProjectionProps) {
  const app = useApp();
  const [ink, setInk] = useState<Ink>("q");
  const [col, setCol] = useState(0);
  const spoken = app.spoken.value;
  const asked = INKS.find((name) => parts[name] === spoken?.name);
  useEffect(() => {
    if (asked) setInk(asked);
  }, [spoken]);
  const row = findTensorRow(manifest, parts[ink]);
  if (row?.op.kind !== "linear") return null;
  const { inputs, weight, bias, first, turned } = row.op;
  const input = findTensorRow(manifest, inputs[0]);
  const side = ink === "q" ? "query" : "key";
  const dim = ink === "q" ? parts.queryDim : parts.keyDim;
  const [positions = 0, width = 0] = row.shape.slice(1);
  const name = `W_${ink.toUpperCase()}`;
  const weights = { parameter: weight, first: first + head * width, rows: width, label: name, ink };
  const pin = (position: number) => onPoint({ [side]: position });
  return (
    <section class="panel">
      <header class="row view-title">
        <h3>Three vectors from one: x times a trained matrix</h3>
        <span class="switch" role="group" aria-label="Which of the three products is drawn">
          {INKS.map((each) => (
            <button type="button" key={each} aria-pressed={each === ink} onClick={() => setInk(each)}>
              <b class={`ink-${each}`}>{each}</b> {NAMES[each]}
            </button>
          ))}
        </span>
      </header>
      <MatrixProduct
        rows={{ dim, size: positions, labels: manifest.axes[dim]?.labels }}
        cols={{ dim: "E", size: width }}
        inner={{ dim: "D", size: input?.shape.at(-1) ?? 0 }}
        left={{ tensor: inputs[0], label: "x", framed: { row: pointed[side] }, onPin: pin }}
        above={{ label: name, framed: { col }, draw: (shared) => <Weights {...weights} {...shared} /> }}
        result={{
          tensor: parts[ink],
          fixed: { H: head },
          label: ink,
          ink,
          framed: { row: pointed[side], col },
          play: { fills },
          onPin: (position, number) => {
            pin(position);
            setCol(number);
          },
        }}
      >
        <p>
          A row of <b>x</b> is the vector of a position, as this layer gets it. A column of{" "}
          <b class={`ink-${ink}`}>{name}</b> was learned in training.
        </p>
        <p>
          Where they meet stands one number of <b class={`ink-${ink}`}>{ink}</b>: {input?.shape.at(-1)} products, added
          up
          {bias === null ? "" : ", plus a learned bias"}
          {turned ? "; then each pair of numbers is turned by an angle that grows with the position" : ""}.
        </p>
      </MatrixProduct>
    </section>
  );
}
