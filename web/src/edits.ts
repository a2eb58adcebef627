// Edits of a run described in words, and two runs compared step by step.

import { formatSigned, quotePiece } from "./format";
import { describeSection } from "./tensor_graph";
import type { EditSpec, Manifest, Side } from "./types";

export function describeEdit(edit: EditSpec, source: Side): string {
  switch (edit.kind) {
    case "silence":
      return `${describeSection(edit.attention)}, head ${edit.head + 1} is silenced`;
    case "pattern":
      return `${describeSection(edit.attention)}, head ${edit.head + 1} reads with given weights in row ${edit.row}`;
    case "hide":
      return `the source word “${listWords(source)[edit.word] ?? edit.word}” is hidden`;
    case "prefix":
      return `the translation begins with “${edit.text}”`;
  }
}

export function listWords(side: Side): string[] {
  return side.text.split(/\s+/).filter(Boolean);
}

export interface StepPair {
  step: number;
  before: { piece: string; prob: number; log_prob: number } | null;
  after: { piece: string; prob: number; log_prob: number } | null;
}

/** Pairs the steps of two runs; null where one had already ended. */
export function pairSteps(before: Manifest, after: Manifest): StepPair[] {
  const length = Math.max(before.steps.length, after.steps.length);
  return Array.from({ length }, (_, step) => ({
    step,
    before: before.steps[step]?.chosen ?? null,
    after: after.steps[step]?.chosen ?? null,
  }));
}

/** Describes in a sentence how the second translation differs from the first. */
export function describeDifference(before: Manifest, after: Manifest): string {
  const change = formatSigned(after.log_prob - before.log_prob);
  if (before.target.ids.join() === after.target.ids.join()) return `The pieces are the same; log P changes by ${change}.`;
  const first = before.target.ids.findIndex((id, i) => id !== after.target.ids[i]);
  const firstChange = first < 0 ? before.target.ids.length : first;
  const [pieceBefore, pieceAfter] = [before.target.pieces[firstChange], after.target.pieces[firstChange]];
  const describePiece = (piece: string | undefined) => (piece === undefined ? "nothing more" : quotePiece(piece));
  return `They first differ at step ${firstChange + 1}: ${describePiece(pieceBefore)} before, ${describePiece(pieceAfter)} after; log P changes by ${change}.`;
}
