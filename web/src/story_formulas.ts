// The formulas of the story; queries, keys and values have their colours in them.
import type { JSX } from "preact";
import { display, fraction, inked, line, makeFormula, over, power, root } from "./mathml";
import { findConsumer, findTensorRow, listInputs } from "./network";
import type { StoryParts } from "./story_parts";

const makeProjection = (ink: "q" | "k" | "v") => {
  const letter = ink.toUpperCase();
  return line(inked(ink, ink), "= x", inked(ink, `W_${letter}`), "+", inked(ink, `b_${letter}`));
};

export const PROJECTIONS = display(makeProjection("q"), makeProjection("k"), makeProjection("v"));

export const PRODUCTS = display(
  line(inked("q", "q"), "·", inked("k", "k"), "=", over("∑", "e"), inked("q", "q_e"), inked("k", "k_e")),
  line('"all at once:"', inked("q", "Q"), inked("k", "K^T")),
);

export const SCORES = display(line("scores =", fraction(line(inked("q", "Q"), inked("k", "K^T")), root("d_k"))));

export const MASK = display('a_{q,k} = 1 "where" k ≤ q , "else" 0');

export const WEIGHTS = display(
  line("α_{q,k} =", fraction(power("e", "s_{q,k}"), line(over("∑", "j"), power("e", "s_{q,j}")))),
);

export const MIXTURE = display(
  line("z_q =", over("∑", "k"), "α_{q,k}", inked("v", "v_k")),
  "output = ( z^1 ; z^2 ; … ) W_O + b_O",
);

export const CROSSING = display(
  line(
    "cross = softmax (",
    fraction(line(inked("q", "Q_{dec}"), inked("k", "K_{enc}^T")), root("d_k")),
    ")",
    inked("v", "V_{enc}"),
  ),
);

export const NEXT_PIECE = display(
  line("P ( piece ) =", fraction(power("e", "logit"), line(over("∑", '"all pieces"'), power("e", "logit")))),
);

export const WHOLE_TEXT = display(line("log P ( y | x ) =", over("∑", "t"), "log P ( y_t | y_{<t} , x )"));

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
  // With the norm behind, the next sum goes on from it.
  const isPostNorm = input?.op.kind === "norm" && findConsumer(parts.manifest, input.name, "add") !== undefined;
  const activationName = parts.activation?.op.kind === "activation" ? parts.activation.op.function : "relu";
  return display(
    isPostNorm ? "x = norm ( x + part ( x ) )" : "x = x + part ( norm ( x ) )",
    activationName === "swiglu"
      ? line("part = ( silu ( x W_1 + b_1 ) ⊙ ( x W_3 + b_3 ) ) W_2 + b_2")
      : line(`part = ${activationName} ( x W_1 + b_1 ) W_2 + b_2`),
  );
}
