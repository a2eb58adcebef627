// Measures of attention, links and accounts, against numbers that can be worked out by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  averageHeads,
  computeContributionNorms,
  computeEntropy,
  makeMask,
  makePattern,
  measureHead,
} from "../src/measures";
import type { LogitAccount, Manifest } from "../src/types";
import { findLinks, listUnits } from "../src/views/align";
import { describeDifference, describeEdit, measureDistance, pairSteps } from "../src/views/compare";
import { estimateSize } from "../src/views/export";
import { parseHeadPart, sortBySize, sumByGroup, sumByKey, sumByWord } from "../src/views/output";
import { computeCosines } from "../src/views/positions";
import { groupPieces, listWarnings } from "../src/views/tokens";
import { makeManifest } from "./small_trace";

const assertNear = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);
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
  assertNear(first.largest, 0.75);
  assertNear(first.entropy, Math.log(2) / 2);
  assertNear(first.onSpecialTokens, 0);
  assertNear(second.onSpecialTokens, 0.8);
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
  assertNear(links[1]?.weight ?? NaN, (0.8 + 0.3) / 2);
  assertNear(hidden, 0.05 / 3);
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
