// The sentence before: its words and pieces stand in brackets, and it belongs to the question of a trace and of a link.
import assert from "node:assert/strict";
import { test } from "node:test";
import { quotePiece } from "../src/format";
import { listPieces, listWords, nameSentence } from "../src/network";
import { isAnswerTo, makeQuestion, readLink, writeLink } from "../src/permalink";
import { makeManifest } from "./small_trace";

const SOURCE = {
  text: "A key. <s> He sold it.",
  normalised: "",
  pieces: ["▁A", "▁key", ".", "<s>", "▁He", "▁sold", "▁it", ".", "</s>"],
  ids: [4, 5, 6, 1, 7, 8, 9, 6, 2],
  words: [0, 1, 1, 2, 3, 4, 5, 5, null],
  unknown: [],
  context: 4,
};
const WITH = makeManifest({ sentence: "He sold it.", context: "A key.", source: SOURCE });
const WITHOUT = makeManifest({ sentence: "He sold it." });

test("what belongs to the sentence before stands in brackets, and the start token after it in none", () => {
  assert.deepEqual(listPieces(SOURCE), ["(▁A)", "(▁key)", "(.)", "<s>", "▁He", "▁sold", "▁it", ".", "</s>"]);
  assert.deepEqual(listWords(SOURCE), ["(A)", "(key.)", "<s>", "He", "sold", "it."]);
  assert.deepEqual([quotePiece("(▁key)"), quotePiece("▁key")], ["“(key)”", "“key”"]);
  assert.deepEqual(listPieces(WITHOUT.source), WITHOUT.source.pieces);
});

test("a link keeps the sentence before, and a trace without it is no answer to a question with it", () => {
  const question = makeQuestion(WITH);
  assert.equal(question.context, "A key.");
  const link = { place: { view: "map" as const }, step: 0, story: null, mode: "learn" as const, follow: null, switches: null, trace: null, question, fault: null };
  assert.deepEqual(readLink(writeLink(link)).question, question);
  assert.ok(isAnswerTo(WITH, question));
  assert.ok(!isAnswerTo(WITHOUT, question));
  assert.ok(!isAnswerTo(WITH, makeQuestion(WITHOUT)));
  assert.deepEqual(nameSentence(WITHOUT), { sentence: "He sold it." });
});
