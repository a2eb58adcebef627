// The text of each stop of the story for the sentence shown. Each number that stands in a picture says where.
import { formatRoot } from "./computation";
import {
  formatCount,
  formatNumber,
  formatQuantity,
  INKED,
  placeNumber,
  quotePiece,
  type RichText,
  richText,
} from "./format";
import { countPieces, countScored } from "./measures";
import { findConsumer, findTensorRow, getSection, listLabels, listWords } from "./network";
import { findLargest, readRow, readWeightRow, type StoryParts, type StoryReader } from "./story_parts";
import type { ChosenHead } from "./story_choice";
import type { Manifest, TensorRow } from "./types";

const NO_SUCH_PART = richText`This model has no such part.`;

export const STORY_TEXTS = {
  async sentence({ manifest }: StoryParts): Promise<RichText> {
    const { source, target, model, context } = manifest;
    const words = listWords(source).length - (context ? 1 : 0); // the start token between both sentences is none
    const text = context ? `${context}” and “${manifest.sentence}` : source.text;
    return richText`The model reads the ${formatQuantity(words, "word")} of “${text}” all at once and then writes
      “${target.text}”, one piece after another. It does so with ${formatCount(model.parameters)} trained numbers;
      that is all it knows.`;
  },

  async pieces({ manifest }: StoryParts, { piece }: StoryReader): Promise<RichText> {
    const { source } = manifest;
    const words = new Set(source.words.filter((word) => word !== null)).size - (manifest.context ? 1 : 0);
    const id = placeNumber(source.ids[piece], "pieces", piece);
    return richText`A piece is a word or a part of one; the model knows no other text than its pieces. Here
      ${formatQuantity(words, "word")} became ${formatQuantity(source.pieces.length, "piece")}, in which ▁ stands for
      a space. ${quotePiece(source.pieces[piece])} has the number ${id}, its id, in the list of all pieces;
      ${quotePiece(source.pieces.at(-1))} marks the end of the sentence.`;
  },

  async embedding({ manifest, embedding }: StoryParts, { piece, readValues }: StoryReader): Promise<RichText> {
    if (embedding?.op.kind !== "lookup") return NO_SUCH_PART;
    const width = embedding.shape.at(-1) ?? 0;
    const vector = (await readValues(embedding.name)).subarray(piece * width);
    const place = (col: number) => placeNumber(vector[col], embedding.name, piece, col);
    const { scale, table } = embedding.op;
    const scaled = scale === 1 ? "" : `, each multiplied by ${formatRoot(scale)}`;
    const id = manifest.source.ids[piece] ?? NaN;
    return richText`The id of ${quotePiece(manifest.source.pieces[piece])}, ${placeNumber(id, table, id)}, picks that
      row of a trained table: ${formatCount(width)} numbers${scaled}. They start with ${place(0)}, ${place(1)},
      ${place(2)}.`;
  },

  async positions(parts: StoryParts, { piece, readValues }: StoryReader): Promise<RichText> {
    const { manifest, embedding, positions, embedded, rotatedQueries } = parts;
    const name = quotePiece(manifest.source.pieces[piece]);
    if (!positions || !embedding) {
      return rotatedQueries
        ? richText`This model does not add a vector for the position of a piece. Instead it rotates the queries and
            keys of self-attention, those of ${name} by ${formatCount(piece)} times an angle that differs for each
            pair of numbers.`
        : richText`This model gets no information about positions: to it a sentence is a bag of pieces.`;
    }
    const readFirst = async (row: TensorRow) => {
      return placeNumber((await readValues(row.name))[piece * (row.shape.at(-1) ?? 0)], row.name, piece, 0);
    };
    const sum = embedded ? richText` = ${await readFirst(embedded)}` : "";
    return richText`Without this the model could not tell one order of the pieces from another. ${name} stands at
      position ${placeNumber(piece, positions.name, piece)}, counted from 0. The vector of that position is added to
      its embedding, number by number; the first number: ${await readFirst(embedding)} +
      ${await readFirst(positions)}${sum}.`;
  },

  async projections({ manifest, self }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!self) return NO_SUCH_PART;
    const { parts, head } = self;
    const { piece } = reader;
    const width = findTensorRow(manifest, parts.q)?.shape.at(-1) ?? 0;
    const place = async (name: string) => {
      return placeNumber((await readRow(manifest, name, head, piece, reader))[0], name, head, piece, 0);
    };
    const layer = getLayer(parts.section);
    const origin = layer > 0 ? `, as layer ${layer} left it` : "";
    return richText`Look at ${describeHead(self)}. It multiplies x, the vector of
      ${quotePiece(manifest.source.pieces[piece])}${origin}, by three trained matrices of its own, and gets three
      vectors of ${formatCount(width)} numbers: what the word looks for (${INKED.q}, starting with
      ${await place(parts.q)}), what others can find it by (${INKED.k}, ${await place(parts.k)}) and what it passes on
      when it is read (${INKED.v}, ${await place(parts.v)}).`;
  },

  async products({ manifest, self }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!self) return NO_SUCH_PART;
    const { parts, head } = self;
    const { query, best, name, bestName, width } = await readWeightRow(manifest, self, reader.piece, reader);
    const product = (await readRow(manifest, parts.products, head, query, reader))[best];
    const n = listLabels(manifest, parts.keyDim).length;
    return richText`The query ${INKED.q} of ${name} times the key ${INKED.k} of ${bestName}: ${formatCount(width)}
      products of two numbers add up to ${placeNumber(product, parts.products, head, query, best)}; the larger the
      sum, the better the two fit. Every piece is compared with every piece, so each head has ${formatCount(n)} ×
      ${formatCount(n)} such numbers.`;
  },

  async scores({ manifest, self }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!self) return NO_SUCH_PART;
    const { parts, head } = self;
    const { query, best, width } = await readWeightRow(manifest, self, reader.piece, reader);
    const place = async (name: string) => {
      return placeNumber((await readRow(manifest, name, head, query, reader))[best], name, head, query, best);
    };
    const [product, score] = [await place(parts.products), await place(parts.scores)];
    const root = `√${formatCount(width)}`;
    const isLong = `A sum of ${formatCount(width)} products is large simply because it is long`;
    if (findTensorRow(manifest, parts.scores)?.edited)
      return richText`In this run nothing is divided by ${root}: ${product} stays ${score}. ${isLong}, and softmax of
        large numbers gives nearly all weight to one piece.`;
    return richText`${product} / ${root} = ${score}. ${isLong}; divided by ${root}, it stays in a range where softmax
      still gives weight to several pieces.`;
  },

  async mask({ manifest, masked, self }: StoryParts, { step, readValues }: StoryReader): Promise<RichText> {
    if (!masked) {
      const n = listLabels(manifest, self?.parts.keyDim ?? "S").length;
      return richText`Nothing is masked here: all ${formatQuantity(n, "piece")} may be read.`;
    }
    const pieces = listLabels(manifest, masked.queryDim);
    const n = pieces.length;
    const allowed = Array.from(await readValues(masked.allowed)).slice(step * n, (step + 1) * n);
    const place = placeNumber(step, masked.allowed, 0, step);
    if (findTensorRow(manifest, masked.allowed)?.edited)
      return richText`In this run there is no mask: ${quotePiece(pieces[step])}, at position ${place}, attends to all
        ${formatQuantity(n, "piece")}, also to those that it should predict. The model never learned to read them.`;
    const readable = allowed.filter((value) => value !== 0).length;
    const before = formatQuantity(readable - 1, "piece");
    const after = formatQuantity(n - readable, "piece");
    const readText = step === 0 ? "only itself, because nothing comes before it" : `itself and the ${before} before it`;
    const maskedText = n === readable ? "nothing comes after it yet" : `the ${after} after it get weight 0`;
    return richText`In the decoder ${quotePiece(pieces[step])}, at position ${place}, may attend to ${readText};
      ${maskedText}. So what is written never depends on what comes later. In the encoder every piece may be read.`;
  },

  async pattern({ manifest, self }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!self) return NO_SUCH_PART;
    const { parts, head } = self;
    const { query, best, weight, name, bestName } = await readWeightRow(manifest, self, reader.piece, reader);
    const score = (await readRow(manifest, parts.scores, head, query, reader))[best];
    return richText`Softmax turns the scores of a row into weights that add up to 1: e to the power of each score,
      divided by the sum of these powers. Here ${name} attends most to ${{ guess: bestName }}: their score of
      ${placeNumber(score, parts.scores, head, query, best)} becomes the weight
      ${placeNumber(weight, parts.pattern, head, query, best)} of 1.`;
  },

  async mixture({ manifest, self }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!self) return NO_SUCH_PART;
    const { parts, head } = self;
    const { query, best, weight, name, bestName, width } = await readWeightRow(manifest, self, reader.piece, reader);
    const value = placeNumber((await readRow(manifest, parts.v, head, best, reader))[0], parts.v, head, best, 0);
    const mixed = (await readRow(manifest, parts.headOutput, head, query, reader))[0];
    const output = placeNumber(await readFirstOf(manifest, parts.output, query, reader), parts.output, query, 0);
    const side = `The ${formatQuantity(parts.heads, "head")} side by side`;
    const heads = parts.heads === 1 ? "The output of the head" : side;
    return richText`The head adds up the values ${INKED.v} of all pieces, each times its weight. To the first number
      of ${name}, ${bestName} gives ${placeNumber(weight, parts.pattern, head, query, best)} × ${value}; with the
      other pieces the sum is ${placeNumber(mixed, parts.headOutput, head, query, 0)}. ${heads},
      ${formatCount(parts.heads * width)} numbers, times one more trained matrix, W_O, are what attention found; its
      first number is ${output}.`;
  },

  async feedForward(parts: StoryParts, reader: StoryReader): Promise<RichText> {
    const { manifest, self, activation } = parts;
    const { piece } = reader;
    const sum = self && findConsumer(manifest, self.parts.output, "add");
    if (!self || !activation || !sum) return NO_SUCH_PART;
    const { output } = self.parts;
    const added = placeNumber(await readFirstOf(manifest, output, piece, reader), output, piece, 0);
    const after = placeNumber(await readFirstOf(manifest, sum.name, piece, reader), sum.name, piece, 0);
    const units = activation.shape.at(-1) ?? 0;
    const unitValues = (await reader.readValues(activation.name)).subarray(piece * units, (piece + 1) * units);
    const isAlike = (row: TensorRow) => row.op.kind === "activation" && row.dims[0] === activation.dims[0];
    const layers = manifest.tensors.filter(isAlike).length;
    return richText`What attention found is added to the vector of ${quotePiece(manifest.source.pieces[piece])}:
      ${added} to its first number, which is then ${after}. Next comes the feed-forward, which sees one position at a
      time: of its ${formatCount(units)} inner units, ${describeUnits(activation, piece, unitValues)}. Attention and
      feed-forward each come with a norm, which brings a vector to mean 0 and variance 1 and rescales it. All of this
      happens in each of ${formatQuantity(layers, "layer")}.`;
  },

  async crossing({ manifest, cross }: StoryParts, reader: StoryReader): Promise<RichText> {
    if (!cross) return NO_SUCH_PART;
    const { step } = reader;
    const { best, weight, bestName } = await readWeightRow(manifest, cross, step, reader);
    const input = quotePiece(manifest.inputs.pieces[step]);
    const written = quotePiece(manifest.steps[step]?.chosen.piece);
    const opening =
      step === 0
        ? `Before anything is written, the decoder reads BOS, the start token, shown as ${input}`
        : `The decoder reads ${input}, the piece written last`;
    return richText`${opening}, and is to write ${{ guess: written }}. In ${describeHead(cross)}, its query
      ${INKED.q} is compared with the keys ${INKED.k} of the source. It attends most to ${{ guess: bestName }}, with
      weight ${placeNumber(weight, cross.parts.pattern, cross.head, step, best)} of 1, and gets that word's values
      ${INKED.v}.`;
  },

  async logits({ manifest }: StoryParts, { step }: StoryReader): Promise<RichText> {
    const current = manifest.steps[step];
    if (!current) return NO_SUCH_PART;
    const { chosen } = current;
    const runnerUp = current.top.find((candidate) => candidate.id !== chosen.id);
    const second = runnerUp
      ? richText`; ${quotePiece(runnerUp.piece)} has ${placeNumber(runnerUp.logit, "logit", runnerUp.id)} and
          ${placeNumber(runnerUp.prob, "probability", runnerUp.id)}`
      : "";
    const first = current.rank === 1 ? "the largest logit" : `logit number ${formatCount(current.rank)}`;
    return richText`The last vector gives each of ${formatCount(current.top.length + current.others_count)} pieces
      one number, its logit. ${quotePiece(chosen.piece)} has ${first},
      ${placeNumber(chosen.logit, "logit", chosen.id)}, and softmax turns it into probability
      ${placeNumber(chosen.prob, "probability", chosen.id)}${second}.`;
  },

  async search({ manifest }: StoryParts): Promise<RichText> {
    const { tree, steps, target } = manifest;
    const ended = manifest.stop === "eos" ? `until ${quotePiece(target.pieces.at(-1))}` : "until the maximum length";
    const summary = richText`Each piece that is written is read at the next step, ${ended}:
      ${formatQuantity(steps.length, "step")} here. The logarithms of their probabilities add up to log P =
      ${placeNumber(manifest.log_prob, "log P")}.`;
    if (!tree) {
      const why = manifest.forced
        ? "This translation was given, not searched for."
        : "There is no beam tree: this trace was not made by a search.";
      return richText`${summary} ${why}`;
    }
    const pruned = tree.nodes.filter((node) => node.fate === "pruned").length;
    const scored = formatQuantity(countScored(tree, countPieces(manifest)), "candidate");
    return richText`${summary} The beam kept the best ${formatQuantity(tree.width, "beginning")} at each step and
      scored every piece after each of them, ${scored} in all; of the ${formatCount(tree.nodes.length)} drawn here it
      gave up ${formatCount(pruned)}, which are dashed. The score of the translation, its log P made comparable
      between lengths, is ${placeNumber(manifest.score, "score")}.`;
  },
};

export type StoryText = keyof typeof STORY_TEXTS;

/** Finds the key that a text names beside its query; undefined where it names none. */
export async function findStoryKey(
  text: StoryText,
  parts: StoryParts,
  reader: StoryReader,
): Promise<number | undefined> {
  const { manifest, self, cross } = parts;
  if (text === "projections") return reader.piece;
  if (text === "crossing") return cross ? (await readWeightRow(manifest, cross, reader.step, reader)).best : undefined;
  const isOfPairs = text === "products" || text === "scores" || text === "pattern" || text === "mixture";
  return isOfPairs && self ? (await readWeightRow(manifest, self, reader.piece, reader)).best : undefined;
}

/** Reads the first number of a position's vector. */
async function readFirstOf(manifest: Manifest, name: string, position: number, { readValues }: StoryReader) {
  const width = findTensorRow(manifest, name)?.shape.at(-1) ?? 0;
  return (await readValues(name))[position * width] ?? NaN;
}

/** Gets the number of the layer of a section, 0 first. */
function getLayer(section: string): number {
  return Number(/\.(\d+)\./.exec(`${section}.`)?.[1] ?? 0);
}

/** Describes a head by its number and its layer: "head 2 of layer 3". */
export function describeHead({ parts, head }: ChosenHead): string {
  const layer = `layer ${getLayer(parts.section) + 1}`;
  if (parts.queryDim !== parts.keyDim) return `head ${head + 1} of the cross-attention of ${layer}`;
  return `head ${head + 1} of ${layer} of the ${getSection(parts.section).split(".")[0]}`;
}

/** Describes the inner units: with relu, how many are active; otherwise only the strongest. */
function describeUnits(activation: TensorRow, piece: number, values: Float32Array): RichText {
  const strongest = findLargest(values);
  const positive = values.filter((value) => value > 0).length;
  const isRelu = activation.op.kind === "activation" && activation.op.function === "relu";
  const count = isRelu ? richText`${placeNumber(positive, activation.name, piece)} are above 0, ` : "";
  const strength = placeNumber(values[strongest], activation.name, piece, strongest);
  const verb = isRelu ? "most strongly" : "answers most strongly";
  return richText`${count}unit ${formatNumber(strongest)} ${verb} (${strength})`;
}
