// The operations that run over a whole vector: norm, linear map, product, softmax.

import { labelOf, type Line, type Made, type Numbers, type Operand, rowOf, type Sum, type Term } from "./cell_terms";
import { cell, cells, column, last, lastName, merged, parameter, sizes, total, weights } from "./operands";
import type { Op, TensorRow } from "./types";

type Of<K extends Op["kind"]> = Extract<Op, { kind: K }>;

export async function norm(numbers: Numbers, op: Of<"norm">, shift: string, index: number[]): Promise<Made> {
  const xs = await cells(numbers, op.inputs[0], index);
  const own = await cell(numbers, op.inputs[0], index);
  const weight = await parameter(numbers, op.weight, [last(index)]);
  const bias = await parameter(numbers, shift, [last(index)]);
  const over = (share: (x: number) => number): Term[] =>
    xs.map((x, i) => ({ label: String(i), operands: [x], value: share(x.value) / xs.length, own: i === last(index) }));
  const each = (what: string) => [["x"], `${what} / ${xs.length}`] as const;
  const mean = total(`mean of the ${xs.length} numbers of the vector`, ...each("x"), over((x) => x));
  const squares = over((x) => (x - mean.value) ** 2);
  const variance = total("variance: the mean of the squared distances", ...each("(x − mean)²"), squares);
  const deviation = Math.sqrt(variance.value + op.eps);
  const centred = (own.value - mean.value) / deviation;
  const value = centred * weight.value + bias.value;
  const lines: Line[] = [
    { says: "before", value: own.value, operands: [own] },
    { says: "mean of the vector", value: mean.value },
    { says: `standard deviation: √(variance + ${op.eps})`, value: deviation },
    { says: "(before − mean) / standard deviation", value: centred },
    { says: "times the weight of this dimension", value: centred * weight.value, operands: [weight] },
    { says: "plus the bias of this dimension", value, operands: [bias] },
  ];
  const spread = (Math.abs(own.value) + Math.abs(mean.value)) / deviation;
  return { sums: [mean, variance], lines, value, size: 2 * spread * Math.abs(weight.value) + Math.abs(bias.value) };
}

export async function rmsNorm(numbers: Numbers, op: Of<"norm">, index: number[]): Promise<Made> {
  const xs = await cells(numbers, op.inputs[0], index);
  const own = await cell(numbers, op.inputs[0], index);
  const weight = await parameter(numbers, op.weight, [last(index)]);
  const terms = xs.map((x, i): Term => {
    return { label: String(i), operands: [x], value: x.value ** 2 / xs.length, own: i === last(index) };
  });
  const square = total("mean square of the vector", ["x"], `x² / ${xs.length}`, terms);
  const root = Math.sqrt(square.value + op.eps);
  const value = (own.value / root) * weight.value;
  const lines: Line[] = [
    { says: "before", value: own.value, operands: [own] },
    { says: `root of the mean square: √(mean + ${op.eps})`, value: root },
    { says: "before / root of the mean square", value: own.value / root },
    { says: "times the weight of this dimension", value, operands: [weight] },
  ];
  return { sums: [square], lines, value, size: 2 * Math.abs(value) };
}

export async function linear(numbers: Numbers, op: Of<"linear">, row: TensorRow, index: number[]): Promise<Made> {
  const [width, e] = [last(row.shape), last(index)];
  const position = index[index.length - 2] ?? 0;
  const unit = op.first + (op.split ? (index[0] ?? 0) * width + e : e);
  const x = await (op.merged ? merged(numbers, op.inputs[0], position) : cells(numbers, op.inputs[0], [position, 0]));
  if (!op.turned) {
    const sum = await weighted(numbers, op, x, unit, "each number of the input times its weight");
    return { sums: [sum], lines: [], value: sum.value, size: sizes(sum.terms) };
  }
  const odd = e % 2;
  const first = await weighted(numbers, op, x, unit - odd, "first of the pair, before it is turned");
  const second = await weighted(numbers, op, x, unit - odd + 1, "second of the pair, before it is turned");
  const angle = position / 10000 ** ((e - odd) / width);
  const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
  const value = odd ? first.value * sine + second.value * cosine : first.value * cosine - second.value * sine;
  const lines: Line[] = [
    { says: `angle: position ${position} / 10000^(${e - odd}/${width})`, value: angle },
    { says: odd ? "first × sine + second × cosine" : "first × cosine − second × sine", value },
  ];
  return { sums: [first, second], lines, value, size: sizes([...first.terms, ...second.terms]) };
}

async function weighted(numbers: Numbers, op: Of<"linear">, x: Operand[], unit: number, says: string): Promise<Sum> {
  const row = await weights(numbers, op.weight, unit);
  const terms: Term[] = x.map((operand, i) => {
    const weight = row[i] as Operand;
    return { label: String(i), operands: [operand, weight], value: operand.value * weight.value };
  });
  if (op.bias !== null) {
    const bias = await parameter(numbers, op.bias, [unit]);
    terms.push({ label: "bias", operands: [bias], value: bias.value });
  }
  return total(says, [lastName(op.inputs[0]), "weight"], "product", terms);
}

/** Over the width of a head for a dot product, over the keys for a mixture of values. */
export async function product(numbers: Numbers, op: Of<"dot"> | Of<"mix">, index: number[]): Promise<Made> {
  const [h = 0, q = 0, other = 0] = index;
  const [left, right] = op.inputs;
  const as = await cells(numbers, left, [h, q, 0]);
  const bs = await (op.kind === "dot" ? cells(numbers, right, [h, other, 0]) : column(numbers, right, h, other));
  const dim = last(rowOf(numbers.manifest, left).dims);
  const terms = as.map((a, i): Term => {
    const b = bs[i] as Operand;
    return { label: labelOf(numbers.manifest, dim, i), operands: [a, b], value: a.value * b.value };
  });
  const says = op.kind === "dot" ? "the two vectors, number by number" : "what each key gives, by how much it is read";
  const sum = total(says, [lastName(left), lastName(right)], "product", terms);
  return { sums: [sum], lines: [], value: sum.value, size: sizes(terms) };
}

export async function softmax(numbers: Numbers, op: Of<"softmax">, row: TensorRow, index: number[]): Promise<Made> {
  const scores = await cells(numbers, op.inputs[0], index);
  const allowed = await Promise.all(scores.map((score) => cell(numbers, op.inputs[1], score.index)));
  const open = scores.filter((_, k) => allowed[k]?.value !== 0).map((score) => score.value);
  const largest = open.reduce((a, b) => (b > a || Number.isNaN(b) ? b : a), Number.NEGATIVE_INFINITY);
  const terms = scores.map((score, k): Term => {
    const mask = allowed[k] as Operand;
    const masked = mask.value === 0;
    const value = masked ? 0 : Math.exp(score.value - largest);
    const label = labelOf(numbers.manifest, last(row.dims), k);
    return { label, operands: [score, mask], value, masked, own: k === last(index) };
  });
  const says = "e to the power of (score − largest), over the keys that may be read";
  const sum = total(says, ["score", "may be read"], "e^(score − largest)", terms);
  const own = terms[last(index)] as Term;
  const [score, mask] = own.operands as [Operand, Operand];
  if (own.masked) {
    const line: Line = { says: "this key may not be read: exactly 0", value: 0, operands: [mask] };
    return { sums: [sum], lines: [line], value: 0, size: 0 };
  }
  const value = own.value / sum.value;
  const lines: Line[] = [
    { says: "score of this key", value: score.value, operands: [score] },
    { says: "largest score of the row: taken off everywhere it changes nothing", value: largest },
    { says: "e^(score − largest)", value: own.value },
    { says: "divided by the sum over the row", value },
  ];
  // An error in a score changes the weight by that share of the weight.
  const size = value * (1 + 2 * open.reduce((most, one) => Math.max(most, Math.abs(one)), 0));
  return { sums: [sum], lines, value, size };
}
