// Computation of one cell from its inputs, for each kind of operation, as sums of terms and further steps.

import { gelu, silu } from "./activations";
import { type Computation, type ComputationStep, labelPosition, type Operand, type TraceNumbers } from "./cell_terms";
import { last, makeSum, readCell, readParameter, sumMagnitudes } from "./operands";
import type { TensorRow } from "./types";
import { computeLinear, computeNorm, computeProduct, computeRmsNorm, computeSoftmax } from "./vector_computation";

/** Computes a cell; everything it needs must have been captured. */
export async function computeCell(numbers: TraceNumbers, row: TensorRow, index: number[]): Promise<Computation> {
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
      return computeScaled(op.divisor, await readCell(numbers, op.inputs[0], index));
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

function computeScaled(divisor: number, x: Operand): Computation {
  const value = x.value / divisor;
  const steps: ComputationStep[] = [
    { text: "before", value: x.value, operands: [x] },
    { text: `divided by ${formatRoot(divisor)}`, value },
  ];
  return listSteps(steps, Math.abs(value));
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
