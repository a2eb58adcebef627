// Links between the two sentences, read from cross-attention: whole rows, shifted rows, or sums over words.

import type { Manifest, Side } from "./types";

/** Meaning of a row of the decoder: the piece it writes, or the piece it has read. */
export type RowMeaning = "writes" | "reads";

/** A unit of one side that can be linked: a piece, a word or a special token. */
export interface LinkUnit {
  text: string;
  pieces: number[];
}

export interface AlignmentLink {
  source: number; // number of a unit
  target: number;
  weight: number;
}

export interface AlignmentLinks {
  sources: LinkUnit[];
  targets: LinkUnit[];
  links: AlignmentLink[]; // those whose weight reaches the threshold
  hiddenWeight: number; // weight of a target unit that is not drawn, averaged over the units
}

export function listUnits(side: Side, byWord: boolean): LinkUnit[] {
  const words = side.text.split(/\s+/).filter(Boolean);
  const units: (LinkUnit & { word: number | null })[] = [];
  side.pieces.forEach((piece, index) => {
    const word = side.words[index] ?? null;
    const previous = units.at(-1);
    if (byWord && previous && word !== null && previous.word === word) previous.pieces.push(index);
    else units.push({ text: byWord && word !== null ? (words[word] ?? piece) : piece, pieces: [index], word });
  });
  return units.map(({ text, pieces }) => ({ text, pieces }));
}

/**
 * Finds the links that reach a weight. `weights` is (T, S); row t belongs to decoder position t, which writes target piece t
 * and has read piece t - 1. Weights are summed over the source pieces of a word and averaged over its target pieces.
 */
export function findLinks(manifest: Manifest, weights: Float32Array, rowMeaning: RowMeaning, byWord: boolean, minWeight: number): AlignmentLinks {
  const sources = listUnits(manifest.source, byWord);
  const targets = listUnits(manifest.target, byWord);
  const width = manifest.source.pieces.length;
  const rowCount = weights.length / Math.max(1, width);
  const findRow = (piece: number) => (rowMeaning === "writes" ? piece : piece + 1);
  const links: AlignmentLink[] = [];
  let [hidden, linkedTargets] = [0, 0];
  targets.forEach((target, t) => {
    const targetRows = target.pieces.map(findRow).filter((row) => row < rowCount);
    if (!targetRows.length) return;
    linkedTargets++;
    sources.forEach((source, s) => {
      let sum = 0;
      for (const row of targetRows) for (const key of source.pieces) sum += weights[row * width + key] ?? NaN;
      const weight = sum / targetRows.length;
      if (weight >= minWeight) links.push({ source: s, target: t, weight });
      else hidden += weight;
    });
  });
  return { sources, targets, links, hiddenWeight: hidden / Math.max(1, linkedTargets) };
}
