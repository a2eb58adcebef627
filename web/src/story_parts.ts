// The parts of a model that the story walks through, and the formulas that differ from model to model.

import type { JSX } from "preact";
import { display, formulaOf, fraction, line, power } from "./mathml";
import { type AttentionParts, attentions, embeddingOf, inputsOf, logitsOf, positionsOf, rowOf, turnedOf, using } from "./tensor_graph";
import type { Manifest, TensorRow } from "./types";

/** The parts of this model that the story walks through; null where the model has none. */
export interface Cast {
  manifest: Manifest;
  embedding: TensorRow | null;
  positions: TensorRow | null;
  turned: TensorRow | null;
  reading: AttentionParts | null; // the first attention of the encoder
  writing: AttentionParts | null; // the first in which the future is masked
  crossing: AttentionParts | null; // the last from the decoder to the source
  active: TensorRow | null; // the first feed-forward's inner units
  logits: TensorRow | null;
}

export function castOf(manifest: Manifest): Cast {
  const all = attentions(manifest).filter((parts) => parts.heads > 0);
  const causal = (parts: AttentionParts) => rowOf(manifest, parts.allowed)?.op.kind === "causal";
  return {
    manifest,
    embedding: embeddingOf(manifest, "source") ?? null,
    positions: positionsOf(manifest, "source") ?? null,
    turned: turnedOf(manifest) ?? null,
    reading: all.find((parts) => parts.reader === "S") ?? null,
    writing: all.find(causal) ?? null,
    crossing: all.findLast((parts) => parts.reader === "T" && parts.read === "S") ?? null,
    active: manifest.tensors.find((row) => row.op.kind === "activation") ?? null,
    logits: logitsOf(manifest) ?? null,
  };
}

/** How order enters this model. */
export function positionFormula(cast: Cast): JSX.Element {
  if (cast.positions) return formulaOf(cast.positions.op);
  if (!cast.turned) return display("x = embedding");
  return display(
    line("angle_i =", fraction("p", power("10000", "2 i / d_k"))),
    line("q_{2i} = x_{2i} cos - x_{2i+1} sin"),
    line("q_{2i+1} = x_{2i} sin + x_{2i+1} cos"),
  );
}

/** Norm before or after each part, as the operations say, and the feed-forward with its activation. */
export function feedForwardFormula(cast: Cast): JSX.Element {
  const inner = cast.active && rowOf(cast.manifest, inputsOf(cast.active.op)[0] ?? "");
  const read = inner && rowOf(cast.manifest, inputsOf(inner.op)[0] ?? "");
  const normedAfter =
    read?.op.kind === "norm" && using(cast.manifest, read.name, "add") !== undefined; // the sum goes on from the norm
  const activation = cast.active?.op.kind === "activation" ? cast.active.op.function : "relu";
  return display(
    normedAfter ? "x = norm ( x + part ( x ) )" : "x = x + part ( norm ( x ) )",
    activation === "swiglu"
      ? line("part = ( silu ( x W_1 + b_1 ) ⊙ ( x W_3 + b_3 ) ) W_2 + b_2")
      : line(`part = ${activation} ( x W_1 + b_1 ) W_2 + b_2`),
  );
}
