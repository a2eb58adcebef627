// Explanation of any cell of any tensor: computed again from its inputs, and compared with the captured value.
import { gelu, silu } from "./activations";
import { listInputs } from "./network";
import {
  type Computation,
  type ComputationStep,
  getLastName,
  getTensorRow,
  labelPosition,
  last,
  makeSum,
  type Operand,
  readCell,
  readCells,
  readColumn,
  readMergedHeads,
  readNumber,
  readParameter,
  readWeights,
  type Sum,
  sumMagnitudes,
  type Term,
  type TraceNumbers,
} from "./operands";
import type { Manifest, Op, TensorRow } from "./types";

export interface Explanation {
  row: TensorRow;
  index: number[];
  /** Null where the tensor was not captured. */
  captured: number | null;
  /** Inputs and parameters that were not captured: then nothing can be recomputed. */
  missing: string[];
  computation: Computation | null;
  comparison: Comparison | null;
}

interface Comparison {
  passed: boolean;
  difference: number;
  limit: number;
}

/** Explains a cell; throws an Error for a tensor or an index that does not exist. */
export async function explainCell(numbers: TraceNumbers, name: string, index: number[]): Promise<Explanation> {
  const row = getTensorRow(numbers.manifest, name);
  if (index.length !== row.shape.length || index.some((position, axis) => !(position >= 0 && position < (row.shape[axis] ?? 0))))
    throw new Error(`${name} has the shape ${row.shape.join(" x ")}; there is no cell ${index.join(", ")}`);
  const captured = row.captured ? readNumber((await numbers.loadTensor(name)).values, row.shape, index) : null;
  const missing = listUncaptured(numbers.manifest, row.op);
  const computation = missing.length ? null : await computeCell(numbers, row, index);
  const isFloat16 = numbers.manifest.run.capture === "float16";
  return {
    row,
    index,
    captured,
    missing,
    computation,
    comparison: computation && captured !== null ? compareNumbers(captured, computation.value, computation.magnitude, isFloat16) : null,
  };
}

/**
 * Compares a captured number with the recomputed one: they agree within 1e-4 of the number or, where large terms cancel, within
 * 1e-6 of their sizes. A number stored as float16 was rounded by up to 2^-11, two to a product, and below 6e-8 to 0.
 */
export function compareNumbers(captured: number, recomputed: number, size: number, isFloat16: boolean): Comparison {
  const limit = Math.max(1e-4 * Math.abs(captured), isFloat16 ? size / 1024 + 6e-8 : 1e-6 * size);
  if (Object.is(captured, recomputed) || captured === recomputed) return { passed: true, difference: 0, limit };
  const difference = Math.abs(captured - recomputed);
  return { passed: difference <= limit, difference, limit };
}

/** Lists the parameters that an operation reads. */
export function listParameters(op: Op): string[] {
  if (op.kind === "lookup" || op.kind === "row") return [op.table];
  if (op.kind === "norm" || op.kind === "linear") return op.bias === null ? [op.weight] : [op.weight, op.bias];
  return [];
}

function listUncaptured(manifest: Manifest, op: Op): string[] {
  const captured = new Set([...manifest.tensors, ...manifest.parameters].filter((r) => r.captured).map((r) => r.name));
  return [...listInputs(op), ...listParameters(op)].filter((name) => !captured.has(name));
}

/** Computes a cell; everything it needs must have been captured. */
async function computeCell(numbers: TraceNumbers, row: TensorRow, index: number[]): Promise<Computation> {
  const { op } = row;
  switch (op.kind) {
    case "lookup": {
      const { source, inputs } = numbers.manifest;
      const id = (op.side === "source" ? source : inputs).ids[index[0] ?? 0] ?? 0;
      return computeLookup(op.scale, await readParameter(numbers, op.table, [id, last(index)]));
    }
    case "row":
      return copyNumber("learned for this position", await readParameter(numbers, op.table, index));
    case "sinusoid":
      return computeSinusoid(index[0] ?? 0, last(index), last(row.shape));
    case "add":
      return computeSum(await Promise.all(op.inputs.map((name) => readCell(numbers, name, index))));
    case "norm":
      return op.bias === null ? computeRmsNorm(numbers, op, index) : computeNorm(numbers, op, op.bias, index);
    case "linear":
      return computeLinear(numbers, op, row, index);
    case "dot":
    case "mix":
      return computeProduct(numbers, op, index);
    case "scale":
      return computeScaled(op.divisor, await Promise.all(op.inputs.map((name) => readCell(numbers, name, index))));
    case "present":
      return makeConstant("1, because there is a piece here: a single sentence has no padding", 1);
    case "causal":
      return computeCausal(numbers, row, index);
    case "softmax":
      return computeSoftmax(numbers, op, row, index);
    case "activation": {
      const x = await readCell(numbers, op.inputs[0], index);
      if (op.function !== "swiglu") return ACTIVATIONS[op.function](x);
      const valueIndex = [...index.slice(0, -1), last(index) + last(row.shape)];
      return computeSwiglu(x, await readCell(numbers, op.inputs[0], valueIndex));
    }
    case "same":
      return copyNumber("the same number", await readCell(numbers, op.inputs[0], index));
    case "given":
      return copyNumber("given by a part of the model that the page has no formula of", await readCell(numbers, row.name, index));
  }
}

function computeLookup(scale: number, entry: Operand): Computation {
  const value = scale * entry.value;
  const steps: ComputationStep[] = [
    { text: `row ${entry.index[0]} of the table belongs to this piece`, value: entry.value, operands: [entry] },
    { text: `times ${formatRoot(scale)}`, value },
  ];
  return listSteps(steps, Math.abs(value));
}

function copyNumber(text: string, operand: Operand): Computation {
  return listSteps([{ text, value: operand.value, operands: [operand] }], Math.abs(operand.value));
}

function makeConstant(text: string, value: number): Computation {
  return listSteps([{ text, value }], 1);
}

function computeSinusoid(position: number, d: number, width: number): Computation {
  const pair = d - (d % 2);
  const angle = position / 10000 ** (pair / width);
  const steps: ComputationStep[] = [
    { text: `angle: position ${position} / 10000^(${pair}/${width})`, value: angle },
    { text: d % 2 ? "cosine of the angle" : "sine of the angle", value: d % 2 ? Math.cos(angle) : Math.sin(angle) },
  ];
  return listSteps(steps, 1);
}

function computeSum(operands: Operand[]): Computation {
  const terms = operands.map((operand) => ({ label: operand.name, operands: [operand], value: operand.value }));
  const sum = makeSum("the inputs, added number by number", ["input"], "input", terms);
  return { sums: [sum], steps: [], value: sum.value, magnitude: sumMagnitudes(terms) };
}

function computeScaled(divisor: number, [x, addend]: Operand[]): Computation {
  if (!x) throw new Error("nothing to scale");
  const scaled = x.value / divisor;
  const steps: ComputationStep[] = [
    { text: "before", value: x.value, operands: [x] },
    { text: `divided by ${formatRoot(divisor)}`, value: scaled },
  ];
  if (addend) steps.push({ text: "plus", value: scaled + addend.value, operands: [addend] });
  return listSteps(steps, Math.abs(scaled) + Math.abs(addend?.value ?? 0));
}

function computeCausal(numbers: TraceNumbers, row: TensorRow, index: number[]): Computation {
  const [query = 0, key = 0] = index.slice(-2);
  const [queryDim = "", keyDim = ""] = row.dims.slice(-2);
  const nameKey = (dim: string, position: number) => `"${labelPosition(numbers.manifest, dim, position)}" (position ${position})`;
  const compareKey = (where: string) => `${nameKey(keyDim, key)} comes ${where} ${nameKey(queryDim, query)}`;
  return key <= query ? makeConstant(`1: ${compareKey("no later than")}`, 1) : makeConstant(`0: ${compareKey("after")}`, 0);
}

const ACTIVATIONS: Record<"relu" | "gelu" | "silu", (x: Operand) => Computation> = {
  relu: (x) => applyActivation(x, "the larger of 0 and this number", Math.max(0, x.value)),
  gelu: (x) => applyActivation(x, "times Φ of itself, where Φ is the normal distribution function", gelu(x.value)),
  silu: (x) => applyActivation(x, "times sigmoid of itself", silu(x.value)),
};

function applyActivation(x: Operand, text: string, value: number): Computation {
  const steps: ComputationStep[] = [
    { text: "before", value: x.value, operands: [x] },
    { text, value },
  ];
  return listSteps(steps, Math.abs(x.value));
}

function computeSwiglu(gate: Operand, x: Operand): Computation {
  const opening = silu(gate.value);
  const steps: ComputationStep[] = [
    { text: "gate", value: gate.value, operands: [gate] },
    { text: "gate times sigmoid of itself", value: opening },
    { text: "value", value: x.value, operands: [x] },
    { text: "both multiplied", value: opening * x.value },
  ];
  return listSteps(steps, 2 * Math.abs(gate.value * x.value));
}

/** Makes the computation of a cell that is no sum: the last step gives its value. */
function listSteps(steps: ComputationStep[], magnitude: number): Computation {
  return { sums: [], steps, value: last(steps).value, magnitude };
}

/** Formats a number as the square root of an integer where it is one: 5.656854 is √32. */
export function formatRoot(value: number): string {
  const square = Math.round(value * value);
  const isRoot = !Number.isInteger(value) && Math.abs(Math.sqrt(square) - value) < 1e-6 * value;
  return isRoot ? `√${square}` : String(value);
}

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

async function computeNorm(numbers: TraceNumbers, op: OpOf<"norm">, biasName: string, index: number[]): Promise<Computation> {
  const xs = await readCells(numbers, op.inputs[0], index);
  const ownCell = await readCell(numbers, op.inputs[0], index);
  const weight = await readParameter(numbers, op.weight, [last(index)]);
  const bias = await readParameter(numbers, biasName, [last(index)]);
  const makeTerms = (share: (x: number) => number): Term[] =>
    xs.map((x, i) => ({ label: String(i), operands: [x], value: share(x.value) / xs.length, own: i === last(index) }));
  const nameTerm = (numerator: string) => [["x"], `${numerator} / ${xs.length}`] as const;
  const mean = makeSum(`mean of the ${xs.length} numbers of the vector`, ...nameTerm("x"), makeTerms((x) => x));
  const squares = makeTerms((x) => (x - mean.value) ** 2);
  const variance = makeSum("variance: the mean of the squared distances", ...nameTerm("(x − mean)²"), squares);
  const deviation = Math.sqrt(variance.value + op.eps);
  const centred = (ownCell.value - mean.value) / deviation;
  const value = centred * weight.value + bias.value;
  const steps: ComputationStep[] = [
    { text: "before", value: ownCell.value, operands: [ownCell] },
    { text: "mean of the vector", value: mean.value },
    { text: `standard deviation: √(variance + ${op.eps})`, value: deviation },
    { text: "(before − mean) / standard deviation", value: centred },
    { text: "times the weight of this dimension", value: centred * weight.value, operands: [weight] },
    { text: "plus the bias of this dimension", value, operands: [bias] },
  ];
  const spread = (Math.abs(ownCell.value) + Math.abs(mean.value)) / deviation;
  return { sums: [mean, variance], steps, value, magnitude: 2 * spread * Math.abs(weight.value) + Math.abs(bias.value) };
}

async function computeRmsNorm(numbers: TraceNumbers, op: OpOf<"norm">, index: number[]): Promise<Computation> {
  const xs = await readCells(numbers, op.inputs[0], index);
  const ownCell = await readCell(numbers, op.inputs[0], index);
  const weight = await readParameter(numbers, op.weight, [last(index)]);
  const terms = xs.map((x, i): Term => {
    return { label: String(i), operands: [x], value: x.value ** 2 / xs.length, own: i === last(index) };
  });
  const square = makeSum("mean square of the vector", ["x"], `x² / ${xs.length}`, terms);
  const root = Math.sqrt(square.value + op.eps);
  const value = (ownCell.value / root) * weight.value;
  const steps: ComputationStep[] = [
    { text: "before", value: ownCell.value, operands: [ownCell] },
    { text: `root of the mean square: √(mean + ${op.eps})`, value: root },
    { text: "before / root of the mean square", value: ownCell.value / root },
    { text: "times the weight of this dimension", value, operands: [weight] },
  ];
  return { sums: [square], steps, value, magnitude: 2 * Math.abs(value) };
}

async function computeLinear(numbers: TraceNumbers, op: OpOf<"linear">, row: TensorRow, index: number[]): Promise<Computation> {
  const [width, e] = [last(row.shape), last(index)];
  const position = index[index.length - 2] ?? 0;
  const unit = op.first + (op.split ? (index[0] ?? 0) * width + e : e);
  const x = await (op.merged ? readMergedHeads(numbers, op.inputs[0], position) : readCells(numbers, op.inputs[0], [position, 0]));
  if (!op.turned) {
    const sum = await sumWeighted(numbers, op, x, unit, "each number of the input times its weight");
    return { sums: [sum], steps: [], value: sum.value, magnitude: sumMagnitudes(sum.terms) };
  }
  const odd = e % 2;
  const first = await sumWeighted(numbers, op, x, unit - odd, "first of the pair, before the rotation");
  const second = await sumWeighted(numbers, op, x, unit - odd + 1, "second of the pair, before the rotation");
  const angle = position / 10000 ** ((e - odd) / width);
  const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
  const value = odd ? first.value * sine + second.value * cosine : first.value * cosine - second.value * sine;
  const steps: ComputationStep[] = [
    { text: `angle: position ${position} / 10000^(${e - odd}/${width})`, value: angle },
    { text: odd ? "first × sine + second × cosine" : "first × cosine − second × sine", value },
  ];
  return { sums: [first, second], steps, value, magnitude: sumMagnitudes([...first.terms, ...second.terms]) };
}

async function sumWeighted(numbers: TraceNumbers, op: OpOf<"linear">, x: Operand[], unit: number, caption: string): Promise<Sum> {
  const row = await readWeights(numbers, op.weight, unit);
  const terms: Term[] = x.map((operand, i) => {
    const weight = row[i] as Operand;
    return { label: String(i), operands: [operand, weight], value: operand.value * weight.value };
  });
  if (op.bias !== null) {
    const bias = await readParameter(numbers, op.bias, [unit]);
    terms.push({ label: "bias", operands: [bias], value: bias.value });
  }
  return makeSum(caption, [getLastName(op.inputs[0]), "weight"], "product", terms);
}

/** Sums products over the width of a head for a dot product, over the keys for a mixture of values. */
async function computeProduct(numbers: TraceNumbers, op: OpOf<"dot"> | OpOf<"mix">, index: number[]): Promise<Computation> {
  const [h = 0, q = 0, lastIndex = 0] = index;
  const [left, right] = op.inputs;
  const leftCells = await readCells(numbers, left, [h, q, 0]);
  const rightCells = await (op.kind === "dot" ? readCells(numbers, right, [h, lastIndex, 0]) : readColumn(numbers, right, h, lastIndex));
  const dim = last(getTensorRow(numbers.manifest, left).dims);
  const terms = leftCells.map((left, i): Term => {
    const right = rightCells[i] as Operand;
    return { label: labelPosition(numbers.manifest, dim, i), operands: [left, right], value: left.value * right.value };
  });
  const caption = op.kind === "dot" ? "the two vectors, multiplied number by number" : "the value of each key times its weight";
  const sum = makeSum(caption, [getLastName(left), getLastName(right)], "product", terms);
  return { sums: [sum], steps: [], value: sum.value, magnitude: sumMagnitudes(terms) };
}

async function computeSoftmax(numbers: TraceNumbers, op: OpOf<"softmax">, row: TensorRow, index: number[]): Promise<Computation> {
  const scores = await readCells(numbers, op.inputs[0], index);
  const allowed = await Promise.all(scores.map((score) => readCell(numbers, op.inputs[1], score.index)));
  const readable = scores.filter((_, k) => allowed[k]?.value !== 0).map((score) => score.value);
  const largest = readable.reduce((most, value) => (value > most || Number.isNaN(value) ? value : most), Number.NEGATIVE_INFINITY);
  const terms = scores.map((score, k): Term => {
    const mask = allowed[k] as Operand;
    const masked = mask.value === 0;
    const value = masked ? 0 : Math.exp(score.value - largest);
    const label = labelPosition(numbers.manifest, last(row.dims), k);
    return { label, operands: [score, mask], value, masked, own: k === last(index) };
  });
  const caption = "e to the power of (score − largest), over the keys that may be read";
  const sum = makeSum(caption, ["score", "may be read"], "e^(score − largest)", terms);
  const ownTerm = terms[last(index)] as Term;
  const [score, mask] = ownTerm.operands as [Operand, Operand];
  if (ownTerm.masked) {
    const step: ComputationStep = { text: "this key may not be read: exactly 0", value: 0, operands: [mask] };
    return { sums: [sum], steps: [step], value: 0, magnitude: 0 };
  }
  const value = ownTerm.value / sum.value;
  const steps: ComputationStep[] = [
    { text: "score of this key", value: score.value, operands: [score] },
    { text: "largest score of the row; subtracting it from all scores changes nothing", value: largest },
    { text: "e^(score − largest)", value: ownTerm.value },
    { text: "divided by the sum over the row", value },
  ];
  // An error of size e in a score changes the weight by about e times the weight.
  const magnitude = value * (1 + 2 * readable.reduce((largestSize, score) => Math.max(largestSize, Math.abs(score)), 0));
  return { sums: [sum], steps, value, magnitude };
}
