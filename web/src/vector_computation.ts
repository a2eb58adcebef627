// Cells of operations that read a whole vector: norm, linear map, product, softmax.

import {
  type Computation,
  type ComputationStep,
  getTensorRow,
  labelPosition,
  type Operand,
  type Sum,
  type Term,
  type TraceNumbers,
} from "./cell_terms";
import {
  getLastName,
  last,
  makeSum,
  readCell,
  readCells,
  readColumn,
  readMergedHeads,
  readParameter,
  readWeights,
  sumMagnitudes,
} from "./operands";
import type { Op, TensorRow } from "./types";

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

export async function computeNorm(numbers: TraceNumbers, op: OpOf<"norm">, biasName: string, index: number[]): Promise<Computation> {
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

export async function computeRmsNorm(numbers: TraceNumbers, op: OpOf<"norm">, index: number[]): Promise<Computation> {
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

export async function computeLinear(numbers: TraceNumbers, op: OpOf<"linear">, row: TensorRow, index: number[]): Promise<Computation> {
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
export async function computeProduct(numbers: TraceNumbers, op: OpOf<"dot"> | OpOf<"mix">, index: number[]): Promise<Computation> {
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

export async function computeSoftmax(numbers: TraceNumbers, op: OpOf<"softmax">, row: TensorRow, index: number[]): Promise<Computation> {
  const scores = await readCells(numbers, op.inputs[0], index);
  const allowed = await Promise.all(scores.map((score) => readCell(numbers, op.inputs[1], score.index)));
  const readable = scores.filter((_, k) => allowed[k]?.value !== 0).map((score) => score.value);
  const largest = readable.reduce((a, b) => (b > a || Number.isNaN(b) ? b : a), Number.NEGATIVE_INFINITY);
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
