// What the page says of doubts: the word, what could stand there instead, and how well such words tell mistakes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDoubt, describeDoubtCounts } from "../src/doubts";

const DOUBT = { word: 1, text: "ve", step: 2, prob: 0.134, instead: "pierde", instead_prob: 0.115 };
const COUNTS = { pairs: 410, mistakes: 20, doubted: 19, named: 17, right: 100, right_doubted: 8 };

test("a doubt names both words, each with its probability", () => {
  assert.equal(describeDoubt(DOUBT), "“ve” (0.13), or “pierde” (0.12)");
  assert.equal(describeDoubt({ ...DOUBT, text: "▁球", instead: "" }), "“球” (0.13), or the end (0.12)");
});

test("the counts are told in tenths where there are enough mistakes, and plainly where there are few", () => {
  const made = "In 410 sentences not trained on, this model made";
  assert.equal(
    describeDoubtCounts(COUNTS),
    `${made} 20 mistakes. Of ten mistakes it marks a word in 10, a wrong one in 9; of ten right translations, a word in 1.`,
  );
  assert.equal(describeDoubtCounts({ ...COUNTS, mistakes: 1, doubted: 1, named: 0 }), `${made} 1 mistake. A word was marked in 1, a wrong one in 0.`);
  assert.equal(describeDoubtCounts(null), "");
});
