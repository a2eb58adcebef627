// What the story says at each stop of this very sentence, with numbers read from the captured tensors.

import { count, many, quoted, say, type Told } from "./format";
import type { Cast } from "./story_parts";
import { type AttentionParts, labelsOf, rowOf, using } from "./tensor_graph";
import type { Manifest, TensorRow } from "./types";

/** Where the reader stands, and how numbers are fetched; `values` rejects, saying so, where nothing was captured. */
export interface Reader {
  piece: number; // row of S
  step: number; // row of T
  values(name: string): Promise<Float32Array>;
}

export type Teller = (cast: Cast, reader: Reader) => Promise<Told>;

const NOT_HERE = say`This model has no such part.`;

export const told = {
  async sentence({ manifest }: Cast): Promise<Told> {
    const { source, target, model } = manifest;
    const words = source.text.split(/\s+/).filter(Boolean).length;
    return say`The model reads the ${many(words, "word")} of “${source.text}” all at once and then writes “${target.text}”, one piece after the other. It does so with ${count(model.parameters)} trained numbers; that is all it knows.`;
  },

  async pieces({ manifest }: Cast, { piece }: Reader): Promise<Told> {
    const { source } = manifest;
    const words = new Set(source.words.filter((word) => word !== null)).size;
    return say`${many(words, "word")} became ${many(source.pieces.length, "piece")} (▁ stands for a space). ${quoted(source.pieces[piece])} has the id ${source.ids[piece] ?? NaN} in the vocabulary; ${quoted(source.pieces.at(-1))} marks the end of the sentence.`;
  },

  async embedding({ manifest, embedding }: Cast, { piece, values }: Reader): Promise<Told> {
    if (embedding?.op.kind !== "lookup") return NOT_HERE;
    const width = embedding.shape.at(-1) ?? 0;
    const first = (await values(embedding.name)).subarray(piece * width);
    const scaled = embedding.op.scale === 1 ? say`` : say`, each times ${embedding.op.scale}`;
    return say`The id of ${quoted(manifest.source.pieces[piece])}, ${manifest.source.ids[piece] ?? NaN}, picks that row of a trained table: ${count(width)} numbers${scaled}. They begin ${first[0] ?? NaN}, ${first[1] ?? NaN}, ${first[2] ?? NaN}.`;
  },

  async positions({ manifest, embedding, positions, turned }: Cast, { piece, values }: Reader): Promise<Told> {
    const name = quoted(manifest.source.pieces[piece]);
    if (!positions || !embedding) {
      return turned
        ? say`This model adds nothing for the place of a piece. It turns the queries and keys of self-attention instead, those of ${name} by ${piece} times an angle that differs from pair to pair of numbers.`
        : say`This model is not told where a piece stands: to it a sentence is a bag of pieces.`;
    }
    const width = positions.shape.at(-1) ?? 0;
    const at = (await values(positions.name))[piece * width] ?? NaN;
    const before = (await values(embedding.name))[piece * width] ?? NaN;
    const sum = using(manifest, embedding.name, "add");
    const after = sum ? ((await values(sum.name))[piece * width] ?? NaN) : NaN;
    return say`${name} stands at position ${piece}, counted from 0. The vector of that position is added to its embedding, number by number; the first: ${before} + ${at} = ${after}.`;
  },

  async projections({ manifest, reading }: Cast, { piece, values }: Reader): Promise<Told> {
    if (!reading) return NOT_HERE;
    const width = rowOf(manifest, reading.q)?.shape.at(-1) ?? 0;
    const first = async (name: string) => (await values(name))[piece * width] ?? NaN;
    const name = quoted(manifest.source.pieces[piece]);
    return say`From the vector of ${name}, head 1 of ${count(reading.heads)} makes three vectors of ${count(width)} numbers: what it looks for (q, begins ${await first(reading.q)}), what it offers to be found by (k, ${await first(reading.k)}) and what it gives when it is read (v, ${await first(reading.v)}).`;
  },

  async products({ manifest, reading }: Cast, reader: Reader): Promise<Told> {
    if (!reading) return NOT_HERE;
    const { best, name, width } = await strongest(manifest, reading, reader.piece, reader);
    const product = (await row(manifest, reading.products, reader.piece, reader))[best] ?? NaN;
    const n = labelsOf(manifest, reading.read).length;
    return say`The query of ${name} times the key of ${quoted(labelsOf(manifest, reading.read)[best])}: ${count(width)} products of two numbers, added up, make ${product}. Every piece meets every piece, so each head has ${count(n)} × ${count(n)} such numbers.`;
  },

  async scores({ manifest, reading }: Cast, reader: Reader): Promise<Told> {
    if (!reading) return NOT_HERE;
    const { best, width } = await strongest(manifest, reading, reader.piece, reader);
    const product = (await row(manifest, reading.products, reader.piece, reader))[best] ?? NaN;
    const score = (await row(manifest, reading.scores, reader.piece, reader))[best] ?? NaN;
    return say`${product} / √${count(width)} = ${score}. A sum of ${count(width)} products is large by its length alone; divided by √${count(width)} it stays in a range where softmax still weighs several pieces.`;
  },

  async mask({ manifest, writing, reading }: Cast, { step, values }: Reader): Promise<Told> {
    if (!writing) {
      const n = labelsOf(manifest, reading?.read ?? "S").length;
      return say`Nothing is masked here: all ${many(n, "piece")} may be read.`;
    }
    const pieces = labelsOf(manifest, writing.reader);
    const n = pieces.length;
    const allowed = Array.from(await values(writing.allowed)).slice(step * n, (step + 1) * n);
    const open = allowed.filter((value) => value !== 0).length;
    const before = step === 0 ? "itself only, for nothing stands before it" : `itself and the ${many(open - 1, "piece")} before it`;
    const shut = n - open === 0 ? "nothing stands after it yet" : `the ${many(n - open, "piece")} after it get weight 0`;
    return say`In the decoder ${quoted(pieces[step])}, at position ${step}, may attend to ${before}; ${shut}. So what is written never depends on what comes later. In the encoder every piece may be read.`;
  },

  async pattern({ manifest, reading }: Cast, reader: Reader): Promise<Told> {
    if (!reading) return NOT_HERE;
    const { best, weights, name } = await strongest(manifest, reading, reader.piece, reader);
    const sum = weights.reduce((a, b) => a + b, 0);
    return say`Softmax turns the scores of a row into weights that add up to ${sum}. In head 1, ${name} attends most to ${{ guess: quoted(labelsOf(manifest, reading.read)[best]) }}, with weight ${weights[best] ?? NaN} of 1.`;
  },

  async mixture({ manifest, reading }: Cast, reader: Reader): Promise<Told> {
    if (!reading) return NOT_HERE;
    const { best, weights, name, width } = await strongest(manifest, reading, reader.piece, reader);
    const value = (await reader.values(reading.v))[best * width] ?? NaN;
    const mixed = (await reader.values(reading.mixed))[reader.piece * width] ?? NaN;
    const much = quoted(labelsOf(manifest, reading.read)[best]);
    return say`Head 1 adds up the values of all pieces, each times its weight. For the first number of ${name}, ${much} gives ${weights[best] ?? NaN} × ${value}; with the others it is ${mixed}. The ${many(reading.heads, "head")} side by side, ${count(reading.heads * width)} numbers, are mixed once more by W_O.`;
  },

  async feedForward(cast: Cast, { piece, values }: Reader): Promise<Told> {
    const { manifest, reading, active } = cast;
    const sum = reading && using(manifest, reading.output, "add");
    if (!reading || !active || !sum) return NOT_HERE;
    const width = sum.shape.at(-1) ?? 0;
    const added = (await values(reading.output))[piece * width] ?? NaN;
    const after = (await values(sum.name))[piece * width] ?? NaN;
    const units = active.shape.at(-1) ?? 0;
    const answers = (await values(active.name)).subarray(piece * units, (piece + 1) * units);
    const layers = manifest.tensors.filter((each) => each.op.kind === "activation" && each.dims[0] === active.dims[0]).length;
    return say`Attention adds ${added} to the first number of ${quoted(manifest.source.pieces[piece])}, which is ${after} then. Of the ${count(units)} inner units of the feed-forward, ${answering(active, answers)}. Both come with a norm, which brings a vector to mean 0 and variance 1 and rescales it, and all of it happens in each of ${many(layers, "layer")}.`;
  },

  async crossing({ manifest, crossing }: Cast, reader: Reader): Promise<Told> {
    if (!crossing) return NOT_HERE;
    const { mean, best } = await meanRow(manifest, crossing, reader);
    const input = manifest.inputs.pieces[reader.step];
    const begun = reader.step === 0 ? `Before anything is written the decoder reads its start mark ${quoted(input)}` : `At this step the decoder reads ${quoted(input)}, which was written last`;
    return say`${begun}. Its queries meet the keys of the source: on average over the ${many(crossing.heads, "head")} of the last layer it attends most to ${{ guess: quoted(manifest.source.pieces[best]) }}, with weight ${mean[best] ?? NaN}.`;
  },

  async logits({ manifest }: Cast, { step }: Reader): Promise<Told> {
    const here = manifest.steps[step];
    if (!here) return NOT_HERE;
    const other = here.top.find((each) => each.id !== here.chosen.id);
    const second = other ? say`; ${quoted(other.piece)} has ${other.logit} and ${other.prob}` : say``;
    const first = here.rank === 1 ? "the largest logit" : `logit number ${here.rank}`;
    return say`The last vector gives each of ${count(here.top.length + here.others_count)} pieces one number, its logit. ${quoted(here.chosen.piece)} has ${first}, ${here.chosen.logit}, and softmax makes probability ${here.chosen.prob} of it${second}.`;
  },

  async search({ manifest }: Cast): Promise<Told> {
    const { tree, steps, target } = manifest;
    const ended = manifest.stop === "eos" ? `until ${quoted(target.pieces.at(-1))}` : "until there was no room for more";
    const written = say`Each piece that is written is read at the next step, ${ended}: ${many(steps.length, "step")} here, log P = ${manifest.log_prob} in all.`;
    if (!tree) return say`${written} ${manifest.forced ? "This translation was given, not searched for." : "There is no beam tree: this trace was not made by a search."}`;
    const pruned = tree.nodes.filter((node) => node.fate === "pruned").length;
    return say`${written} The beam kept the best ${many(tree.width, "beginning")} at each step and looked at ${many(tree.nodes.length, "candidate")}, of which it pruned ${count(pruned)}. The winner's score is ${manifest.score}.`;
  },
};

/** In head 1, the key with the largest weight in the row of a piece, and the weights. */
async function strongest(manifest: Manifest, parts: AttentionParts, at: number, reader: Reader) {
  const weights = await row(manifest, parts.pattern, at, reader);
  const width = rowOf(manifest, parts.q)?.shape.at(-1) ?? 0;
  return { weights, best: largest(weights), name: quoted(labelsOf(manifest, parts.reader)[at]), width };
}

/** Row `at` of head 1 of a tensor with three dimensions. */
async function row(manifest: Manifest, name: string, at: number, { values }: Reader): Promise<number[]> {
  const width = rowOf(manifest, name)?.shape.at(-1) ?? 0;
  return Array.from((await values(name)).subarray(at * width, (at + 1) * width));
}

/** The weights of the step's row, averaged over the heads. */
async function meanRow(manifest: Manifest, parts: AttentionParts, { step, values }: Reader) {
  const [heads = 0, rows = 0, width = 0] = rowOf(manifest, parts.pattern)?.shape ?? [];
  const pattern = await values(parts.pattern);
  const mean = Array.from({ length: width }, (_, k) => {
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += pattern[(h * rows + step) * width + k] ?? NaN;
    return sum / heads;
  });
  return { mean, best: largest(mean) };
}

/** How the inner units answer: with relu some are off; otherwise only the strongest is named. */
function answering(active: TensorRow, answers: Float32Array): Told {
  const strong = largest(answers);
  const on = answers.filter((value) => value > 0).length;
  const relu = active.op.kind === "activation" && active.op.function === "relu";
  return relu
    ? say`${on} answer with more than 0, unit ${strong} most strongly (${answers[strong] ?? NaN})`
    : say`unit ${strong} answers most strongly (${answers[strong] ?? NaN})`;
}

/** The index of the largest number, the first of equals. */
export function largest(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if ((values[i] ?? -Infinity) > (values[best] ?? -Infinity)) best = i;
  return best;
}
