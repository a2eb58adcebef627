// Formatting of numbers and pieces in the sentences of the page.
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
