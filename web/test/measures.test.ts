// Measures of attention, links, accounts and claim cards, against numbers that can be worked out by hand or another way.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  averageHeads,
  computeContributionNorms,
  computeDrawingChances,
  computeEntropy,
  computeMaskedWeights,
  cosineAtDistance,
  countConstantDims,
  countScored,
  findLargestDifference,
  findLargestLeak,
  makeMask,
  makePattern,
  makeSinusoids,
  measureDiagonal,
  measureHead,
  measureOverlap,
  measureOverlaps,
  measureSharpness,
  measureWordConfidences,
  parseNumbers,
  sinusoid,
  softmax,
  softmaxSlope,
} from "../src/measures";
import { findFileAnswer } from "../src/trace_cache";
import type { LogitAccount, Manifest, WordMap } from "../src/types";
import { findLinks, listUnits } from "../src/views/align";
import { listBareWords } from "../src/views/cards_words";
import { averageByDistance } from "../src/views/claims";
import { describeDifference, describeEdit, measureDistance, pairSteps } from "../src/views/compare";
import { estimateSize } from "../src/views/export";
import { describeRole, findStudiedHead } from "../src/views/head_roles";
import { parseHeadPart, sortBySize, sumByGroup, sumByKey, sumByWord } from "../src/views/output";
import { computeCosines } from "../src/views/positions";
import { groupPieces, listWarnings } from "../src/views/tokens";
import { findNearest, findNext, findPieces, locatePoint, makeFrame, placeLabels } from "../src/views/words";
import { makeManifest } from "./small_trace";

test("chances of a draw are sharpened by the temperature, cut to k pieces and then to p, and add up to 1", () => {
  const logits = [Math.log(0.2), Math.log(0.5), Math.log(0.3)];
  const chances = (temperature: number, topK: number, topP: number) => [...computeDrawingChances(logits, { temperature, top_k: topK, top_p: topP, seed: 1 })];
  const assertAll = (numbers: number[], expected: number[]) => numbers.forEach((number, i) => assertNear(number, expected[i] ?? NaN));
  assertAll(chances(1, 0, 1), [0.2, 0.5, 0.3]);
  assertAll(chances(0.5, 0, 1), [0.04 / 0.38, 0.25 / 0.38, 0.09 / 0.38]); // squares
  assertAll(chances(1, 2, 1), [0, 0.625, 0.375]);
  assertAll(chances(1, 0, 0.7), [0, 0.625, 0.375]); // 0.5 is less than 0.7, 0.8 is not
  assertAll(chances(1, 2, 0.6), [0, 1, 0]); // of the two, renormalised, the first reaches 0.625
});

test("a word is as sure as the curve says of the log-probability of all its pieces", () => {
  const write = (log_prob: number) => ({ chosen: { log_prob } }) as Manifest["steps"][number];
  const manifest = makeManifest({ word_curve: { scores: [-2, -1], confidences: [0.1, 0.5, 0.9] }, steps: [-0.5, -1.5, -0.5, -0.25, -3].map(write) });
  manifest.target = { ...manifest.target, words: [0, 1, 1, 2, null] }; // log-probabilities -0.5, -2 and -0.25
  assert.deepEqual(measureWordConfidences(manifest), [0.9, 0.5, 0.9]);
  assert.equal(measureWordConfidences(makeManifest()), null);
});

test("a search scores every piece after each beginning that was kept at the step before", () => {
  const grow = (step: number, fate: "kept" | "pruned" | "finished") => ({ step, fate });
  const nodes = [grow(2, "kept"), grow(2, "kept"), grow(2, "pruned"), grow(3, "kept"), grow(3, "finished"), grow(4, "finished")];
  const tree = { nodes } as unknown as Parameters<typeof countScored>[0];
  assert.equal(countScored(tree, 100), 100 * (1 + 2 + 1)); // the first step follows a prefix
});

const assertNear = (a: number, b: number, tolerance = 1e-9) => assert.ok(Math.abs(a - b) < tolerance, `${a} is not ${b}`);
const makeFloats = (...values: number[]) => Float32Array.from(values);

const WORDED = makeManifest({
  source: { text: "un believable", normalised: "", pieces: ["▁un", "▁belie", "va", "ble", "</s>"], ids: [4, 5, 6, 7, 2], words: [0, 1, 1, 1, null], unknown: [false, false, true, false, false] },
  target: { text: "in creíble", normalised: "", pieces: ["▁in", "▁creí", "ble", "</s>"], ids: [8, 9, 7, 2], words: [0, 1, 1, null], unknown: [false, false, false, false] },
});

test("an even row has entropy log n, a sharp one none", () => {
  assertNear(computeEntropy([0.25, 0.25, 0.25, 0.25]), Math.log(4));
  assert.equal(computeEntropy([0, 1, 0]), 0);
});

test("a head's numbers are means over its rows, and each head has its own", () => {
  const pattern = makePattern(makeFloats(1, 0, 0, 0.5, 0.5, 0, /* head 2 */ 0, 0, 1, 0.2, 0.2, 0.6), [2, 2, 3]);
  const [first, second] = [measureHead(pattern, 0, new Set([2])), measureHead(pattern, 1, new Set([2]))];
  assertNear(first.largest, 0.75, 1e-6);
  assertNear(first.entropy, Math.log(2) / 2, 1e-6);
  assertNear(first.onSpecialTokens, 0, 1e-6);
  assertNear(second.onSpecialTokens, 0.8, 1e-6);
  assert.deepEqual([...averageHeads(pattern)].map((x) => Math.round(x * 100) / 100), [0.5, 0, 0.5, 0.35, 0.35, 0.3]);
});

test("what is carried is the weight times the length of the value after W_O", () => {
  // One query, two keys, two heads of width 2; the second head's columns of W_O are twice the identity.
  const pattern = makePattern(makeFloats(1, 0, /* head 2 */ 0.25, 0.75), [2, 1, 2]);
  const v = makeFloats(9, 9, 9, 9, /* head 2 */ 3, 4, 0, 1);
  const output = makeFloats(7, 7, 2, 0, /* second row */ 7, 7, 0, 2);
  const norms = computeContributionNorms(pattern, 1, v, 2, output);
  assertNear(norms[0] ?? NaN, 0.25 * 10);
  assertNear(norms[1] ?? NaN, 0.75 * 2);
});

test("masks stand for each cell, or for all rows at once, or not at all", () => {
  assert.equal(makeMask(undefined, 2), undefined);
  assert.equal(makeMask(makeFloats(1, 1), 2), undefined);
  const [row, square] = [makeMask(makeFloats(1, 0), 2), makeMask(makeFloats(1, 0, 1, 1), 2)];
  assert.deepEqual([row?.(5, 0), row?.(5, 1)], [false, true]);
  assert.deepEqual([square?.(0, 1), square?.(1, 1)], [true, false]);
});

test("heads that share nothing are 2 apart, equal ones 0", () => {
  assert.equal(measureDistance(makeFloats(1, 0, 0, 1), makeFloats(0, 1, 1, 0), 2), 2);
  assert.equal(measureDistance(makeFloats(1, 0), makeFloats(1, 0), 1), 0);
});

test("units are pieces, or words with marks of their own", () => {
  assert.deepEqual(listUnits(WORDED.source, false).map((unit) => unit.text), ["▁un", "▁belie", "va", "ble", "</s>"]);
  assert.deepEqual(listUnits(WORDED.source, true), [
    { text: "un", pieces: [0] },
    { text: "believable", pieces: [1, 2, 3] },
    { text: "</s>", pieces: [4] },
  ]);
});

test("links by word add up source pieces and average target pieces; what is not drawn is said", () => {
  const weights = makeFloats(
    ...[1, 0, 0, 0, 0],
    ...[0, 0.5, 0.2, 0.1, 0.2],
    ...[0.1, 0.1, 0.1, 0.1, 0.6],
    ...[0, 0, 0, 0, 1],
  );
  const { links, hiddenWeight: hidden } = findLinks(WORDED, weights, "writes", true, 0.3);
  assert.deepEqual(links.map(({ source, target }) => [source, target]), [[0, 0], [1, 1], [2, 1], [2, 2]]);
  assertNear(links[1]?.weight ?? NaN, (0.8 + 0.3) / 2, 1e-6);
  assertNear(hidden, 0.05 / 3, 1e-6);
});

test("the row that reads a piece is the one after the row that writes it", () => {
  const weights = makeFloats(...[1, 0, 0, 0, 0], ...[0, 1, 0, 0, 0], ...[0, 0, 1, 0, 0], ...[0, 0, 0, 1, 0]);
  const { links } = findLinks(WORDED, weights, "reads", false, 0.5);
  assert.deepEqual(links.map(({ source, target }) => [source, target]), [[1, 0], [2, 1], [3, 2]]);
});

const ACCOUNT: LogitAccount = {
  step: 1,
  piece: "x",
  id: 3,
  other: null,
  logit: 6,
  sum: 6,
  parts: [
    { name: "embedding", group: "embedding", value: 1 },
    { name: "decoder.0.cross.head.0", group: "cross", value: 3, by_key: [1, 2, 0, 0, 0] },
    { name: "decoder.0.cross.head.1", group: "cross", value: -2, by_key: [0, -1, -0.5, -0.5, 0] },
    { name: "decoder.0.ffn", group: "ffn", value: 4 },
  ],
};

test("sums of an account by kind, by head and by word lose nothing", () => {
  assert.deepEqual(sumByGroup(ACCOUNT).map((share) => share.value), [1, 1, 4]);
  assert.deepEqual(sortBySize(ACCOUNT, ["cross", "ffn"]).map((part) => part.value), [4, 3, -2]);
  assert.deepEqual(sumByKey(ACCOUNT, "cross"), [1, 1, -0.5, -0.5, 0]);
  assert.equal(sumByKey(ACCOUNT, "self"), null);
  const words = sumByWord(sumByKey(ACCOUNT, "cross") ?? [], WORDED.source);
  assert.deepEqual(words, [{ label: "un", value: 1 }, { label: "believable", value: 0 }, { label: "</s>", value: 0 }]);
  assert.deepEqual(parseHeadPart(ACCOUNT.parts[2] ?? assert.fail()), { section: "decoder.0.cross", head: 1 });
  assert.equal(parseHeadPart(ACCOUNT.parts[3] ?? assert.fail()), null);
});

test("words are told with their pieces, and warned of where they are many or unknown", () => {
  assert.deepEqual(groupPieces(WORDED.source).map((word) => word.pieces), [[0], [1, 2, 3], [4]]);
  const warnings = listWarnings({ ...WORDED.source, words: [0, 0, 0, 0, null], text: "unbelievable" });
  assert.match(warnings[0] ?? "", /“unbelievable” became 4 pieces/);
  assert.match(warnings[1] ?? "", /1 piece \(va\)/);
  assert.deepEqual(listWarnings(WORDED.target), []);
});

test("the cosine of a vector with itself is 1, with its opposite -1, with one at right angles 0", () => {
  const cosines = computeCosines(makeFloats(1, 0, -2, 0, 0, 3), 3, 2);
  assert.deepEqual([...cosines].map(Math.round).map((x) => x + 0), [1, -1, 0, -1, 1, 0, 0, 0, 1]);
});

test("two runs are told apart at the first step where they write otherwise", () => {
  const other: Manifest = { ...WORDED, log_prob: -3, target: { ...WORDED.target, ids: [8, 5, 2], pieces: ["▁in", "▁no", "</s>"] } };
  assert.equal(describeDifference(WORDED, other), "They first differ at step 2: “creí” before, “no” after; log P changes by −2.");
  assert.equal(describeDifference(WORDED, WORDED), "The pieces are the same; log P changes by 0.");
  assert.equal(pairSteps(WORDED, { ...other, steps: other.steps.slice(0, 2) })[2]?.after, null);
  assert.equal(describeEdit({ kind: "hide", word: 1 }, WORDED.source), "the source word “believable” is hidden");
  assert.equal(describeEdit({ kind: "silence", attention: "decoder.3.cross", head: 0 }, WORDED.source), "decoder, layer 4, cross-attention, head 1 is silenced");
});

test("a file with more in it is said to be larger", () => {
  const sizes = (["html-maps", "html-float16", "html-float32", "html-weights"] as const).map((what) => estimateSize(WORDED, what));
  assert.deepEqual([...sizes].sort((a, b) => a - b), sizes);
  assertNear((sizes[3] ?? 0) - (sizes[2] ?? 0), (4 * (131 * 3 + 131) * 4) / 3);
});

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
  assert.deepEqual(describeRole(findStudiedHead(studied, "decoder.0.cross", 1)), ["role: A (aligns)", "change of the loss without it: +0.315"]);
  assert.deepEqual(describeRole(findStudiedHead(studied, "decoder.0.cross", 0)), []);
});

test("no label of the map covers another, and where there is no room one is left out", () => {
  const width = 30;
  const points = [
    { x: 100, y: 100, width },
    { x: 104, y: 102, width }, // its right side is taken by the first
    { x: 390, y: 50, width }, // on the right edge
    ...Array.from({ length: 20 }, () => ({ x: 101, y: 101, width })),
  ];
  const places = placeLabels(points, 400);
  assert.deepEqual(places.slice(0, 3), [{ x: 108, y: 104, width }, { x: 66, y: 106, width }, { x: 352, y: 54, width }]);
  const shown = places.filter((place) => place !== null);
  assert.ok(shown.length < points.length);
  for (const a of shown) for (const b of shown) assert.ok(a === b || Math.abs(a.x - b.x) >= width || Math.abs(a.y - b.y) >= 15);
});
