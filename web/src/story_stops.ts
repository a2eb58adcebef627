// The fourteen stops of the story: the picture that each shows, its formula, and something to try.
import type { JSX } from "preact";
import type { RichText } from "./format";
import { display, line, makeFormula, over } from "./mathml";
import { type AttentionParts, describeSection, findTensorRow, getSection, listWords } from "./network";
import type { Place } from "./state";
import type { ChosenHead, StoryChoice } from "./story_choice";
import * as formulas from "./story_formulas";
import { findStoryParts, type StoryParts, type StoryReader } from "./story_parts";
import { describeHead, findStoryKey, STORY_TEXTS, type StoryText } from "./story_texts";
import type { EditSpec, Manifest, TensorRow } from "./types";

export const STOP_COUNT = 14;

/** What a stop is run without. */
export interface LeftOut {
  name: string; // "the division by √32"
  edit: EditSpec;
  /** The translation stays as it is: nothing can be searched for without this part. */
  keepsTarget?: boolean;
  /** The attention whose weights are shown before and after, and which of its heads. */
  picture: AttentionParts | null;
  head?: number;
}

/** One stop of the story: place, text, formula, and something to try. */
export interface StoryStop {
  title: string;
  place: Place;
  /** True where a later step than the first explains it better: before the first, nothing is written. */
  isTimedLater: boolean;
  /** Tensor whose installed source line is shown; null where what is spoken of is not computed by the model. */
  tensor: TensorRow | null;
  formula: JSX.Element;
  writeText(reader: StoryReader): Promise<RichText>;
  suggestion: string;
  /** What the stop speaks of, the most important first: names of tensors, or of parts of a view. */
  subjects: string[];
  /** What this sentence can be translated without, to see what the stop is for. */
  leftOut: LeftOut | null;
  /** Finds the key that the text names; undefined where it names none. */
  findKey(reader: StoryReader): Promise<number | undefined>;
}

interface StopDraft {
  title: string;
  text: StoryText;
  place: Place;
  subjects: (string | undefined)[];
  tensor?: TensorRow | null;
  formula: JSX.Element;
  suggestion: string;
  leftOut?: LeftOut | null;
}

/** Makes the fourteen stops for the word and the heads that the story tells of. */
export function makeStory(manifest: Manifest, choice: StoryChoice, canAct: boolean): StoryStop[] {
  const story = findStoryParts(manifest, choice);
  const drafts = [
    ...draftInput(story, choice, canAct),
    ...draftAttention(story, choice),
    ...draftOutput(story, choice, canAct),
  ];
  return drafts.map(({ title, text, place, subjects, tensor, formula, suggestion, leftOut }) => ({
    title,
    place,
    subjects: subjects.filter((name) => name !== undefined),
    isTimedLater: text === "mask" || text === "crossing" || text === "logits",
    tensor: tensor ?? null,
    formula,
    suggestion,
    leftOut: leftOut ?? null,
    writeText: (reader) => STORY_TEXTS[text](story, reader),
    findKey: (reader) => findStoryKey(text, story, reader),
  }));
}

const ELSEWHERE: Place = { view: "map" }; // where a model has no such part

function placeHead(chosen: ChosenHead | null, piece: number): Place {
  if (!chosen) return ELSEWHERE;
  const { parts, head } = chosen;
  return { view: "head", section: parts.section, head, ...(parts.queryDim === "S" && { row: piece }) };
}

function placeBlock(tensor: TensorRow | null, piece: number): Place {
  return tensor ? { view: "block", section: getSection(tensor.name), row: piece } : ELSEWHERE;
}

/** Drafts the stops from the sentence to the vectors that enter the first layer. */
function draftInput(story: StoryParts, { self, piece }: StoryChoice, canAct: boolean): StopDraft[] {
  const { positions, rotatedQueries, embedding } = story;
  const rotated: Place = rotatedQueries
    ? { view: "cell", tensor: rotatedQueries.name, index: [0, piece, 0] }
    : ELSEWHERE;
  const picture = { picture: self?.parts ?? null, head: self?.head };
  const table = embedding?.op.kind === "lookup" ? embedding.op.table : undefined;
  return [
    {
      title: "A sentence comes in",
      text: "sentence",
      place: { view: "map" },
      subjects: ["translation"],
      tensor: story.logits,
      formula: display(line("P ( y | x ) =", over("∏", "t"), "P ( y_t | y_{<t} , x )")),
      suggestion: canAct
        ? "Press / and type a sentence of your own; everything here is then computed again."
        : "This is a file with one sentence; to type your own, open the model with pellucid serve.",
    },
    {
      title: "Cut into pieces",
      text: "pieces",
      place: { view: "tokens" },
      subjects: ["pieces"],
      formula: display('"sentence" → "pieces" → "ids"'),
      suggestion: "Click a piece: it stays outlined in every picture until you press Esc.",
    },
    {
      title: "Each id picks a vector",
      text: "embedding",
      place: placeBlock(embedding, piece),
      subjects: [embedding?.name, table],
      tensor: embedding,
      formula: embedding ? makeFormula(embedding.op) : display("x_p = table [ id_p ]"),
      suggestion: "Click a number above: its cell is framed. Click a cell, then “how this number is computed”.",
    },
    {
      title: "Where it stands",
      text: "positions",
      place: positions ? { view: "positions", row: piece } : rotated,
      subjects: [positions?.name ?? "cell", embedding?.name],
      tensor: positions ?? rotatedQueries,
      formula: formulas.makePositionFormula(story),
      suggestion: positions
        ? "Look below at how alike two positions are: neighbours are, and two that are far apart are not."
        : "Type the same words in another order and see whether the translation changes.",
      leftOut:
        positions || rotatedQueries
          ? { name: "positions", edit: { kind: "without", part: "positions" }, ...picture }
          : null,
    },
  ];
}

/** Drafts the stops inside one attention of the encoder. */
function draftAttention(story: StoryParts, { self, cross, piece }: StoryChoice): StopDraft[] {
  const { manifest, masked } = story;
  const parts = self?.parts;
  const findRow = (name: string | undefined) => (name === undefined ? null : (findTensorRow(manifest, name) ?? null));
  const place = placeHead(self, piece);
  const width = findRow(parts?.q)?.shape.at(-1) ?? 0;
  const maskedParts = masked ?? parts;
  return [
    {
      title: "Three vectors from one",
      text: "projections",
      place,
      subjects: [parts?.q],
      tensor: findRow(parts?.q),
      formula: formulas.PROJECTIONS,
      suggestion: "Switch from queries to keys and values above the picture, and go through the heads with [ and ].",
    },
    {
      title: "Every query meets every key",
      text: "products",
      place,
      subjects: [parts?.products],
      tensor: findRow(parts?.products),
      formula: formulas.PRODUCTS,
      suggestion:
        "Point at a number of the products: the row of q and the column of kᵀ that meet in it are framed. Click it, " +
        "then “how this number is computed”: it opens as a sum.",
    },
    {
      title: "Scaled down",
      text: "scores",
      place,
      subjects: [parts?.scores, parts?.products],
      tensor: findRow(parts?.scores),
      formula: formulas.SCORES,
      suggestion: "Compare the colours of products and scores: they look alike, only the scale in the legend differs.",
      leftOut: {
        name: `the division by √${width}`,
        edit: { kind: "without", part: "scaling" },
        picture: parts ?? null,
        head: self?.head,
      },
    },
    {
      title: "What must not be seen",
      text: "mask",
      place: placeHead(maskedParts ? { parts: maskedParts, head: masked ? 0 : (self?.head ?? 0) } : null, piece),
      subjects: [maskedParts?.allowed],
      tensor: findRow(maskedParts?.allowed),
      formula: formulas.MASK,
      suggestion:
        "Go to the next step, with the . key or the › button on top: with every step one more column can be read.",
      leftOut: masked && {
        name: "the mask",
        edit: { kind: "without", part: "mask" },
        keepsTarget: true,
        picture: masked,
      },
    },
    {
      title: "Scores become weights",
      text: "pattern",
      place,
      subjects: [parts?.pattern, parts?.scores],
      tensor: findRow(parts?.pattern),
      formula: formulas.WEIGHTS,
      suggestion: "Guess from the scores which piece gets the largest weight in a row, then look at the pattern.",
    },
    {
      title: "Reading with the weights",
      text: "mixture",
      place,
      subjects: [parts?.headOutput, parts?.pattern],
      tensor: findRow(parts?.output),
      formula: formulas.MIXTURE,
      suggestion:
        "Click the last number of the text: there the heads stand side by side, and W_O makes one vector of them.",
      leftOut: self && {
        name: describeHead(self),
        edit: { kind: "silence", attention: self.parts.section, head: self.head },
        picture: cross?.parts ?? null,
        head: cross?.head,
      },
    },
  ];
}

/** Drafts the stops from the feed-forward to the translation. */
function draftOutput(story: StoryParts, { cross, piece }: StoryChoice, canAct: boolean): StopDraft[] {
  const { manifest, activation } = story;
  const [picture, head] = [cross?.parts ?? null, cross?.head];
  const word = manifest.source.words[piece] ?? null;
  return [
    {
      title: "Add, norm, think, repeat",
      text: "feedForward",
      place: placeBlock(activation, piece),
      subjects: [activation?.name],
      tensor: activation,
      formula: formulas.makeFeedForwardFormula(story),
      suggestion: "Open the same block one layer up with } and see which units are active there.",
      leftOut: { name: "the residual connections", edit: { kind: "without", part: "residual" }, picture, head },
    },
    {
      title: "The decoder looks back at the source",
      text: "crossing",
      place: placeHead(cross, piece),
      subjects: [picture?.pattern],
      tensor: (picture && findTensorRow(manifest, picture.pattern)) ?? null,
      formula: formulas.CROSSING,
      suggestion:
        "Go back and forth with the , and . keys or the ‹ and › buttons: the source piece read moves with the word that " +
        "is written.",
      leftOut:
        word === null
          ? null
          : { name: `the word “${listWords(manifest.source)[word]}”`, edit: { kind: "hide", word }, picture, head },
    },
    {
      title: "One number for each piece",
      text: "logits",
      place: { view: "output" },
      subjects: ["candidates"],
      tensor: story.logits,
      formula: formulas.NEXT_PIECE,
      suggestion: "Look below at what its logit is made of, then compare it with the piece that came second.",
    },
    {
      title: "Write it down and go on",
      text: "search",
      place: { view: manifest.tree ? "beam" : "output" },
      subjects: [manifest.tree ? "beam" : "candidates"],
      formula: formulas.WHOLE_TEXT,
      suggestion:
        manifest.tree && canAct
          ? "Click a dashed node: every picture then shows the trace of that candidate. Click the last node of the thick " +
            "path to come back."
          : "Go back to the first step with the , key and walk through all of them.",
    },
  ];
}

/** Names the attention of a left-out part for the sentence below its two pictures. */
export function describePicture({ picture, head }: LeftOut): string {
  return picture ? `${describeSection(picture.section)}, head ${(head ?? 0) + 1}` : "";
}
