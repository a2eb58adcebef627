// What the story tells of: the word, the heads and the step in which most can be seen of attention.
import { findTensorRow, listAttentions, type AttentionParts } from "./network";
import type { HeadStudyAnswer, Manifest } from "./types";

/** A head that a story looks at. */
export interface ChosenHead {
  parts: AttentionParts;
  head: number;
}

export interface StoryChoice {
  piece: number; // row of S
  step: number; // row of T
  /** The head of the encoder in which the word reads another. */
  self: ChosenHead | null;
  /** The head of the decoder that reads the word at that step. */
  cross: ChosenHead | null;
}

type ReadValues = (name: string) => Promise<Float32Array>;

/** One weight of one head, with what it tells: the weight times the cost of silencing the head. */
interface Reading extends ChosenHead {
  query: number;
  key: number;
  tells: number;
}

/**
 * Chooses what the story tells of. Among all heads of the encoder the one with the largest weight of a word on another,
 * times what silencing the head costs the model; where this was not measured, or costs nothing, the weight alone
 * counts. Then, among the heads that read the source from the decoder, the one that reads that word the most, by the same
 * measure. A piece that the reader follows is kept.
 */
export async function chooseStory(
  manifest: Manifest,
  study: HeadStudyAnswer | null,
  followed: number | null,
  readValues: ReadValues,
): Promise<StoryChoice> {
  const fallback = chooseWithoutNumbers(manifest, followed);
  const attentions = listAttentions(manifest).filter((parts) => findTensorRow(manifest, parts.pattern)?.captured);
  const selves = attentions.filter((parts) => parts.queryDim === "S" && parts.keyDim === "S");
  const crosses = attentions.filter((parts) => parts.queryDim === "T" && parts.keyDim === "S");
  const isWord = makeWordTest(manifest);
  const among = async (candidates: AttentionParts[], accepts: (query: number, key: number) => boolean) => {
    const patterns = await Promise.all(candidates.map((parts) => readValues(parts.pattern)));
    return findMostTelling(manifest, candidates, patterns, study, accepts);
  };
  const readsAnother = (query: number, key: number) => isWord(query) && isWord(key) && query !== key;
  const self = await among(selves, (query, key) => readsAnother(query, key) && query === (followed ?? query));
  const piece = followed ?? self?.query ?? fallback.piece;
  const cross = await among(crosses, (step, key) => key === piece && writesWord(manifest, step));
  return { piece, step: cross?.query ?? fallback.step, self: self ?? fallback.self, cross: cross ?? fallback.cross };
}

/**
 * Chooses without looking at weights: the second piece, which is rarely an article, and the first head of each kind.
 */
export function chooseWithoutNumbers(manifest: Manifest, followed: number | null): StoryChoice {
  const attentions = listAttentions(manifest);
  const makeFirst = (parts: AttentionParts | undefined): ChosenHead | null => (parts ? { parts, head: 0 } : null);
  return {
    piece: followed ?? Math.min((manifest.source.context ?? 0) + 1, manifest.source.pieces.length - 1),
    step: Math.min(2, manifest.steps.length - 1),
    self: makeFirst(attentions.find((parts) => parts.queryDim === "S")),
    cross: makeFirst(attentions.findLast((parts) => parts.queryDim === "T" && parts.keyDim === "S")),
  };
}

const LETTER = /[\p{L}\p{N}]/u;

/** Makes a test whether a source piece is of a word of the sentence, and no end token or full stop. */
function makeWordTest({ source }: Manifest): (position: number) => boolean {
  return (position) => {
    const isSpecial = (source.words[position] ?? null) === null;
    return position >= (source.context ?? 0) && !isSpecial && LETTER.test(source.pieces[position] ?? "");
  };
}

function writesWord({ steps }: Manifest, step: number): boolean {
  return LETTER.test(steps[step]?.chosen.piece ?? "");
}

/** Finds the weight that tells most; the first of equals. */
function findMostTelling(
  manifest: Manifest,
  attentions: AttentionParts[],
  patterns: Float32Array[],
  study: HeadStudyAnswer | null,
  accepts: (query: number, key: number) => boolean,
): Reading | null {
  const costs = attentions.map((parts) => listCosts(parts, study));
  const isMeasured = costs.some((ofHeads) => ofHeads.some((cost) => cost > 0));
  let best: Reading | null = null;
  attentions.forEach((parts, i) => {
    const [heads = 0, queries = 0, keys = 0] = findTensorRow(manifest, parts.pattern)?.shape ?? [];
    for (let head = 0; head < heads; head++) {
      const cost = isMeasured ? (costs[i]?.[head] ?? 0) : 1;
      for (let query = 0; query < queries; query++) {
        for (let key = 0; key < keys; key++) {
          const tells = cost * (patterns[i]?.[(head * queries + query) * keys + key] ?? 0);
          if (tells > (best?.tells ?? 0) && accepts(query, key)) best = { parts, head, query, key, tells };
        }
      }
    }
  });
  return best;
}

/** Lists what the loss grows by without each head of an attention; 0 where it does not, or where this is not known. */
function listCosts(parts: AttentionParts, study: HeadStudyAnswer | null): number[] {
  return Array.from({ length: parts.heads }, (_, head) => {
    const entry = study?.study?.heads.find((other) => other.attention === parts.section && other.head === head);
    return Math.max(0, entry?.silent ?? 0);
  });
}
