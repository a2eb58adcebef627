// For each kind of operation: how one cell follows from its inputs, as sums of terms and what is done besides.

import { gelu, silu } from "./activations";
import { labelOf, type Line, type Made, type Numbers, type Operand } from "./cell_terms";
import { cell, last, parameter, sizes, total } from "./operands";
import type { TensorRow } from "./types";
import { linear, norm, product, rmsNorm, softmax } from "./vector_computation";

/** How a cell is made. Everything it needs must have been captured. */
export async function made(numbers: Numbers, row: TensorRow, index: number[]): Promise<Made> {
  const { op } = row;
  switch (op.kind) {
    case "lookup": {
      const { source, inputs } = numbers.manifest;
      const id = (op.side === "source" ? source : inputs).ids[index[0] ?? 0] ?? 0;
      return lookup(op.scale, await parameter(numbers, op.table, [id, last(index)]));
    }
    case "row":
      return copied("as it was learned for this position", await parameter(numbers, op.table, index));
    case "sinusoid":
      return sinusoid(index[0] ?? 0, last(index), last(row.shape));
    case "add":
      return added(await Promise.all(op.inputs.map((name) => cell(numbers, name, index))));
    case "norm":
      return op.bias === null ? rmsNorm(numbers, op, index) : norm(numbers, op, op.bias, index);
    case "linear":
      return linear(numbers, op, row, index);
    case "dot":
    case "mix":
      return product(numbers, op, index);
    case "scale":
      return scaled(op.divisor, await cell(numbers, op.inputs[0], index));
    case "present":
      return given("1, for a piece stands here: a single sentence has no padding", 1);
    case "causal":
      return causal(numbers, row, index);
    case "softmax":
      return softmax(numbers, op, row, index);
    case "activation": {
      const x = await cell(numbers, op.inputs[0], index);
      if (op.function !== "swiglu") return ACTIVATIONS[op.function](x);
      const beside = [...index.slice(0, -1), last(index) + last(row.shape)];
      return swiglu(x, await cell(numbers, op.inputs[0], beside));
    }
    case "same":
      return copied("the same number", await cell(numbers, op.inputs[0], index));
  }
}

function lookup(scale: number, entry: Operand): Made {
  const value = scale * entry.value;
  const lines: Line[] = [
    { says: `row ${entry.index[0]} of the table belongs to this piece`, value: entry.value, operands: [entry] },
    { says: `times ${asRoot(scale)}`, value },
  ];
  return inLines(lines, Math.abs(value));
}

function copied(says: string, operand: Operand): Made {
  return inLines([{ says, value: operand.value, operands: [operand] }], Math.abs(operand.value));
}

function given(says: string, value: number): Made {
  return inLines([{ says, value }], 1);
}

function sinusoid(position: number, d: number, width: number): Made {
  const pair = d - (d % 2);
  const angle = position / 10000 ** (pair / width);
  const lines: Line[] = [
    { says: `angle: position ${position} / 10000^(${pair}/${width})`, value: angle },
    { says: d % 2 ? "cosine of the angle" : "sine of the angle", value: d % 2 ? Math.cos(angle) : Math.sin(angle) },
  ];
  return inLines(lines, 1);
}

function added(operands: Operand[]): Made {
  const terms = operands.map((operand) => ({ label: operand.name, operands: [operand], value: operand.value }));
  const sum = total("the inputs, number by number", ["input"], "input", terms);
  return { sums: [sum], lines: [], value: sum.value, size: sizes(terms) };
}

function scaled(divisor: number, x: Operand): Made {
  const value = x.value / divisor;
  const lines: Line[] = [
    { says: "before", value: x.value, operands: [x] },
    { says: `divided by ${asRoot(divisor)}`, value },
  ];
  return inLines(lines, Math.abs(value));
}

function causal(numbers: Numbers, row: TensorRow, index: number[]): Made {
  const [query = 0, key = 0] = index.slice(-2);
  const [at = "", of = ""] = row.dims.slice(-2);
  const name = (dim: string, place: number) => `"${labelOf(numbers.manifest, dim, place)}" (position ${place})`;
  const says = (where: string) => `${name(of, key)} stands ${where} ${name(at, query)}`;
  return key <= query ? given(`1: ${says("no later than")}`, 1) : given(`0: ${says("after")}`, 0);
}

const ACTIVATIONS: Record<"relu" | "gelu" | "silu", (x: Operand) => Made> = {
  relu: (x) => through(x, "the larger of 0 and this", Math.max(0, x.value)),
  gelu: (x) => through(x, "times Φ of itself, Φ the normal distribution function", gelu(x.value)),
  silu: (x) => through(x, "times sigmoid of itself", silu(x.value)),
};

function through(x: Operand, says: string, value: number): Made {
  const lines: Line[] = [
    { says: "before", value: x.value, operands: [x] },
    { says, value },
  ];
  return inLines(lines, Math.abs(x.value));
}

function swiglu(gate: Operand, x: Operand): Made {
  const open = silu(gate.value);
  const lines: Line[] = [
    { says: "gate", value: gate.value, operands: [gate] },
    { says: "gate times sigmoid of itself", value: open },
    { says: "value", value: x.value, operands: [x] },
    { says: "both multiplied", value: open * x.value },
  ];
  return inLines(lines, 2 * Math.abs(gate.value * x.value));
}

/** A cell that is no sum: the last line is its value. */
function inLines(lines: Line[], size: number): Made {
  return { sums: [], lines, value: last(lines).value, size };
}

/** A number, as the root of a whole one where it is one: 5.656854 is √32. */
export function asRoot(value: number): string {
  const square = Math.round(value * value);
  const isRoot = !Number.isInteger(value) && Math.abs(Math.sqrt(square) - value) < 1e-6 * value;
  return isRoot ? `√${square}` : String(value);
}
