// Formatting of numbers, pieces and formulas: nothing of a notation is left over.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  formatBytes,
  formatCount,
  formatFixed,
  formatNumber,
  formatProbability,
  formatQuantity,
  quotePiece,
  richText,
  roundUp,
} from "../src/format";
import { display, fraction, line, makeFormula, makeRootOrNumber, over, root } from "../src/mathml";
import type { Op } from "../src/types";
import { chooseWithoutNumbers } from "../src/story_choice";
import { makeStory } from "../src/story_stops";
import { type Element, listElements, makeManifest, readText, writeXml } from "./small_trace";

test("figures keep three digits and a real minus sign", () => {
  const texts = [0, 0.12345, -0.5, 12.3456, 123.456, 1149, 12345.6, 0.00001234, -2.5e9, NaN, -Infinity].map(formatNumber);
  assert.deepEqual(texts, ["0", "0.123", "−0.5", "12.3", "123.5", "1149", "12346", "1.23e−5", "−2.50e+9", "not a number", "−∞"]);
});

test("no probability below 1 is written as 1, none above 0 as 0", () => {
  for (const p of [1e-9, 0.0004, 0.004, 0.5, 0.9949, 0.996, 0.99999, 1 - 1e-9]) assert.ok(!["0", "0.00", "1", "1.00"].includes(formatProbability(p)), formatProbability(p));
  assert.deepEqual([0, 1, 0.5].map(formatProbability), ["0.00", "1.00", "0.50"]);
});

test("columns have two decimals and one zero", () => {
  assert.deepEqual([1.234, -1.5, 0.001, -0.001, 0].map(formatFixed), ["+1.23", "−1.50", "+0.00", "0.00", "0.00"]);
});

test("the end of a scale is the next number with two digits, never below the value", () => {
  assert.deepEqual([5.154, 0.0321, 99.5, 100, 0, NaN].map(roundUp), [5.2, 0.033, 100, 100, 1, 1]);
});

test("counts, pieces and bytes read as people write them", () => {
  assert.equal(formatCount(1581568), "1\u202f581\u202f568");
  assert.deepEqual([formatQuantity(1, "piece"), formatQuantity(5, "piece")], ["1 piece", "5 pieces"]);
  assert.deepEqual([quotePiece("▁ball"), quotePiece("ing"), quotePiece("▁"), quotePiece(undefined)], ["“ball”", "“ing”", "“▁”", "“▁”"]);
  assert.deepEqual([576, 350_000, 1_040_000].map(formatBytes), ["576 bytes", "350 kB", "1.04 MB"]);
});

test("numbers stay numbers in a sentence, so that they can be hidden", () => {
  assert.deepEqual(richText`a ${1.5} b ${"c"}${richText`, d ${2}`}`, ["a ", 1.5, " b ", "c", ", d ", 2]);
});

const OPS: Op[] = [
  { kind: "lookup", table: "t", scale: 128 ** 0.5, side: "source" },
  { kind: "sinusoid" },
  { kind: "row", table: "t" },
  { kind: "add", inputs: ["encoder.embedding", "encoder.positions"] },
  { kind: "norm", inputs: ["x"], weight: "w", bias: "b", eps: 1e-5 },
  { kind: "linear", inputs: ["x"], weight: "w", bias: null, first: 0 },
  { kind: "linear", inputs: ["x"], weight: "w", bias: "b", first: 0, split: true, turned: true },
  { kind: "dot", inputs: ["q", "k"] },
  { kind: "scale", inputs: ["encoder.0.self.products"], divisor: 32 ** 0.5 },
  { kind: "present" },
  { kind: "causal" },
  { kind: "softmax", inputs: ["s", "a"] },
  { kind: "mix", inputs: ["p", "v"] },
  { kind: "activation", inputs: ["x"], function: "relu" },
  { kind: "activation", inputs: ["x"], function: "gelu" },
  { kind: "activation", inputs: ["x"], function: "silu" },
  { kind: "activation", inputs: ["x"], function: "swiglu" },
  { kind: "same", inputs: ["x"] },
];

const CHILDREN: Record<string, number> = { mfrac: 2, msub: 2, msup: 2, msubsup: 3, munder: 2 };
const TOKENS = ["mi", "mn", "mo", "mtext"];
const ROWS = ["div", "math", "mrow", "msqrt"];

function checkElement(element: Element): void {
  const { tag, children } = element;
  assert.ok(tag in CHILDREN || TOKENS.includes(tag) || ROWS.includes(tag), `<${tag}> is no element of a formula`);
  if (tag in CHILDREN) assert.equal(children.length, CHILDREN[tag], writeXml(element));
  if (TOKENS.includes(tag)) {
    assert.equal(children.length, 1);
    assert.match(String(children[0]), /^[^{}_^"]+$/, writeXml(element));
    return;
  }
  for (const child of children) {
    assert.ok(typeof child !== "string", `text stands in <${tag}>: ${writeXml(element)}`);
    checkElement(child);
  }
}

test("the formula of every kind of operation is well-formed MathML", () => {
  for (const op of OPS) for (const element of listElements(makeFormula(op))) checkElement(element as Element);
});

test("the formulas of all stops are well-formed, also where the model lacks parts", () => {
  for (const stop of makeStory(makeManifest(), chooseWithoutNumbers(makeManifest(), 1), true)) for (const element of listElements(stop.formula)) checkElement(element as Element);
});

test("the check of formulas can fail", () => {
  assert.throws(() => checkElement({ tag: "mfrac", children: [{ tag: "mi", children: ["x"] }] }));
  assert.throws(() => checkElement({ tag: "mi", children: ["x_{p}"] }));
});

test("the notation hangs words below and above", () => {
  const xml = (text: string) => listElements(line(text)).map(writeXml).join("");
  assert.equal(xml("K^T"), "<mrow><msup><mi>K</mi><mrow><mi>T</mi></mrow></msup></mrow>");
  assert.equal(
    xml("x_{p,2i}"),
    "<mrow><msub><mi>x</mi><mrow><mi>p</mi><mo>,</mo><mn>2</mn><mi>i</mi></mrow></msub></mrow>",
  );
  assert.equal(xml("- 3"), "<mrow><mo>−</mo><mn>3</mn></mrow>");
  assert.equal(xml('1 "where" k'), "<mrow><mn>1</mn><mtext>\u00a0where\u00a0</mtext><mi>k</mi></mrow>");
});

test("a divisor that is the root of a whole number is written as one", () => {
  const text = (value: number) => listElements(display(line(makeRootOrNumber(value)))).map(writeXml).join("");
  assert.match(text(Math.fround(32 ** 0.5)), /<msqrt><mrow><mn>32<\/mn>/);
  assert.match(text(8), /<mn>8<\/mn>/);
  assert.match(text(2.5), /<mn>2.5<\/mn>/);
});

test("a formula reads in the order of its parts", () => {
  assert.equal(listElements(display(line("s =", over("∑", "e"), fraction("q", root("d_k"))))).map(readText).join(""), "s=∑eqdk");
});
