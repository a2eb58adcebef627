// The story: fourteen stops from the sentence to its translation, each told with the numbers of this trace.

import type { JSX } from "preact";
import type { Told } from "./format";
import { display, formulaOf, fraction, line, over, power, root } from "./mathml";
import type { Place } from "./state";
import { castOf, feedForwardFormula, positionFormula } from "./story_parts";
import { type Reader, type Teller, told } from "./story_texts";
import { type AttentionParts, rowOf, sectionOf } from "./tensor_graph";
import type { Manifest, TensorRow } from "./types";

export const STOPS = 14;

/** One stop: where to look, what to say of this sentence, the formula, and something to try. */
export interface Stop {
  title: string;
  place: Place;
  /** Whether it is told better of a later step than the first one, before which nothing was written. */
  later: boolean;
  /** The tensor whose installed source line is shown. */
  tensor: TensorRow | null;
  formula: JSX.Element;
  tell(reader: Reader): Promise<Told>;
  attempt: string;
}

/** The fourteen stops for the source piece and the step looked at. */
export function storyOf(manifest: Manifest, piece: number, step: number, canAct: boolean): Stop[] {
  const cast = castOf(manifest);
  const row = (name: string | undefined) => (name === undefined ? null : (rowOf(manifest, name) ?? null));
  const head = (parts: AttentionParts | null, at: number): Place =>
    parts ? { view: "head", section: parts.section, head: 0, row: at } : { view: "map" };
  const cell = (tensor: TensorRow | null, ...index: number[]): Place =>
    tensor ? { view: "cell", tensor: tensor.name, index } : { view: "map" };
  const { reading, writing, crossing } = cast;
  const stop = (title: string, place: Place, tensor: TensorRow | null, formula: JSX.Element, tell: Teller, attempt: string): Stop => ({
    title,
    place,
    later: tell === told.mask || tell === told.crossing || tell === told.logits,
    tensor,
    formula,
    tell: (reader: Reader) => tell(cast, reader),
    attempt,
  });
  return [
    stop(
      "A sentence comes in",
      { view: "map" },
      cast.logits,
      display(line("P ( y | x ) =", over("∏", "t"), "P ( y_t | y_{<t} , x )")),
      told.sentence,
      canAct
        ? "Press / and type a sentence of your own; everything here is then computed anew."
        : "This is a file and shows one sentence: serve the model to type your own.",
    ),
    stop(
      "Cut into pieces",
      { view: "tokens" },
      cast.embedding,
      display('"sentence" → "pieces" → "ids"'),
      told.pieces,
      "Click a piece: it stays outlined in every picture until Esc.",
    ),
    stop(
      "Each id picks a vector",
      cell(cast.embedding, piece, 0),
      cast.embedding,
      cast.embedding ? formulaOf(cast.embedding.op) : display("x_p = table [ id_p ]"),
      told.embedding,
      "Go to another number of the vector with the right arrow key.",
    ),
    stop(
      "Where it stands",
      cast.positions ? { view: "positions" } : cast.turned ? cell(cast.turned, 0, piece, 0) : { view: "map" },
      cast.positions ?? cast.turned,
      positionFormula(cast),
      told.positions,
      cast.positions
        ? "Move over two neighbouring rows, then over two that are far apart, and compare their similarity."
        : "Say the same words in another order and look whether the translation follows.",
    ),
    stop(
      "Three vectors from one",
      head(reading, piece),
      row(reading?.q),
      display("q = x W_Q + b_Q", "k = x W_K + b_K", "v = x W_V + b_V"),
      told.projections,
      "Go through the heads with [ and ]: each has matrices of its own.",
    ),
    stop(
      "Every query meets every key",
      head(reading, piece),
      row(reading?.products),
      display(line("q · k =", over("∑", "e"), "q_e k_e"), '"all at once:" Q K^T'),
      told.products,
      "Open a number of the products with Enter to see it as a sum.",
    ),
    stop(
      "Made smaller",
      head(reading, piece),
      row(reading?.scores),
      display(line("scores =", fraction("Q K^T", root("d_k")))),
      told.scores,
      "Compare the colours of products and scores: the pattern is the same, only the scale in the legend differs.",
    ),
    stop(
      "What must not be seen",
      head(writing ?? reading, writing ? step : piece),
      row((writing ?? reading)?.allowed),
      display('a_{q,k} = 1 "where" k ≤ q , "else" 0'),
      told.mask,
      "Step on with the . key: with every step one more column opens.",
    ),
    stop(
      "Scores become weights",
      head(reading, piece),
      row(reading?.pattern),
      display(line("α_{q,k} =", fraction(power("e", "s_{q,k}"), line(over("∑", "j"), power("e", "s_{q,j}"))))),
      told.pattern,
      "Guess which piece wins a row, then look.",
    ),
    stop(
      "Reading with the weights",
      head(reading, piece),
      row(reading?.output),
      display(line("z_q =", over("∑", "k"), "α_{q,k} v_k"), "output = ( z^1 ; z^2 ; … ) W_O + b_O"),
      told.mixture,
      "Open a number of the head's output with Enter: it is the weights times the values.",
    ),
    stop(
      "Add, norm, think, repeat",
      cast.active ? { view: "block", section: sectionOf(cast.active.name) } : { view: "map" },
      cast.active,
      feedForwardFormula(cast),
      told.feedForward,
      "Open the same block one layer up with } and see other units answer.",
    ),
    stop(
      "The decoder looks back at the source",
      head(crossing, step),
      row(crossing?.pattern),
      display(line("cross = softmax (", fraction("Q_{decoder} K_{encoder}^T", root("d_k")), ") V_{encoder}")),
      told.crossing,
      "Step with , and . : the attended source piece moves with the word that is written.",
    ),
    stop(
      "One number for each piece",
      { view: "output" },
      cast.logits,
      display(line("P ( piece ) =", fraction(power("e", "logit"), line(over("∑", '"all pieces"'), power("e", "logit"))))),
      told.logits,
      "Look at what adds to its logit, then compare with the runner-up.",
    ),
    stop(
      "Write it down, go on",
      { view: manifest.tree ? "beam" : "output" },
      cast.logits,
      display(line("log P ( y | x ) =", over("∑", "t"), "log P ( y_t | y_{<t} , x )")),
      told.search,
      manifest.tree && canAct ? "Click a dashed node: its own trace opens." : "Go back to the first step with the , key and walk through all of them.",
    ),
  ];
}
