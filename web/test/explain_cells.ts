// Explains every cell of a trace that Python wrote into a directory, walks back from some, and prints the result as JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { explainCell } from "../src/computation";
import type { Operand, TraceNumbers } from "../src/operands";
import type { Manifest } from "../src/types";

const directory = process.argv[2] ?? "";
const manifest = JSON.parse(readFileSync(join(directory, "manifest.json"), "utf-8")) as Manifest;
const valuesByName = new Map<string, Float32Array>();

function readValues(name: string): Float32Array {
  const bytes = () => readFileSync(join(directory, `${name}.bin`));
  const values = valuesByName.get(name) ?? new Float32Array(Uint8Array.from(bytes()).buffer);
  valuesByName.set(name, values);
  return values;
}

const numbers: TraceNumbers = {
  manifest,
  loadTensor: async (name) => {
    const row = manifest.tensors.find((row) => row.name === name);
    if (!row) throw new Error(`no tensor ${name}`);
    return { row, values: readValues(name) };
  },
  loadParameter: async (name, first, end) => {
    const width = manifest.parameters.find((parameter) => parameter.name === name)?.shape[1] ?? 1;
    return { values: readValues(name).subarray(first * width, end * width) };
  },
};

/** Converts a place in row-major order to an index. */
function indexAt(shape: number[], place: number): number[] {
  return shape.reduceRight<number[]>((index, size) => {
    const at = place % size;
    place = (place - at) / size;
    return [at, ...index];
  }, []);
}

/** Follows the first operand again and again, until a number is learned or depends on its position only. */
async function walkBack(name: string, index: number[]): Promise<string> {
  const { computation: computation } = await explainCell(numbers, name, index);
  const operands: Operand[] = [...(computation?.sums ?? []).flatMap((sum) => sum.terms), ...(computation?.steps ?? [])].flatMap(
    (part) => part.operands ?? [],
  );
  const next = operands[0];
  if (!next) return name;
  return next.from === "parameter" ? next.name : walkBack(next.name, next.index);
}

const failed: { name: string; index: number[]; captured: number | null; made: number | undefined }[] = [];
const kinds = new Set<string>();
const ends = new Set<string>();
let cells = 0;
for (const { name, shape, op } of manifest.tensors) {
  const size = shape.reduce((a, b) => a * b, 1);
  kinds.add(op.kind);
  for (let place = 0; place < size; place++) {
    const { captured, computation: computation, comparison } = await explainCell(numbers, name, indexAt(shape, place));
    cells++;
    if (!comparison?.passed) failed.push({ name, index: indexAt(shape, place), captured, made: computation?.value });
  }
  ends.add(await walkBack(name, indexAt(shape, size - 1)));
}
process.stdout.write(JSON.stringify({ cells, failed, kinds: [...kinds], ends: [...ends] }));
