// Measures of the claim cards, against numbers that can be worked out by hand or another way.
import assert from "node:assert/strict";
import { test } from "node:test";
import { findFileAnswer } from "../src/trace_cache";
import {
  computeMaskedWeights,
  cosineAtDistance,
  countConstantDims,
  findLargestDifference,
  findLargestLeak,
  makePattern,
  makeSinusoids,
  measureDiagonal,
  measureOverlap,
  measureOverlaps,
  measureSharpness,
  parseNumbers,
  sinusoid,
  softmax,
  softmaxSlope,
} from "../src/measures";
import type { WordMap } from "../src/types";
import { listBareWords } from "../src/views/cards_words";
import { averageByDistance } from "../src/views/claims";
import { describeRole, findStudiedHead } from "../src/views/head_roles";
import { computeCosines } from "../src/views/positions";
import { findNearest, findNext, findPieces, locatePoint, makeFrame } from "../src/views/words";
import { makeManifest } from "./small_trace";

const assertNear = (a: number, b: number, tolerance = 1e-9) => assert.ok(Math.abs(a - b) < tolerance, `${a} is not ${b}`);

test("softmax sums to one, keeps ratios, and gives nothing for minus infinity", () => {
  const p = softmax([Math.log(1), Math.log(2), -Infinity, Math.log(5)]);
  [1 / 8, 2 / 8, 0, 5 / 8].forEach((expected, i) => assertNear(p[i] as number, expected));
  assertNear(softmax([1000, 1000])[0] as number, 0.5);
});

test("numbers are read from a text, and anything else is refused", () => {
  assert.deepEqual(parseNumbers("40, 51 43,−38"), [40, 51, 43, -38]);
  for (const text of ["", "4", "4, x", "1e999, 2"]) assert.equal(parseNumbers(text), null);
});

test("the two exponents agree at the first pair, and part at the second", () => {
  for (const d of [0, 1]) assertNear(sinusoid(3, d, 512, "paper"), sinusoid(3, d, 512, "doubled"));
  assertNear(sinusoid(3, 2, 512, "paper"), Math.sin(3 / 10000 ** (2 / 512)));
  assertNear(sinusoid(3, 2, 512, "doubled"), Math.sin(3 / 10000 ** (4 / 512)));
  assertNear(sinusoid(3, 3, 512, "paper"), Math.cos(3 / 10000 ** (2 / 512)));
  assert.ok(countConstantDims(64, 50, "doubled") > countConstantDims(64, 50, "paper"));
});

test("the cosine of two sine vectors depends on their distance alone", () => {
  const all = averageByDistance(computeCosines(makeSinusoids(20, 16, "paper"), 20, 16), 20);
  all.forEach((value, far) => assertNear(value, cosineAtDistance(far, 16), 1e-5));
});

test("a head divided by another root is the softmax of its products so divided", () => {
  const products = [3, -1, 2, 0.5];
  const width = 4;
  const weights = Float32Array.from(softmax(products.map((x) => x / Math.sqrt(width))));
  for (const by of [1, 4, 9]) {
    const direct = softmax(products.map((x) => x / Math.sqrt(by)));
    const sharpness = measureSharpness(weights, 4, Math.sqrt(width / by));
    assertNear(sharpness.largest, Math.max(...direct), 1e-5);
    assertNear(sharpness.slope, softmaxSlope(direct), 1e-5);
  }
});

test("the slope is that of the Jacobian written out", () => {
  const p = [0.5, 0.3, 0.2];
  const jacobian = p.flatMap((a, i) => p.map((b, j) => (i === j ? a : 0) - a * b));
  assertNear(softmaxSlope(p), Math.hypot(...jacobian));
  assertNear(softmaxSlope([1, 0]), 0);
});

test("the diagonal of the identity is one, shifted it is nothing", () => {
  const identity = makePattern(Float32Array.from([1, 0, 0, 0, 1, 0]), [1, 2, 3]);
  assertNear(measureDiagonal(identity, 0, 0), 1);
  assertNear(measureDiagonal(identity, 0, -1), 0);
  assertNear(measureDiagonal(makePattern(Float32Array.from([0.2, 0.8, 0.6, 0.4]), [1, 2, 2]), 0, 0), 0.3, 1e-7);
});

test("heads overlap wholly with themselves and not at all with those that read elsewhere", () => {
  const pattern = makePattern(Float32Array.from([1, 0, 0.5, 0.5, /* head 2 */ 0, 1, 0.5, 0.5]), [2, 2, 2]);
  const table = measureOverlaps(pattern);
  [1, 0.5, 0.5, 1].forEach((expected, i) => assertNear(table[i] as number, expected, 1e-6));
  assertNear(measureOverlap(Float32Array.from([1, 0]), Float32Array.from([0, 1]), 1), 0);
});

test("infinity hides the same before and after the division, a finite mask does not", () => {
  const products = [[4, 2, 8], [1, 6, 3], [0, 2, 5]];
  const [before, after] = (["before", "after"] as const).map((where) => computeMaskedWeights(products, 16, -Infinity, where)) as [number[][], number[][]];
  assert.equal(findLargestDifference(before, after), 0);
  assert.equal(findLargestLeak(before), 0);
  assertNear(before[0]?.[0] as number, 1);
  const [weak, strong] = (["before", "after"] as const).map((where) => computeMaskedWeights(products, 16, -10, where)) as [number[][], number[][]];
  assert.ok(findLargestLeak(weak) > findLargestLeak(strong) && findLargestLeak(strong) > 0);
  assertNear(weak[0]?.[2] as number, softmax([1, -2, -0.5])[2] as number);
});

test("a map shows all points, finds the nearest, and goes to the next in a direction", () => {
  const places = [0, 0, 4, 0, 0, 2, -4, -2];
  const frame = makeFrame(places, 448, 248, 1, null);
  for (let point = 0; point < 4; point++) {
    const [x, y] = locatePoint(frame, places, point);
    assert.ok(x >= 24 && x <= 424 && y >= 24 && y <= 224, `${x} ${y}`);
    assert.equal(findNearest(frame, places, x + 3, y - 3), point);
  }
  assert.equal(findNearest(frame, places, 0, 0), null);
  assert.equal(findNext(frame, places, 0, 1, 0), 1);
  assert.equal(findNext(frame, places, 0, 0, -1), 2);
  assert.equal(findNext(frame, places, 1, 1, 0), 1);
  assert.deepEqual(locatePoint(makeFrame(places, 448, 248, 8, 1), places, 1), [224, 124]);
});

test("pieces are found by how they begin, the whole one first", () => {
  assert.deepEqual(findPieces(["▁balls", "▁ball", "ball", "▁x", "</s>"], "Ball"), [1, 2, 0]);
  assert.deepEqual(findPieces(["▁balls", "</s>"], "</s>"), [1]);
  assert.deepEqual(findPieces(["a"], " "), []);
  assert.deepEqual(listBareWords("The «ball», the ball is: (blue)!"), ["The", "«ball»", "the", "ball", "is", "blue"]);
});

test("a file answers what it holds, and nothing else", () => {
  const map = { side: "source", pieces: ["a"], near: { "4": [{ piece: "b", id: 5, cosine: 0.5 }] }, similar: { words: ["x", "y"], unknown: ["z"] } } as unknown as WordMap;
  const file = makeManifest({ words: [map] });
  assert.equal(findFileAnswer(file, "words", { side: "source" }), map);
  assert.equal(findFileAnswer(file, "words", { side: "target" }), null);
  assert.equal(findFileAnswer(file, "neighbours", { side: "source", piece: 4 })?.near[0]?.piece, "b");
  assert.equal(findFileAnswer(file, "neighbours", { side: "source", piece: 3 }), null);
  assert.ok(findFileAnswer(file, "similar", { side: "source", words: ["y", "z"] }));
  assert.equal(findFileAnswer(file, "similar", { side: "source", words: ["y", "w"] }), null);
  assert.equal(findFileAnswer(file, "analogy", { side: "source", question: "a - b" }), null);
  assert.equal(findFileAnswer(file, "masking", {}), null);
});

test("a head is told with its roles and what its silence costs", () => {
  const head = { attention: "decoder.0.cross", head: 1, badges: [{ mark: "A", says: "aligns", share: 0.9, beside: 0.5 }], silent: 0.3149, error: 0.01, gradient: 1 };
  const studied = { study: { pairs: 5, loss: 1, rules: {}, heads: [head] }, says: null };
  assert.deepEqual(describeRole(findStudiedHead(studied, "decoder.0.cross", 1)), ["role: A (aligns)", "loss if removed +0.315"]);
  assert.deepEqual(describeRole(findStudiedHead(studied, "decoder.0.cross", 0)), []);
});
