// Translates lines with the model: split into segments, searched for, joined again, as in src/pellucid/decode/translate.py.
import { Cache } from "./cache";
import { decode, encode, logits, type Model, type Run, unseen, type Watch } from "./model";
import { beginWith, forbid, forbidRepeats, hasRepetition, type Hypothesis, type SearchCandidate, type SearchState, searchBest } from "./search";
import { SPACE } from "./sentencepiece";
import { EOS, type TokenizerSide, UNK } from "./tokenizer";
import type { Tensor } from "./tensor";
import { joinLine, type SplitLine, splitLine } from "./text";

export const LENGTH_PENALTY = 1; // the default of `SearchConfig`
export const MAX_EXTRA = 50; // pieces that a translation may have more than its source
const NO_REPEAT = 4; // tokens in a row that may not stand twice where a translation repeated itself
export const WIDEST_BEAM = 64;

export interface Translation {
  text: string;
  /** Log-probability divided by the length penalty, summed over the segments. */
  score: number;
  stop: "eos" | "length" | "empty";
  pieces: string[];
}

/** Pieces that a translation begins with; `startsWord` says that a new word follows them. */
export interface Prefix {
  ids: number[];
  startsWord: boolean;
}

export interface SearchResult extends Hypothesis {
  notes: string[];
  steps: SearchCandidate[][]; // of the search that decided
}

/** How a translation is searched for. With `readsAgain`, each step reads every beginning as a whole, for an edit that counts positions. */
interface SearchSettings {
  beam: number;
  prefix?: Prefix;
  edit?: Watch;
  readsAgain?: boolean;
}

export class Translator {
  constructor(
    readonly model: Model,
    readonly source: TokenizerSide,
    readonly target: TokenizerSide,
    /** Longest sources in pieces, the end token included: of those the model was trained on, and of those it takes. */
    readonly limits: { trained: number; longest: number },
    readonly forbidden: readonly number[],
    /** Whether text without a letter is translated; elsewhere it stays as it is. */
    readonly translatesNumbers = false,
  ) {}

  /** Translates a text; tags and placeholders are text to it. */
  translate(text: string, beam = 4): Translation {
    checkBeam(beam);
    const line = this.split(text);
    const results = line.segments.map((segment) => this.search(this.source.encode(segment), { beam }));
    if (!results.length) return { text, score: 0, stop: "empty", pieces: [] };
    return {
      text: joinLine(line, results.map((result) => this.target.decode(result.tokens))),
      score: results.reduce((sum, result) => sum + result.score, 0),
      stop: results.every((result) => result.stop === "eos") ? "eos" : "length",
      pieces: results.flatMap((result) => this.target.pieces(result.tokens)),
    };
  }

  /** Splits a line into segments that the model was trained for; `whole` leaves long ones as they are. */
  split(text: string, whole = false): SplitLine {
    const fits = (limit: number) => (segment: string) => whole || this.source.encode(segment).length <= limit;
    return splitLine(text, fits(this.limits.trained), fits(this.limits.longest), this.translatesNumbers);
  }

  /** Searches for the translation of one segment, once more without repetitions where it repeats itself. */
  search(source: number[], settings: SearchSettings): SearchResult {
    const first = this.searchOnce(source, settings, 0);
    const isRepeating = (result: Hypothesis) => hasRepetition(result.tokens.filter((token) => token !== EOS));
    if (!isRepeating(first) || hasRepetition(source)) return first;
    const second = this.searchOnce(source, settings, NO_REPEAT);
    if (isRepeating(second)) return { ...first, notes: ["repeats itself"] };
    return { ...second, notes: [`repeated itself; searched again with no ${NO_REPEAT} pieces twice`] };
  }

  /** Encodes a text that a translation shall begin with. */
  encodePrefix(text: string): Prefix {
    const ids = this.target.encode(text).slice(0, -1);
    if (ids.includes(UNK)) throw new Error(`The beginning “${text}” has a character that this model cannot write.`);
    return { ids, startsWord: text.endsWith(" ") };
  }

  private searchOnce(source: number[], settings: SearchSettings, noRepeat: number): SearchResult {
    const { beam, prefix, edit = unseen, readsAgain } = settings;
    const limit = Math.min(source.length - 1 + MAX_EXTRA, this.limits.longest);
    const ids = prefix?.ids ?? [];
    if (ids.length > limit) throw new Error(`The beginning has ${ids.length} pieces, the translation has at most ${limit}.`);
    const startsWord = (id: number) => this.target.names[id]?.startsWith(SPACE) ?? false;
    const steps: SearchCandidate[][] = [];
    const best = searchBest((readsAgain ? makeReadingState : makeCachedState)({ model: this.model, watch: edit }, source), {
      width: beam,
      limit,
      lengthPenalty: LENGTH_PENALTY,
      rules: [
        forbid(this.forbidden),
        ...(ids.length ? [beginWith(ids, prefix?.startsWord ? startsWord : null)] : []),
        ...(noRepeat ? [forbidRepeats(noRepeat, ids.length)] : []),
      ],
      observe: (candidates) => steps.push(candidates),
    });
    if (!best) throw new Error("The model gives no translation of this sentence a probability.");
    return { ...best, notes: [], steps };
  }
}

/** Refuses a beam that no search has. */
export function checkBeam(beam: number): void {
  if (!Number.isInteger(beam) || beam < 1 || beam > WIDEST_BEAM)
    throw new Error(`The beam is ${beam}; it must be a whole number from 1 to ${WIDEST_BEAM}.`);
}

/** The rows of a tensor (R V). */
function listRows(x: Tensor): Float32Array[] {
  const [rows, width] = x.shape as [number, number];
  return Array.from({ length: rows }, (_, row) => x.values.subarray(row * width, (row + 1) * width));
}

/** Decodes one more position of every hypothesis in each step; keys and values of the others come from a cache. */
function makeCachedState(run: Run, source: number[]): SearchState {
  const memory = encode(run, source);
  const cache = new Cache();
  return {
    next: (tokens) => listRows(logits(run, decode(run, tokens, memory, cache))),
    select: (rows) => cache.select(rows),
  };
}

/** Reads the whole beginning of every hypothesis again in each step, so that row 3 of a pattern is row 3 in all of them. */
function makeReadingState(run: Run, source: number[]): SearchState {
  const memory = encode(run, source);
  let written: number[][] = [[]];
  return {
    next(tokens) {
      written = written.map((hypothesis, row) => [...hypothesis, tokens[row]!]);
      const states = written.map((hypothesis) => listRows(decode(run, hypothesis, memory)).at(-1)!);
      return states.map((values) => logits(run, { shape: [1, values.length], values }).values);
    },
    select(rows) {
      written = rows.map((row) => written[row]!);
    },
  };
}
