// The parts of a model that the story walks through, and the numbers of them that its texts name.
import { quotePiece } from "./format";
import {
  type AttentionParts,
  findConsumer,
  findEmbedding,
  findLogits,
  findPositions,
  findRotatedQueries,
  findTensorRow,
  listAttentions,
  listLabels,
} from "./network";
import type { ChosenHead, StoryChoice } from "./story_choice";
import type { Manifest, TensorRow } from "./types";

/**
 * The piece and the step that the story follows, and a function that fetches a tensor; it rejects where nothing was
 * captured.
 */
export interface StoryReader {
  piece: number; // row of S
  step: number; // row of T
  readValues(name: string): Promise<Float32Array>;
}

/** The parts of this model that the story walks through; null where the model has none. */
export interface StoryParts {
  manifest: Manifest;
  embedding: TensorRow | null;
  positions: TensorRow | null;
  embedded: TensorRow | null; // the embedding with its position added
  rotatedQueries: TensorRow | null;
  self: ChosenHead | null; // of the encoder
  masked: AttentionParts | null; // the first attention in which the future is masked
  cross: ChosenHead | null; // from the decoder to the source
  activation: TensorRow | null; // the inner units of the feed-forward behind that head of the encoder
  logits: TensorRow | null;
}

export function findStoryParts(manifest: Manifest, { self, cross }: StoryChoice): StoryParts {
  const embedding = findEmbedding(manifest, "source") ?? null;
  const isCausal = (parts: AttentionParts) => findTensorRow(manifest, parts.allowed)?.op.kind === "causal";
  const behind = manifest.tensors.findIndex((row) => row.name === self?.parts.output);
  return {
    manifest,
    embedding,
    positions: findPositions(manifest, "source") ?? null,
    embedded: (embedding && findConsumer(manifest, embedding.name, "add")) ?? null,
    rotatedQueries: findRotatedQueries(manifest) ?? null,
    self,
    masked: listAttentions(manifest).find(isCausal) ?? null,
    cross,
    activation: manifest.tensors.find((row, i) => row.op.kind === "activation" && i > behind) ?? null,
    logits: findLogits(manifest) ?? null,
  };
}

/** A row of weights of one head: the query, the key with the largest weight, and their names. */
export interface WeightRow {
  query: number;
  best: number;
  weight: number;
  name: string;
  bestName: string;
  width: number; // of the vectors of the head
}

/** Reads the row of a query of a head, and finds the key that it attends to most. */
export async function readWeightRow(
  manifest: Manifest,
  chosen: ChosenHead,
  query: number,
  reader: StoryReader,
): Promise<WeightRow> {
  const { parts } = chosen;
  const weights = await readRow(manifest, parts.pattern, chosen.head, query, reader);
  const best = findLargest(weights);
  return {
    query,
    best,
    weight: weights[best] ?? NaN,
    name: quotePiece(listLabels(manifest, parts.queryDim)[query]),
    bestName: quotePiece(listLabels(manifest, parts.keyDim)[best]),
    width: findTensorRow(manifest, parts.q)?.shape.at(-1) ?? 0,
  };
}

/** Reads one row of one head of a tensor with three dimensions; a tensor of one head is the same for all. */
export async function readRow(
  manifest: Manifest,
  name: string,
  head: number,
  position: number,
  reader: StoryReader,
): Promise<Float32Array> {
  const [heads = 1, rows = 0, width = 0] = findTensorRow(manifest, name)?.shape ?? [];
  const start = (Math.min(head, heads - 1) * rows + position) * width;
  return (await reader.readValues(name)).subarray(start, start + width);
}

/** Finds the index of the largest number, the first of equals. */
export function findLargest(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if ((values[i] ?? -Infinity) > (values[best] ?? -Infinity)) best = i;
  return best;
}
