// Position vectors: their values, their formula, and how similar any two of them are.
import { useState } from "preact/hooks";
import { makeSymmetricScale } from "../colour";
import { formatNumber, quotePiece } from "../format";
import { useApp, useDark, useTensor } from "../hooks";
import { makeFormula } from "../mathml";
import { Matrix } from "../matrix";
import { findConsumer, findPositionBias, findPositions, findRotatedQueries, listLabels } from "../network";
import { Menu, NotReady, NumberMenu, NumberTable, Value } from "../parts";
import { Sheet } from "../sheet";
import type { Manifest, TensorRow } from "../types";
import { TensorStep } from "./block";
import { SourceLine } from "./story";

const WHOLE = { from: 0, to: 0.95 }; // of the time in which a row is played

export function PositionsView() {
  const app = useApp();
  const [side, setSide] = useState<"source" | "target">("source");
  const manifest = app.manifest.value;
  if (!manifest) return null;
  const row = findPositions(manifest, side);
  if (!row) return <NoPositions manifest={manifest} />;
  const sum = findConsumer(manifest, row.name, "add");
  return (
    <div class="stack positions-body">
      <header class="row">
        <h2>The vectors of the positions</h2>
        <Menu
          label="of the"
          value={side}
          options={[["source", "encoder"], ["target", "decoder"]]}
          onPick={(picked) => setSide(picked === "target" ? "target" : "source")}
        />
      </header>
      <p>
        Each row is {row.means}: {row.of}. It is added to the embedding of the piece at that position
        {row.op.kind === "row" ? "; these vectors were trained" : "; nothing here was trained"}.
      </p>
      {app.code.value && makeFormula(row.op)}
      {app.code.value && row.code && <SourceLine code={row.code} name={row.name} />}
      <Matrix tensor={row.name} label="One row for each position, one column for each number of its vector" maxHeight={260} framed={{ row: app.place.value.row }} />
      {sum && <TensorStep manifest={manifest} row={sum} fills={WHOLE} />}
      <PositionCosines manifest={manifest} row={row} key={row.name} />
    </div>
  );
}

/** Says how a model without position vectors represents order. */
function NoPositions({ manifest }: { manifest: Manifest }) {
  const turned = findRotatedQueries(manifest);
  const added = findPositionBias(manifest);
  return (
    <section class="panel stack">
      <h2>Positions</h2>
      {turned ? (
        <p>
          This model adds no vector for the position of a piece. It rotates each pair of numbers of a query and of a key in self-attention by an
          angle that grows with the position, so that their product depends on the distance alone: see {turned.name}.
        </p>
      ) : added ? (
        <p>
          This model adds no vector for the position of a piece. It adds a number to each score in self-attention that depends on the two positions
          alone: see {added.name}.
        </p>
      ) : (
        <p>This model gets no information about order: in self-attention a sentence is a bag of pieces.</p>
      )}
    </section>
  );
}

function PositionCosines({ manifest, row }: { manifest: Manifest; row: TensorRow }) {
  const loaded = useTensor(row.name);
  const [from, setFrom] = useState(0);
  const dark = useDark();
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  const [size = 0, width = 0] = row.shape;
  const dim = row.dims[0] ?? "S";
  const labels = listLabels(manifest, dim);
  const values = computeCosines(loaded.value.values, size, width);
  const axis = { dim, size, labels };
  return (
    <section class="panel stack">
      <h3>How alike two positions are</h3>
      <p class="quiet">The cosine of the angle between their vectors, computed here: 1 for the same direction, 0 for none in common.</p>
      <div class="row side-by-side">
        <Sheet values={values} rows={axis} cols={axis} scale={makeSymmetricScale(1, dark)} label="Cosine of two positions" maxHeight={320} />
        <div class="stack">
          <NumberMenu label="From position" value={from} texts={labels.map((label, i) => `${i} ${quotePiece(label)}`)} onPick={setFrom} />
          <Curve values={values.subarray(from * size, (from + 1) * size)} at={from} />
          <NumberTable
            label="Cosine of this position with later ones"
            columns={["to", "cosine"]}
            rows={[1, 2, 5, 10, 20].filter((distance) => from + distance < size).map((distance) => [
              `${distance} later, ${quotePiece(labels[from + distance])}`,
              <Value shown={formatNumber(values[from * size + from + distance] ?? NaN)} />,
            ])}
          />
        </div>
      </div>
    </section>
  );
}

/** Draws the cosines of one position with all others as a line, with a line at zero. */
function Curve({ values, at }: { values: Float32Array; at: number }) {
  const [width, height] = [360, 140];
  const x = (i: number) => 10 + (i / Math.max(1, values.length - 1)) * (width - 20);
  const y = (value: number) => height / 2 - value * (height / 2 - 12);
  const points = Array.from(values, (value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return (
    <svg class="curve" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Cosines of position ${at} with every position`}>
      <line class="curve-axis" x1={10} x2={width - 10} y1={y(0)} y2={y(0)} />
      <text x={10} y={y(1) - 2}>
        1
      </text>
      <text x={10} y={y(0) - 3}>
        0
      </text>
      <polyline class="curve-line" points={points} />
      {Array.from(values, (value, i) => (
        <circle class={i === at ? "curve-here" : "curve-dot"} cx={x(i)} cy={y(value)} r={i === at ? 5 : 3} />
      ))}
    </svg>
  );
}

/** Computes the cosine of every pair of rows. */
export function computeCosines(vectors: Float32Array, size: number, width: number): Float32Array {
  const norms = Array.from({ length: size }, (_, i) => Math.hypot(...vectors.subarray(i * width, (i + 1) * width)));
  const cosines = new Float32Array(size * size);
  for (let row = 0; row < size; row++) {
    for (let other = 0; other < size; other++) {
      let product = 0;
      for (let d = 0; d < width; d++) product += (vectors[row * width + d] ?? NaN) * (vectors[other * width + d] ?? NaN);
      cosines[row * size + other] = product / ((norms[row] ?? NaN) * (norms[other] ?? NaN) || 1); // 0 for a vector of zeros, which has no direction
    }
  }
  return cosines;
}
