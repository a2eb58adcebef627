// Edits of a run in words, and the probabilities of two runs beside each other.

import { quoted, signed } from "./format";
import { sectionInWords } from "./tensor_graph";
import type { EditSpec, Manifest, Side } from "./types";

export function editInWords(edit: EditSpec, source: Side): string {
  switch (edit.kind) {
    case "silence":
      return `${sectionInWords(edit.attention)}, head ${edit.head + 1} is silent`;
    case "pattern":
      return `${sectionInWords(edit.attention)}, head ${edit.head + 1} reads with given weights in row ${edit.row}`;
    case "hide":
      return `the source word “${wordsOf(source)[edit.word] ?? edit.word}” is hidden`;
    case "prefix":
      return `the translation begins with “${edit.text}”`;
  }
}

export function wordsOf(side: Side): string[] {
  return side.text.split(/\s+/).filter(Boolean);
}

export interface Pair {
  step: number;
  before: { piece: string; prob: number; log_prob: number } | null;
  after: { piece: string; prob: number; log_prob: number } | null;
}

/** Step by step what either wrote; null where one had already ended. */
export function pairsOf(before: Manifest, after: Manifest): Pair[] {
  const length = Math.max(before.steps.length, after.steps.length);
  return Array.from({ length }, (_, step) => ({
    step,
    before: before.steps[step]?.chosen ?? null,
    after: after.steps[step]?.chosen ?? null,
  }));
}

/** What the second run made of the first one's translation, in a sentence. */
export function differenceInWords(before: Manifest, after: Manifest): string {
  const change = signed(after.log_prob - before.log_prob);
  if (before.target.ids.join() === after.target.ids.join()) return `The pieces are the same; log P changes by ${change}.`;
  const first = before.target.ids.findIndex((id, i) => id !== after.target.ids[i]);
  const at = first < 0 ? before.target.ids.length : first;
  const [one, other] = [before.target.pieces[at], after.target.pieces[at]];
  const tell = (piece: string | undefined) => (piece === undefined ? "nothing more" : quoted(piece));
  return `They part at step ${at + 1}: first ${tell(one)}, then ${tell(other)}; log P changes by ${change}.`;
}
