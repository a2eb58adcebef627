// Laws of the formulas: elements with as many children as MathML gives them, and nothing of the notation left over.
import assert from "node:assert/strict";
import { test } from "node:test";
import { display, fraction, line, makeFormula, makeRootOrNumber, over, root } from "../src/mathml";
import type { Op } from "../src/types";
import { makeStory } from "../src/views/story";
import { type Element, listElements, readText, writeXml } from "./element_tree";
import { makeManifest } from "./small_trace";

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
  for (const stop of makeStory(makeManifest(), 1, 2, true)) for (const element of listElements(stop.formula)) checkElement(element as Element);
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
