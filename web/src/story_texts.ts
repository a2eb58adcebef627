// The text of each stop of the story for the sentence shown, and the parts of the model that the story walks through.
import type { JSX } from "preact";
import { formatCount, formatQuantity, quotePiece, type RichText, richText } from "./format";
import { display, fraction, line, makeFormula, power } from "./mathml";
import { countPieces, countScored, sumOf } from "./measures";
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
  listLabels,
  listWords,
} from "./network";
import type { Manifest, TensorRow } from "./types";

/** The piece and the step that the story follows, and a function that fetches a tensor; it rejects where nothing was captured. */
export interface StoryReader {
  piece: number; // row of S
  step: number; // row of T
  readValues(name: string): Promise<Float32Array>;
}

const NO_SUCH_PART = richText`This model has no such part.`;

export const STORY_TEXTS = {
  async sentence({ manifest }: StoryParts): Promise<RichText> {
    const { source, target, model, context } = manifest;
    const words = listWords(source).length - (context ? 1 : 0); // the start token between both sentences is none
    const text = context ? `${context}” and “${manifest.sentence}` : source.text;
    return richText`The model reads the ${formatQuantity(words, "word")} of “${text}” all at once and then writes “${target.text}”, one piece after another. It does so with ${formatCount(model.parameters)} trained numbers; that is all it knows.`;
  },

  async pieces({ manifest }: StoryParts, { piece }: StoryReader): Promise<RichText> {
    const { source } = manifest;
    const words = new Set(source.words.filter((word) => word !== null)).size - (manifest.context ? 1 : 0);
    return richText`A piece is a word or a part of one; the model knows no other text than its pieces. Here ${formatQuantity(words, "word")} became ${formatQuantity(source.pieces.length, "piece")}, in which ▁ stands for a space. ${quotePiece(source.pieces[piece])} has the number ${source.ids[piece] ?? NaN}, its id, in the list of all pieces; ${quotePiece(source.pieces.at(-1))} marks the end of the sentence.`;
  },

  async embedding({ manifest, embedding }: StoryParts, { piece, readValues }: StoryReader): Promise<RichText> {
    if (embedding?.op.kind !== "lookup") return NO_SUCH_PART;
    const width = embedding.shape.at(-1) ?? 0;
    const first = (await readValues(embedding.name)).subarray(piece * width);
    const scaled = embedding.op.scale === 1 ? richText`` : richText`, each multiplied by ${embedding.op.scale}`;
    return richText`The id of ${quotePiece(manifest.source.pieces[piece])}, ${manifest.source.ids[piece] ?? NaN}, picks that row of a trained table: ${formatCount(width)} numbers${scaled}. They start with ${first[0] ?? NaN}, ${first[1] ?? NaN}, ${first[2] ?? NaN}.`;
  },

  async positions({ manifest, embedding, positions, rotatedQueries }: StoryParts, { piece, readValues }: StoryReader): Promise<RichText> {
    const name = quotePiece(manifest.source.pieces[piece]);
    if (!positions || !embedding) {
      return rotatedQueries
        ? richText`This model does not add a vector for the position of a piece. Instead it rotates the queries and keys of self-attention, those of ${name} by ${piece} times an angle that differs for each pair of numbers.`
        : richText`This model gets no information about positions: to it a sentence is a bag of pieces.`;
    }
    const width = positions.shape.at(-1) ?? 0;
    const positionValue = (await readValues(positions.name))[piece * width] ?? NaN;
    const before = (await readValues(embedding.name))[piece * width] ?? NaN;
    const sum = findConsumer(manifest, embedding.name, "add");
    const after = sum ? ((await readValues(sum.name))[piece * width] ?? NaN) : NaN;
    return richText`Without this the model could not tell one order of the pieces from another. ${name} stands at position ${piece}, counted from 0. The vector of that position is added to its embedding, number by number; the first number: ${before} + ${positionValue} = ${after}.`;
  },

  async projections({ manifest, encoderSelf }: StoryParts, { piece, readValues }: StoryReader): Promise<RichText> {
    if (!encoderSelf) return NO_SUCH_PART;
    const width = findTensorRow(manifest, encoderSelf.q)?.shape.at(-1) ?? 0;
    const readFirst = async (name: string) => (await readValues(name))[piece * width] ?? NaN;
    const name = quotePiece(manifest.source.pieces[piece]);
    return richText`From the vector of ${name}, head 1 of ${formatCount(encoderSelf.heads)} makes three vectors of ${formatCount(width)} numbers: what it looks for (q, starting with ${await readFirst(encoderSelf.q)}), what others can find it by (k, ${await readFirst(encoderSelf.k)}) and what it passes on when it is read (v, ${await readFirst(encoderSelf.v)}).`;
  },

  async products({ manifest, encoderSelf }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!encoderSelf) return NO_SUCH_PART;
    const { best, name, width } = await findStrongestKey(manifest, encoderSelf, reader.piece, reader);
    const product = (await readRow(manifest, encoderSelf.products, reader.piece, reader))[best] ?? NaN;
    const n = listLabels(manifest, encoderSelf.keyDim).length;
    return richText`The query of ${name} times the key of ${quotePiece(listLabels(manifest, encoderSelf.keyDim)[best])}: ${formatCount(width)} products of two numbers add up to ${product}; the larger the sum, the better the two fit. Every piece is compared with every piece, so each head has ${formatCount(n)} × ${formatCount(n)} such numbers.`;
  },

  async scores({ manifest, encoderSelf }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!encoderSelf) return NO_SUCH_PART;
    const { best, width } = await findStrongestKey(manifest, encoderSelf, reader.piece, reader);
    const product = (await readRow(manifest, encoderSelf.products, reader.piece, reader))[best] ?? NaN;
    const score = (await readRow(manifest, encoderSelf.scores, reader.piece, reader))[best] ?? NaN;
    if (findTensorRow(manifest, encoderSelf.scores)?.edited) return richText`In this run nothing is divided by √${formatCount(width)}: ${product} stays ${score}. A sum of ${formatCount(width)} products is large simply because it is long, and softmax of large numbers gives nearly all weight to one piece.`;
    return richText`${product} / √${formatCount(width)} = ${score}. A sum of ${formatCount(width)} products is large simply because it is long; divided by √${formatCount(width)}, it stays in a range where softmax still gives weight to several pieces.`;
  },

  async mask({ manifest, decoderSelf, encoderSelf }: StoryParts, { step, readValues }: StoryReader): Promise<RichText> {
    if (!decoderSelf) {
      const n = listLabels(manifest, encoderSelf?.keyDim ?? "S").length;
      return richText`Nothing is masked here: all ${formatQuantity(n, "piece")} may be read.`;
    }
    const pieces = listLabels(manifest, decoderSelf.queryDim);
    const n = pieces.length;
    const allowed = Array.from(await readValues(decoderSelf.allowed)).slice(step * n, (step + 1) * n);
    if (findTensorRow(manifest, decoderSelf.allowed)?.edited) return richText`In this run there is no mask: ${quotePiece(pieces[step])}, at position ${step}, attends to all ${formatQuantity(n, "piece")}, also to those that it should predict. The model never learned to read them.`;
    const readable = allowed.filter((value) => value !== 0).length;
    const readText = step === 0 ? "only itself, because nothing comes before it" : `itself and the ${formatQuantity(readable - 1, "piece")} before it`;
    const maskedText = n - readable === 0 ? "nothing comes after it yet" : `the ${formatQuantity(n - readable, "piece")} after it get weight 0`;
    return richText`In the decoder ${quotePiece(pieces[step])}, at position ${step}, may attend to ${readText}; ${maskedText}. So what is written never depends on what comes later. In the encoder every piece may be read.`;
  },

  async pattern({ manifest, encoderSelf }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!encoderSelf) return NO_SUCH_PART;
    const { best, weights, name } = await findStrongestKey(manifest, encoderSelf, reader.piece, reader);
    const sum = sumOf(weights);
    return richText`Softmax turns the scores of a row into weights that add up to ${sum}. In head 1, ${name} attends most to ${{ guess: quotePiece(listLabels(manifest, encoderSelf.keyDim)[best]) }}, with weight ${weights[best] ?? NaN} of 1.`;
  },

  async mixture({ manifest, encoderSelf }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!encoderSelf) return NO_SUCH_PART;
    const { best, weights, name, width } = await findStrongestKey(manifest, encoderSelf, reader.piece, reader);
    const value = (await reader.readValues(encoderSelf.v))[best * width] ?? NaN;
    const mixed = (await reader.readValues(encoderSelf.headOutput))[reader.piece * width] ?? NaN;
    const bestPiece = quotePiece(listLabels(manifest, encoderSelf.keyDim)[best]);
    return richText`Head 1 adds up the values of all pieces, each times its weight. For the first number of ${name}, ${bestPiece} contributes ${weights[best] ?? NaN} × ${value}; together with the other pieces the sum is ${mixed}. The ${formatQuantity(encoderSelf.heads, "head")} side by side, ${formatCount(encoderSelf.heads * width)} numbers, are then multiplied by one more trained matrix, W_O.`;
  },

  async feedForward(parts: StoryParts, { piece, readValues }: StoryReader): Promise<RichText> {
    const { manifest, encoderSelf, activation } = parts;
    const sum = encoderSelf && findConsumer(manifest, encoderSelf.output, "add");
    if (!encoderSelf || !activation || !sum) return NO_SUCH_PART;
    const width = sum.shape.at(-1) ?? 0;
    const added = (await readValues(encoderSelf.output))[piece * width] ?? NaN;
    const after = (await readValues(sum.name))[piece * width] ?? NaN;
    const units = activation.shape.at(-1) ?? 0;
    const unitValues = (await readValues(activation.name)).subarray(piece * units, (piece + 1) * units);
    const layers = manifest.tensors.filter((row) => row.op.kind === "activation" && row.dims[0] === activation.dims[0]).length;
    return richText`What attention found is added to the vector of ${quotePiece(manifest.source.pieces[piece])}: ${added} to its first number, which is then ${after}. Next comes the feed-forward, which sees one position at a time: of its ${formatCount(units)} inner units, ${describeUnits(activation, unitValues)}. Attention and feed-forward each come with a norm, which brings a vector to mean 0 and variance 1 and rescales it. All of this happens in each of ${formatQuantity(layers, "layer")}.`;
  },

  async crossing({ manifest, cross }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!cross) return NO_SUCH_PART;
    const { mean, best } = await averageRow(manifest, cross, reader);
    const input = manifest.inputs.pieces[reader.step];
    const opening = reader.step === 0 ? `Before anything is written, the decoder reads BOS, the start token, shown as ${quotePiece(input)}` : `At this step the decoder reads ${quotePiece(input)}, the piece written last`;
    return richText`${opening}. Its queries are compared with the keys of the source: on average over the ${formatQuantity(cross.heads, "head")} of the last layer it attends most to ${{ guess: quotePiece(manifest.source.pieces[best]) }}, with weight ${mean[best] ?? NaN}.`;
  },

  async logits({ manifest }: StoryParts, { step }: StoryReader): Promise<RichText> {
    const current = manifest.steps[step];
    if (!current) return NO_SUCH_PART;
    const runnerUp = current.top.find((candidate) => candidate.id !== current.chosen.id);
    const second = runnerUp ? richText`; ${quotePiece(runnerUp.piece)} has ${runnerUp.logit} and ${runnerUp.prob}` : richText``;
    const first = current.rank === 1 ? "the largest logit" : `logit number ${current.rank}`;
    return richText`The last vector gives each of ${formatCount(current.top.length + current.others_count)} pieces one number, its logit. ${quotePiece(current.chosen.piece)} has ${first}, ${current.chosen.logit}, and softmax turns it into probability ${current.chosen.prob}${second}.`;
  },

  async search({ manifest }: StoryParts): Promise<RichText> {
    const { tree, steps, target } = manifest;
    const ended = manifest.stop === "eos" ? `until ${quotePiece(target.pieces.at(-1))}` : "until the maximum length";
    const summary = richText`Each piece that is written is read at the next step, ${ended}: ${formatQuantity(steps.length, "step")} here. The logarithms of their probabilities add up to log P = ${manifest.log_prob}.`;
    if (!tree) return richText`${summary} ${manifest.forced ? "This translation was given, not searched for." : "There is no beam tree: this trace was not made by a search."}`;
    const pruned = tree.nodes.filter((node) => node.fate === "pruned").length;
    return richText`${summary} The beam kept the best ${formatQuantity(tree.width, "beginning")} at each step and scored every piece after each of them, ${formatQuantity(countScored(tree, countPieces(manifest)), "candidate")} in all; of the ${formatCount(tree.nodes.length)} drawn here it gave up ${formatCount(pruned)}, which are dashed. The score of the translation, its log P made comparable between lengths, is ${manifest.score}.`;
  },
};

/** Finds the key that a text names beside its query; undefined where it names none. */
export async function findStoryKey(text: keyof typeof STORY_TEXTS, parts: StoryParts, reader: StoryReader): Promise<number | undefined> {
  const { manifest, encoderSelf, cross } = parts;
  if (text === "projections") return reader.piece;
  if (text === "crossing") return cross ? (await averageRow(manifest, cross, reader)).best : undefined;
  const isOfPairs = text === "products" || text === "scores" || text === "pattern" || text === "mixture";
  return isOfPairs && encoderSelf ? (await findStrongestKey(manifest, encoderSelf, reader.piece, reader)).best : undefined;
}

/** Finds the key with the largest weight in one row of head 1, with all weights of that row. */
async function findStrongestKey(manifest: Manifest, parts: AttentionParts, position: number, reader: StoryReader) {
  const weights = await readRow(manifest, parts.pattern, position, reader);
  const width = findTensorRow(manifest, parts.q)?.shape.at(-1) ?? 0;
  return { weights, best: findLargest(weights), name: quotePiece(listLabels(manifest, parts.queryDim)[position]), width };
}

/** Reads one row of head 1 of a tensor with three dimensions. */
async function readRow(manifest: Manifest, name: string, position: number, { readValues }: StoryReader): Promise<number[]> {
  const width = findTensorRow(manifest, name)?.shape.at(-1) ?? 0;
  return Array.from((await readValues(name)).subarray(position * width, (position + 1) * width));
}

/** Averages the weights of the step's row over the heads. */
async function averageRow(manifest: Manifest, parts: AttentionParts, { step, readValues }: StoryReader) {
  const [heads = 0, rows = 0, width = 0] = findTensorRow(manifest, parts.pattern)?.shape ?? [];
  const pattern = await readValues(parts.pattern);
  const mean = Array.from({ length: width }, (_, k) => {
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += pattern[(h * rows + step) * width + k] ?? NaN;
    return sum / heads;
  });
  return { mean, best: findLargest(mean) };
}

/** Describes the inner units: with relu, how many are active; otherwise only the strongest. */
function describeUnits(activation: TensorRow, values: Float32Array): RichText {
  const strongest = findLargest(values);
  const positive = values.filter((value) => value > 0).length;
  const relu = activation.op.kind === "activation" && activation.op.function === "relu";
  return relu
    ? richText`${positive} are above 0, unit ${strongest} most strongly (${values[strongest] ?? NaN})`
    : richText`unit ${strongest} answers most strongly (${values[strongest] ?? NaN})`;
}

/** Finds the index of the largest number, the first of equals. */
function findLargest(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if ((values[i] ?? -Infinity) > (values[best] ?? -Infinity)) best = i;
  return best;
}

/** The parts of this model that the story walks through; null where the model has none. */
interface StoryParts {
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
  const attentions = listAttentions(manifest);
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
