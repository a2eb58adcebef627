// The word of a translation that the model was least sure of, and what it would have written instead, as in
// src/pellucid/interpret/trace/doubt.py.
import type { Doubt, Manifest, Side, Step } from "../types";
import { decode, encode, logits, unseen } from "./model";
import { findLargest } from "./search";
import type { Tensor } from "./tensor";
import { splitWords } from "./text";
import { BOS, EOS, PAD, UNK } from "./tokenizer";
import type { Translator } from "./translator";

const SURE = 0.7; // probability of its least likely piece from which a word is not doubted
const MOST_PIECES = 12; // of a word; where no spaces are written, its piece is named instead
const FORBIDDEN: ReadonlySet<number> = new Set([PAD, UNK, BOS]); // no search writes these

/** Finds the word that the model was least sure of; null where it was sure of all, and in a run that was changed. */
export function findDoubt(translator: Translator, { source, target, steps, edits, run }: Pick<Manifest, "source" | "target" | "steps" | "edits" | "run">): Doubt | null {
  if (edits.length || run.search.prefix) return null;
  const step = findLeastSure(target, steps);
  const word = step && target.words[step.step];
  if (!step || word === null || word === undefined) return null;
  const other = step.top.find(({ id }) => id !== step.chosen.id && !FORBIDDEN.has(id));
  if (!other) return null;
  const isWord = target.words.filter((number) => number === word).length <= MOST_PIECES;
  return {
    word,
    text: isWord ? (splitWords(target.text)[word] ?? "") : step.chosen.piece,
    step: step.step,
    prob: step.chosen.prob,
    instead: isWord ? writeWord(translator, source.ids, target.ids.slice(0, step.step), other.id, word) : other.piece,
    instead_prob: other.prob,
  };
}

/** Finds the step of the least likely piece that belongs to a word; null where all are likely enough. */
function findLeastSure(target: Side, steps: readonly Step[]): Step | null {
  let least: Step | null = null;
  for (const step of steps) {
    const { prob } = step.chosen;
    if (target.words[step.step] !== null && prob < (least?.chosen.prob ?? SURE)) least = step;
  }
  return least;
}

/**
 * Writes the word of this number with another piece at this place; the likeliest pieces follow, up to its end. A piece that goes
 * on with the word before gives that word, and one that begins a new word inside of this one gives both.
 */
function writeWord({ model, target }: Translator, source: number[], before: number[], piece: number, word: number): string {
  if (piece === EOS) return "";
  const run = { model, watch: unseen };
  const memory = encode(run, source);
  const listWritten = (ids: number[]) => splitWords(target.decode(ids));
  const written = [...before, piece];
  const begun = listWritten(written).length;
  const longest = Math.min(before.length + MOST_PIECES, model.config.max_positions - 1);
  while (written.length < longest) {
    const next = findLikeliest(logits(run, lastRow(decode(run, [BOS, ...written], memory))).values);
    if (next === EOS || listWritten([...written, next]).length > begun) break;
    written.push(next);
  }
  return listWritten(written).slice(Math.max(0, Math.min(word, begun - 1))).join(" ");
}

function findLikeliest(row: Float32Array): number {
  return findLargest(row, FORBIDDEN.size + 1).find((id) => !FORBIDDEN.has(id)) ?? EOS;
}

function lastRow({ shape, values }: Tensor): Tensor {
  const width = shape[1]!;
  return { shape: [1, width], values: values.subarray(values.length - width) };
}
