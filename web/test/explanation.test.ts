// Every kind of operation is explained by numbers that can be worked out by hand, and a wrong number is found out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { erf } from "../src/activations";
import { compareNumbers, explainCell, type Explanation } from "../src/computation";
import type { TraceNumbers } from "../src/operands";
import type { Manifest, Op, TensorRow } from "../src/types";

/** Makes a trace of these tensors alone: name, dimensions, shape, numbers, operation. */
function makeTrace(
  tensors: Record<string, { dims?: string[]; shape: number[]; values: number[] | null; op?: Op }>,
  parameters: Record<string, { shape: number[]; values: number[] | null }> = {},
  capture = "float32",
): TraceNumbers {
  const rows = Object.entries(tensors).map(([name, { dims, shape, values, op }]): TensorRow => {
    const operation: Op = op ?? { kind: "present" };
    const letters = dims ?? ["H", "T", "S"].slice(-shape.length);
    return { name, dims: letters, shape, means: "", of: "", op: operation, captured: values !== null, dtype: "float32" };
  });
  const weights = Object.entries(parameters).map(([name, { shape, values }]) => {
    return { name, shape, captured: values !== null };
  });
  const manifest = {
    run: { capture },
    source: { ids: [2, 0] },
    inputs: { ids: [1, 1, 2] },
    axes: {
      S: { means: "", size: 2, labels: ["The", "ball"] },
      T: { means: "", size: 3, labels: ["<s>", "La", "bola"] },
    },
    tensors: rows,
    parameters: weights,
  } as unknown as Manifest;
  return {
    manifest,
    loadTensor: async (name) => ({
      row: rows.find((row) => row.name === name) as TensorRow,
      values: Float32Array.from(tensors[name]?.values ?? assert.fail(`${name} was asked for`)),
    }),
    loadParameter: async (name, first, end) => {
      const { shape, values } = parameters[name] ?? assert.fail(`${name} was asked for`);
      const width = shape[1] ?? 1;
      const all = Float32Array.from(values ?? assert.fail(`${name} was asked for`));
      return { values: all.subarray(first * width, end * width) };
    },
  };
}

/** Asserts that a cell is recomputed as captured (check 9). */
function assertRecomputed(explanation: Explanation, value: number): void {
  assert.equal(explanation.comparison?.passed, true, `captured ${explanation.captured}, recomputed ${explanation.computation?.value}`);
  assert.ok(Math.abs((explanation.computation?.value ?? Number.NaN) - value) <= 1e-6 * Math.max(1, Math.abs(value)));
}

test("an embedding is the row of its piece times the scale", async () => {
  const op: Op = { kind: "lookup", table: "table", scale: 2, side: "target" };
  const table = { shape: [3, 2], values: [1, 2, 3, 4, 5, 6] };
  const numbers = makeTrace({ x: { shape: [3, 2], values: [6, 8, 6, 8, 10, 12], op } }, { table });
  const explanation = await explainCell(numbers, "x", [2, 1]);
  assertRecomputed(explanation, 12); // target piece 2, row [5, 6]
  assert.deepEqual(explanation.computation?.steps[0]?.operands?.[0], { from: "parameter", name: "table", index: [2, 1], value: 6 });
  const source = makeTrace({ x: { shape: [2, 2], values: [10, 12, 2, 4], op: { ...op, side: "source" } } }, { table });
  assertRecomputed(await explainCell(source, "x", [1, 0]), 2); // source piece 0
});

test("a position is a sine on even dimensions and a cosine on odd ones", async () => {
  const values = [0, 1, 0, 1, Math.sin(1), Math.cos(1), Math.sin(0.01), Math.cos(0.01)];
  const numbers = makeTrace({ x: { shape: [2, 4], values, op: { kind: "sinusoid" } } });
  for (const [d, value] of values.slice(4).entries()) assertRecomputed(await explainCell(numbers, "x", [1, d]), value);
});

test("a learned position is a row of its table", async () => {
  const x = { shape: [2, 2], values: [1, 2, 3, 4], op: { kind: "row", table: "table" } as Op };
  const numbers = makeTrace({ x }, { table: { shape: [3, 2], values: [1, 2, 3, 4, 0, 0] } });
  assertRecomputed(await explainCell(numbers, "x", [1, 0]), 3);
});

test("a sum takes what has no leading dimension as the same for all", async () => {
  const numbers = makeTrace({
    a: { shape: [1, 2, 2], values: [1, 2, 3, 4] },
    b: { shape: [2, 2], values: [10, 20, 30, 40] },
    x: { shape: [1, 2, 2], values: [11, 22, 33, 44], op: { kind: "add", inputs: ["a", "b"] } },
  });
  const explanation = await explainCell(numbers, "x", [0, 1, 0]);
  assertRecomputed(explanation, 33);
  assert.deepEqual(explanation.computation?.sums[0]?.terms.map((term) => term.operands[0]?.index), [[0, 1, 0], [1, 0]]);
});

test("a norm takes off the mean, divides by the deviation, and rescales", async () => {
  // mean 2, variance (1 + 1 + 9 + 9) / 4 = 5, with eps 4: deviation 3
  const op: Op = { kind: "norm", inputs: ["a"], weight: "w", bias: "b", eps: 4 };
  const numbers = makeTrace(
    { a: { shape: [1, 4], values: [1, 3, -1, 5] }, x: { shape: [1, 4], values: [-1 / 3, 1 / 3, -1, 13], op } },
    { w: { shape: [4], values: [1, 1, 1, 12] }, b: { shape: [4], values: [0, 0, 0, 1] } },
  );
  const explanation = await explainCell(numbers, "x", [0, 3]);
  assertRecomputed(explanation, 13); // (5 - 2) / 3 * 12 + 1
  assert.deepEqual(explanation.computation?.sums.map((sum) => sum.value), [2, 5]);
});

const W = { shape: [5, 2], values: [9, 9, 1, 2, 3, 4, 5, 6, 7, 8] };
const B = { shape: [5], values: [9, 0.5, 0.25, -1, 2] };

test("a linear map is a row of weights times the input, plus the bias, from its first row on", async () => {
  const op: Op = { kind: "linear", inputs: ["a"], weight: "w", bias: "b", first: 1 };
  const a = { shape: [2, 2], values: [0, 0, 10, 100] };
  const numbers = makeTrace({ a, x: { shape: [2, 2], values: [0.5, 0.25, 210.5, 430.25], op } }, { w: W, b: B });
  const explanation = await explainCell(numbers, "x", [1, 1]);
  assertRecomputed(explanation, 430.25); // 3 * 10 + 4 * 100 + 0.25
  assert.deepEqual(explanation.computation?.sums[0]?.terms.map((term) => term.value), [30, 400, 0.25]);
  assert.deepEqual(explanation.computation?.sums[0]?.terms[1]?.operands[1]?.index, [2, 1]);
  const bare = makeTrace({ a, x: { shape: [2, 2], values: [0, 0, 210, 430], op: { ...op, bias: null } } }, { w: W });
  assertRecomputed(await explainCell(bare, "x", [1, 1]), 430);
});

test("a linear map that is split into heads counts its rows head by head", async () => {
  const op: Op = { kind: "linear", inputs: ["a"], weight: "w", bias: "b", first: 1, split: true };
  const x = { dims: ["H", "S", "E"], shape: [2, 1, 2], values: [21.5, 43.25, 64, 89], op };
  const numbers = makeTrace({ a: { shape: [1, 2], values: [1, 10] }, x }, { w: W, b: B });
  assertRecomputed(await explainCell(numbers, "x", [0, 0, 1]), 43.25); // row 2: 3 + 40 + 0.25
  assertRecomputed(await explainCell(numbers, "x", [1, 0, 0]), 64); // row 3: 5 + 60 - 1
});

test("a linear map of merged heads reads them side by side", async () => {
  const op: Op = { kind: "linear", inputs: ["z"], weight: "w", bias: null, first: 0, merged: true };
  const z = { dims: ["H", "T", "E"], shape: [2, 2, 1], values: [1, 2, 3, 4] }; // position 1: 2 of head 0, 4 of head 1
  const numbers = makeTrace({ z, x: { shape: [2, 1], values: [0, 24], op } }, { w: { shape: [1, 2], values: [10, 1] } });
  const explanation = await explainCell(numbers, "x", [1, 0]);
  assertRecomputed(explanation, 24);
  assert.deepEqual(explanation.computation?.sums[0]?.terms.map((term) => term.operands[0]?.index), [[0, 1, 0], [1, 1, 0]]);
});

test("a turned linear map turns each pair of numbers by its position", async () => {
  const op: Op = { kind: "linear", inputs: ["a"], weight: "w", bias: null, first: 0, split: true, turned: true };
  const a = { shape: [2, 1], values: [0, 1] };
  const w = { shape: [4, 1], values: [0, 0, 3, 5] }; // head 1 of position 1: the pair (3, 5), turned by 1
  const [s, c] = [Math.sin(1), Math.cos(1)];
  const x = { dims: ["H", "T", "E"], shape: [2, 2, 2], values: [0, 0, 0, 0, 0, 0, 3 * c - 5 * s, 3 * s + 5 * c], op };
  const numbers = makeTrace({ a, x }, { w });
  assertRecomputed(await explainCell(numbers, "x", [1, 1, 0]), 3 * c - 5 * s);
  assertRecomputed(await explainCell(numbers, "x", [1, 1, 1]), 3 * s + 5 * c);
});

const HEADS = {
  a: { dims: ["H", "T", "E"], shape: [2, 2, 2], values: [0, 0, 0, 0, 1, 2, 3, 4] },
  b: { dims: ["H", "S", "E"], shape: [2, 3, 2], values: [0, 0, 0, 0, 0, 0, 1, 10, 2, 20, 3, 30] },
};

test("a dot product multiplies the query and the key of one head number by number", async () => {
  const x = { shape: [2, 2, 3], values: [0, 0, 0, 0, 0, 0, 21, 42, 63, 43, 86, 129] };
  const numbers = makeTrace({ ...HEADS, x: { ...x, op: { kind: "dot", inputs: ["a", "b"] } } });
  const explanation = await explainCell(numbers, "x", [1, 1, 2]);
  assertRecomputed(explanation, 129); // 3 * 3 + 4 * 30
  assert.deepEqual(explanation.computation?.sums[0]?.operandNames, ["a", "b"]);
});

test("a mixture sums over the keys what each gives, by how much it is read", async () => {
  const pattern = { shape: [1, 2, 3], values: [1, 0, 0, 0.5, 0.25, 0.25] };
  const v = { dims: ["H", "S", "E"], shape: [1, 3, 2], values: [4, 0, 8, 0, 16, 1] };
  const x = { dims: ["H", "T", "E"], shape: [1, 2, 2], values: [4, 0, 8, 0.25] };
  const numbers = makeTrace({ pattern, v, x: { ...x, op: { kind: "mix", inputs: ["pattern", "v"] } } });
  assertRecomputed(await explainCell(numbers, "x", [0, 1, 0]), 8); // 0.5 * 4 + 0.25 * 8 + 0.25 * 16
  assertRecomputed(await explainCell(numbers, "x", [0, 1, 1]), 0.25);
});

test("scaling divides", async () => {
  const x = { shape: [2], values: [2, 3], op: { kind: "scale", inputs: ["a"], divisor: 4 } as Op };
  assertRecomputed(await explainCell(makeTrace({ a: { shape: [2], values: [8, 12] }, x }), "x", [1]), 3);
});

test("masks are 1 where a piece stands, and where the key is no later than the query", async () => {
  const causal = { dims: ["1", "T", "T"], shape: [1, 2, 2], values: [1, 0, 1, 1], op: { kind: "causal" } as Op };
  const numbers = makeTrace({ causal, here: { dims: ["1", "1", "S"], shape: [1, 1, 2], values: [1, 1] } });
  assertRecomputed(await explainCell(numbers, "here", [0, 0, 1]), 1);
  assertRecomputed(await explainCell(numbers, "causal", [0, 0, 1]), 0);
  const explanation = await explainCell(numbers, "causal", [0, 1, 0]);
  assertRecomputed(explanation, 1);
  assert.match(explanation.computation?.steps[0]?.text ?? "", /"<s>" \(position 0\) comes no later than "La" \(position 1\)/);
});

const THREE = Math.log(3);

test("a softmax is a share among the keys that may be read, and exactly 0 for the others", async () => {
  const scores = { shape: [1, 2, 2], values: [0, THREE, 100, 100 + THREE] };
  const row = { shape: [1, 2, 2], op: { kind: "softmax", inputs: ["scores", "allowed"] } as Op };
  const causal = { dims: ["1", "T", "T"], shape: [1, 2, 2], values: [1, 0, 1, 1] };
  const masked = makeTrace({ scores, allowed: causal, x: { ...row, values: [1, 0, 0.25, 0.75] } });
  assertRecomputed(await explainCell(masked, "x", [0, 0, 0]), 1); // alone in its row
  const forbidden = await explainCell(masked, "x", [0, 0, 1]);
  assertRecomputed(forbidden, 0);
  assert.equal(forbidden.computation?.sums[0]?.terms[1]?.masked, true);
  assertRecomputed(await explainCell(masked, "x", [0, 1, 1]), 0.75); // large scores do not overflow
  const everywhere = { dims: ["1", "1", "S"], shape: [1, 1, 2], values: [1, 1] };
  const open = makeTrace({ scores, allowed: everywhere, x: { ...row, values: [0.25, 0.75, 0.25, 0.75] } });
  assertRecomputed(await explainCell(open, "x", [0, 0, 1]), 0.75);
});

test("a query that may read nothing gets zeros", async () => {
  const numbers = makeTrace({
    scores: { shape: [1, 1, 2], values: [1, 2] },
    allowed: { dims: ["1", "1", "S"], shape: [1, 1, 2], values: [0, 0] },
    x: { shape: [1, 1, 2], values: [0, 0], op: { kind: "softmax", inputs: ["scores", "allowed"] } },
  });
  assertRecomputed(await explainCell(numbers, "x", [0, 0, 1]), 0);
});

test("each function of the feed-forward is as its formula says", async () => {
  // sigmoid(ln 3) = 3/4; Φ(1) from a table of the normal distribution
  const cases: [Extract<Op, { kind: "activation" }>["function"], number[], number][] = [
    ["relu", [-2, 0], 0],
    ["relu", [2, 0], 2],
    ["silu", [THREE, 0], 0.75 * THREE],
    ["gelu", [1, 0], 0.8413447460685429],
    ["gelu", [-1, 0], -0.15865525393145707],
    ["swiglu", [THREE, 10], 7.5 * THREE],
  ];
  for (const [name, a, value] of cases) {
    const shape = [1, name === "swiglu" ? 1 : 2];
    const x = { shape, values: [value, 0], op: { kind: "activation", inputs: ["a"], function: name } as Op };
    assertRecomputed(await explainCell(makeTrace({ a: { shape: [1, 2], values: a }, x }), "x", [0, 0]), value);
  }
  assert.equal(erf(7), 1);
  assert.ok(Math.abs(erf(0.5) - 0.5204998778130465) < 1e-15); // Abramowitz and Stegun, table 7.1
});

test("what is the same is the same", async () => {
  const x = { shape: [1, 2], values: [1, 2], op: { kind: "same", inputs: ["a"] } as Op };
  assertRecomputed(await explainCell(makeTrace({ a: { shape: [1, 2], values: [1, 2] }, x }), "x", [0, 1]), 2);
});

test("a number that its inputs do not give is found out", async () => {
  const x = { shape: [2], op: { kind: "scale", inputs: ["a"], divisor: 4 } as Op };
  const a = { shape: [2], values: [8, 12] };
  const planted = await explainCell(makeTrace({ a, x: { ...x, values: [2, 3.001] } }), "x", [1]);
  assert.deepEqual([planted.captured, planted.computation?.value, planted.comparison?.passed], [Math.fround(3.001), 3, false]);
  const turned = [0, 0, 0, 0, 0, 0, 21, 43, 42, 86, 63, 129]; // keys and queries have changed places
  const op: Op = { kind: "dot", inputs: ["a", "b"] };
  const swapped = makeTrace({ ...HEADS, x: { shape: [2, 2, 3], values: turned, op } });
  assert.equal((await explainCell(swapped, "x", [1, 0, 1])).comparison?.passed, false);
});

test("a cell is within 1e-4 of itself, or within 1e-6 of terms that cancel; as float16 within their rounding", () => {
  assert.equal(compareNumbers(1, 1.00009, 1, false).passed, true);
  assert.equal(compareNumbers(1, 1.00011, 1, false).passed, false);
  assert.equal(compareNumbers(1e-6, 2e-6, 10, false).passed, true); // of terms that sum to 10 in size
  assert.equal(compareNumbers(1e-6, 2e-5, 10, false).passed, false);
  assert.equal(compareNumbers(1, 1.0009, 1, true).passed, true);
  assert.equal(compareNumbers(1, 1.0011, 1, true).passed, false);
  assert.equal(compareNumbers(Number.NaN, Number.NaN, 1, false).passed, true);
  assert.equal(compareNumbers(Number.NaN, 1, 1, false).passed, false);
});

test("what was not captured is named, and nothing is made up for it", async () => {
  const op: Op = { kind: "linear", inputs: ["a"], weight: "w", bias: "b", first: 0 };
  const weights = { w: { shape: [1, 1], values: null }, b: { shape: [1], values: [1] } };
  const x = { shape: [1, 1], values: [2], op };
  const explanation = await explainCell(makeTrace({ a: { shape: [1, 1], values: null }, x }, weights), "x", [0, 0]);
  assert.deepEqual([explanation.captured, explanation.missing, explanation.computation, explanation.comparison], [2, ["a", "w"], null, null]);
  const quarter: Op = { kind: "scale", inputs: ["a"], divisor: 4 };
  const uncaptured = makeTrace({ a: { shape: [1], values: [8] }, x: { shape: [1], values: null, op: quarter } });
  const recomputed = await explainCell(uncaptured, "x", [0]);
  assert.deepEqual([recomputed.captured, recomputed.computation?.value, recomputed.comparison], [null, 2, null]);
});

test("a cell outside its tensor, or a tensor that is not there, is an error with the shape", async () => {
  const numbers = makeTrace({ a: { shape: [2, 2], values: [1, 2, 3, 4] } });
  await assert.rejects(explainCell(numbers, "a", [0, 2]), /a has the shape 2 x 2; there is no cell 0, 2/);
  await assert.rejects(explainCell(numbers, "a", [0]), /shape 2 x 2/);
  await assert.rejects(explainCell(numbers, "b", [0]), /there is no tensor b/);
});
