// Trained numbers as sheets: the matrix that a product multiplies by, and the rows that a table gives to the pieces.
import { makeSymmetricScale } from "./colour";
import type { Ink } from "./format";
import { useApp, useDark, useLoaded } from "./hooks";
import { type MatrixProps, NotCaptured } from "./matrix";
import { Sheet } from "./sheet";
import type { App } from "./state";
import type { Manifest } from "./types";

interface WeightsProps extends Pick<MatrixProps, "layout" | "maxHeight" | "framed"> {
  /** The parameter, and which of its rows are drawn: those that give the numbers of one head, or all of a product. */
  parameter: string;
  first: number;
  rows: number;
  label: string;
  ink?: Ink;
}

/** Tells whether a trace has the numbers of a parameter, and few enough of them for a picture. */
export function canDrawWeights(manifest: Manifest, parameter: string): boolean {
  const row = manifest.parameters.find((candidate) => candidate.name === parameter);
  const [height = 0, width = 0] = row?.shape ?? [];
  return row?.captured === true && height * width > 0 && height * width <= LARGEST;
}

const LARGEST = 1 << 20; // numbers of one picture

/**
 * Draws rows of a parameter as a product reads them: a row for each number that comes in, a column for each that goes
 * out.
 */
export function Weights(props: WeightsProps) {
  const app = useApp();
  const dark = useDark();
  const { parameter, first, rows, label } = props;
  const key = `${app.manifest.value?.id} ${parameter} ${first} ${rows}`;
  const loaded = useLoaded(() => loadTransposed(app, parameter, first, rows), key);
  if (loaded.state === "missing") return <NotCaptured label={label} reason={loaded.message} />;
  if (loaded.state === "loading") return <div class="sheet waiting">{label}</div>;
  const { values, width } = loaded.value;
  return (
    <Sheet
      values={values}
      rows={{ dim: "D", size: width }}
      cols={{ dim: "E", size: rows }}
      scale={makeSymmetricScale(findReach(values), dark)}
      label={label}
      note={`${width} × ${rows}, trained`}
      layout={props.layout}
      maxHeight={props.maxHeight}
      framed={props.framed}
      ink={props.ink}
      subject={parameter}
      locate={([row = -1, col]) => (row >= first && row < first + rows ? { row: col, col: row - first } : null)}
      onOpen={(row, col) => app.goTo({ view: "cell", tensor: parameter, index: [first + col, row] })}
    />
  );
}

/** Loads rows of a parameter, and turns them so that they run down. */
async function loadTransposed(app: App, parameter: string, first: number, rows: number) {
  const { values, row } = await app.loadParameter(parameter, first, first + rows);
  const width = row.shape[1] ?? 1;
  const turned = values.map((_, i) => values[(i % rows) * width + Math.floor(i / rows)] as number);
  return { values: turned, width };
}

function findReach(values: Float32Array): number {
  return values.reduce((reach, value) => Math.max(reach, Math.abs(value)), 0);
}

interface TableRowsProps extends Pick<MatrixProps, "maxHeight" | "framed"> {
  table: string;
  dim: "S" | "T";
  ids: number[];
  labels: string[];
}

/** Draws the rows of a table of vectors that belong to some pieces, each named by its id. */
export function TableRows({ table, dim, ids, labels, maxHeight, framed }: TableRowsProps) {
  const app = useApp();
  const dark = useDark();
  const loaded = useLoaded(
    () => Promise.all(ids.map(async (id) => (await app.loadParameter(table, id, id + 1)).values)),
    `${app.manifest.value?.id} ${table} rows`,
  );
  if (loaded.state === "missing") return <NotCaptured label={table} reason={loaded.message} />;
  if (loaded.state === "loading") return <div class="sheet waiting">{table}</div>;
  const width = loaded.value[0]?.length ?? 0;
  const count = app.manifest.value?.parameters.find((row) => row.name === table)?.shape[0] ?? 0;
  const values = Float32Array.from(loaded.value.flatMap((row) => [...row]));
  return (
    <Sheet
      values={values}
      rows={{ dim, size: ids.length, labels: ids.map((id, i) => `${labels[i] ?? ""} ${id}`) }}
      cols={{ dim: "D", size: width }}
      scale={makeSymmetricScale(findReach(values), dark)}
      label={table}
      note={`the rows of these ids, of ${count}`}
      maxHeight={maxHeight}
      framed={framed}
      subject={table}
      locate={([id, col]) => (id !== undefined && ids.includes(id) ? { row: ids.indexOf(id), col } : null)}
      onOpen={(row, col) => app.goTo({ view: "cell", tensor: table, index: [ids[row] ?? 0, col] })}
    />
  );
}
