// Links between the two sentences, read from cross-attention: whole rows, shifted rows, or sums over words.

import type { Manifest, Side } from "./types";

/** What a row of the decoder is taken for: the piece it writes, or the piece it has read. */
export type Reading = "writes" | "reads";

/** Units of one side that are linked: pieces, or words with the marks between them. */
export interface Unit {
  text: string;
  pieces: number[];
}

export interface Link {
  source: number; // number of a unit
  target: number;
  weight: number;
}

export interface Links {
  sources: Unit[];
  targets: Unit[];
  links: Link[]; // those of the least weight or more
  hidden: number; // weight of a target unit that is not drawn, in the mean
}

export function unitsOf(side: Side, byWord: boolean): Unit[] {
  const spelled = side.text.split(/\s+/).filter(Boolean);
  const units: (Unit & { word: number | null })[] = [];
  side.pieces.forEach((piece, index) => {
    const word = side.words[index] ?? null;
    const last = units.at(-1);
    if (byWord && last && word !== null && last.word === word) last.pieces.push(index);
    else units.push({ text: byWord && word !== null ? (spelled[word] ?? piece) : piece, pieces: [index], word });
  });
  return units.map(({ text, pieces }) => ({ text, pieces }));
}

/**
 * `weights` is (T, S), row t that of decoder position t, which writes target piece t and has read piece t - 1. Source pieces
 * of a word are added up, target pieces averaged.
 */
export function linksOf(manifest: Manifest, weights: Float32Array, reading: Reading, byWord: boolean, least: number): Links {
  const sources = unitsOf(manifest.source, byWord);
  const targets = unitsOf(manifest.target, byWord);
  const width = manifest.source.pieces.length;
  const rows = weights.length / Math.max(1, width);
  const rowOf = (piece: number) => (reading === "writes" ? piece : piece + 1);
  const links: Link[] = [];
  let [hidden, drawn] = [0, 0];
  targets.forEach((target, t) => {
    const known = target.pieces.map(rowOf).filter((row) => row < rows);
    if (!known.length) return;
    drawn++;
    sources.forEach((source, s) => {
      let sum = 0;
      for (const row of known) for (const key of source.pieces) sum += weights[row * width + key] ?? NaN;
      const weight = sum / known.length;
      if (weight >= least) links.push({ source: s, target: t, weight });
      else hidden += weight;
    });
  });
  return { sources, targets, links, hidden: hidden / Math.max(1, drawn) };
}
