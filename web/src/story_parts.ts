// The parts of a model that the story walks through, and the formulas that differ from model to model.

import type { JSX } from "preact";
import { display, fraction, line, makeFormula, power } from "./mathml";
import {
  type AttentionParts,
  findConsumer,
  findEmbedding,
  findLogits,
  findPositions,
  findRotatedQueries,
  findTensorRow,
  listAttentions,
  listInputs,
} from "./tensor_graph";
import type { Manifest, TensorRow } from "./types";

/** The parts of this model that the story walks through; null where the model has none. */
export interface StoryParts {
  manifest: Manifest;
  embedding: TensorRow | null;
  positions: TensorRow | null;
  rotatedQueries: TensorRow | null;
  encoderSelf: AttentionParts | null; // the first attention of the encoder
  decoderSelf: AttentionParts | null; // the first in which the future is masked
  cross: AttentionParts | null; // the last from the decoder to the source
  activation: TensorRow | null; // the first feed-forward's inner units
  logits: TensorRow | null;
}

export function findStoryParts(manifest: Manifest): StoryParts {
  const attentions = listAttentions(manifest).filter((parts) => parts.heads > 0);
  const isCausal = (parts: AttentionParts) => findTensorRow(manifest, parts.allowed)?.op.kind === "causal";
  return {
    manifest,
    embedding: findEmbedding(manifest, "source") ?? null,
    positions: findPositions(manifest, "source") ?? null,
    rotatedQueries: findRotatedQueries(manifest) ?? null,
    encoderSelf: attentions.find((parts) => parts.queryDim === "S") ?? null,
    decoderSelf: attentions.find(isCausal) ?? null,
    cross: attentions.findLast((parts) => parts.queryDim === "T" && parts.keyDim === "S") ?? null,
    activation: manifest.tensors.find((row) => row.op.kind === "activation") ?? null,
    logits: findLogits(manifest) ?? null,
  };
}

/** Makes the formula by which positions enter this model. */
export function makePositionFormula(parts: StoryParts): JSX.Element {
  if (parts.positions) return makeFormula(parts.positions.op);
  if (!parts.rotatedQueries) return display("x = embedding");
  return display(
    line("angle_i =", fraction("p", power("10000", "2 i / d_k"))),
    line("q_{2i} = x_{2i} cos - x_{2i+1} sin"),
    line("q_{2i+1} = x_{2i} sin + x_{2i+1} cos"),
  );
}

/** Makes the formulas of the residual, with its norm before or after, and of the feed-forward with its activation. */
export function makeFeedForwardFormula(parts: StoryParts): JSX.Element {
  const inner = parts.activation && findTensorRow(parts.manifest, listInputs(parts.activation.op)[0] ?? "");
  const input = inner && findTensorRow(parts.manifest, listInputs(inner.op)[0] ?? "");
  const isPostNorm =
    input?.op.kind === "norm" && findConsumer(parts.manifest, input.name, "add") !== undefined; // the sum goes on from the norm
  const activationName = parts.activation?.op.kind === "activation" ? parts.activation.op.function : "relu";
  return display(
    isPostNorm ? "x = norm ( x + part ( x ) )" : "x = x + part ( norm ( x ) )",
    activationName === "swiglu"
      ? line("part = ( silu ( x W_1 + b_1 ) ⊙ ( x W_3 + b_3 ) ) W_2 + b_2")
      : line(`part = ${activationName} ( x W_1 + b_1 ) W_2 + b_2`),
  );
}
