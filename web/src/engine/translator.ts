// Translates lines with the model: split into segments, searched for, joined again, as in src/pellucid/decode/translator.py and decode/stages/splitting.py.
import { Cache } from "./cache";
import { decode, encode, logits, type Model, type Run, unseen, type Watch } from "./model";
import { beginWith, forbid, forbidEmpty, forbidRepeats, hasRepetition, type Hypothesis, type SearchCandidate, type SearchState, searchBest } from "./search";
import { isLower } from "./casing";
import type { ReadText, SourceReader } from "./reading";
import { SPACE } from "./sentencepiece";
import { countSentences, findSentenceEnds } from "./sentences";
import { BOS, EOS, type TokenizerSide, UNK } from "./tokenizer";
import type { Tensor } from "./tensor";
import { JOINT, joinLine, type SplitLine, splitLine, type SplitRules, stripText } from "./text";

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
  /** Anything unusual that was done. */
  notes: string[];
}

/** A segment of a line: what the user wrote, what the model reads for it, and its ids, after those of the text before it. */
export interface Segment {
  text: string;
  read: ReadText;
  before: string;
  context: number[];
  ids: number[];
}

/** A line of the user, and the segments of it that are translated. */
export interface PreparedLine {
  split: SplitLine;
  segments: Segment[];
  notes: string[];
}

/** How a line is prepared: which sentences stand together, what its translation begins with, and the text before it. */
export interface PreparingOptions {
  sentences?: "auto" | "split" | "keep";
  /** Leaves long lines as they are. */
  whole?: boolean;
  prefix?: string;
  context?: string;
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

// Thai, Lao and Khmer separate sentences by a space, which tells nothing.
const WITHOUT_ENDS = /[\u0e00-\u0eff\u1780-\u17ff]/;

/** How many sentences fewer than its line a translation has, as the ends of sentences tell; `texts` are those of its segments. */
function countMissing(sources: string[], texts: string[], gaps: string[]): number {
  if (texts.some((text) => WITHOUT_ENDS.test(text))) return 0;
  // Sentences between which nothing but a space stands are counted together: where the translation of one has no end mark, it runs into the next.
  const runs: { source: string; translation: string }[] = [];
  sources.forEach((source, i) => {
    const gap = gaps[i]!;
    const last = runs.at(-1);
    if (last && JOINT.test(gap)) {
      last.source += gap + source;
      last.translation += (gap || " ") + texts[i]!;
    } else runs.push({ source, translation: texts[i]! });
  });
  // In small letters sentences end where the next one needs no capital.
  const count = (run: (typeof runs)[number]) => countSentences(isLower(run.source) ? run.translation.toLowerCase() : run.translation);
  return runs.reduce((sum, run) => sum + Math.max(0, countSentences(run.source) - count(run)), 0);
}

export class Translator {
  constructor(
    readonly model: Model,
    readonly source: TokenizerSide,
    readonly target: TokenizerSide,
    /** Longest sources in pieces, the end token included: of those the model was trained on, and of those it takes. */
    readonly limits: { trained: number; longest: number },
    readonly forbidden: readonly number[],
    readonly reader: SourceReader,
    /** Sentences before another that the model was trained to read. */
    readonly contextSentences = 0,
  ) {}

  /** Translates a text; tags, placeholders and emoji are text to it. */
  translate(text: string, beam = 4): Translation {
    checkBeam(beam);
    const first = this.translateLine(text, beam, "auto");
    if (!first.missing || !first.isJoined) return first.translation;
    // A model may leave out a sentence of those that it translates together.
    const again = this.translateLine(text, beam, "split");
    if (again.missing > first.missing) return first.translation;
    return { ...again.translation, notes: [...again.translation.notes, SENTENCE_BY_SENTENCE] };
  }

  private translateLine(text: string, beam: number, sentences: "auto" | "split"): { translation: Translation; missing: number; isJoined: boolean } {
    const line = this.prepare(text, { sentences });
    const results = line.segments.map(({ context, ids }) => this.search([...context, ...ids], { beam }));
    if (!results.length) return { translation: { text, score: 0, stop: "empty", pieces: [], notes: [] }, missing: 0, isJoined: false };
    const texts = results.map((result, i) => this.reader.restore(line.segments[i]!.read, this.target.decode(result.tokens)));
    const counts = line.segments.map((segment) => countSentences(segment.text));
    const joined = joinLine(line.split, texts);
    const missing = countMissing(line.segments.map((segment) => segment.text), texts, line.split.gaps);
    const notes = [...line.notes, ...results.flatMap((result) => result.notes), ...(missing ? [describeMissing(missing)] : [])];
    const translation: Translation = {
      text: joined,
      score: results.reduce((sum, result) => sum + result.score, 0),
      stop: results.every((result) => result.stop === "eos") ? "eos" : "length",
      pieces: results.flatMap((result) => this.target.pieces(result.tokens)),
      notes: [...new Set(notes)],
    };
    return { translation, missing, isJoined: counts.some((count) => count > 1) };
  }

  /** Splits a line into segments like the sources that the model was trained on, and reads each. */
  prepare(line: string, options: PreparingOptions = {}): PreparedLine {
    const { whole = false, prefix = "", context = "" } = options;
    const rules = this.makeRules(options);
    const keepsCase = prefix !== "";
    const fits = (limit: number) => (text: string) => whole || this.source.encodeSource(this.reader.read(text, keepsCase).text).length <= limit;
    const split = splitLine(line, rules, fits(this.limits.trained), fits(this.limits.longest));
    const wanted = split.segments.length > 1 ? splitLine(line, rules, () => true, () => true).segments.length : 1;
    const earlier = context ? this.listLastSentences(context) : [];
    const segments: Segment[] = [];
    for (const text of split.segments) {
      const read = this.reader.read(text, keepsCase);
      const ids = this.source.encodeSource(read.text);
      const before = (this.contextSentences ? earlier.slice(-this.contextSentences) : earlier).join(" ");
      const ahead = before ? [...this.source.encode(before).slice(0, -1), BOS] : [];
      // Elsewhere it is read without what stands before it.
      const isRoom = ahead.length > 0 && ahead.length + ids.length <= this.limits.trained;
      segments.push({ text, read, before: isRoom ? before : "", context: isRoom ? ahead : [], ids });
      if (this.contextSentences) earlier.push(read.text);
      else earlier.length = 0;
    }
    const notes = [
      ...(split.segments.length > wanted ? [`split into ${split.segments.length} parts`] : []),
      ...segments.flatMap(({ read }) => (read.note === null ? [] : [read.note])),
    ];
    return { split, segments, notes: [...new Set(notes)] };
  }

  private makeRules({ sentences = "auto", prefix = "" }: PreparingOptions): SplitRules {
    const { reader } = this;
    const together = { auto: reader.together, split: 1, keep: Number.MAX_SAFE_INTEGER }[sentences];
    const rules: SplitRules = {
      together,
      continues: sentences === "auto" ? (sentence) => reader.continues(sentence) : () => true,
      marks: reader.unknownMarks,
      keepsWithoutLetters: !reader.translatesNumbers,
    };
    // It is a beginning of the translation of all that stands in the line, and of several sentences perhaps.
    if (prefix) return { ...rules, together: Math.max(together, countSentences(prefix)), continues: () => true, marks: new Set() };
    return rules;
  }

  /** Gives the end of a context as the model has learned it: as many sentences as it reads before another. */
  private listLastSentences(context: string): string[] {
    if (this.reader.together > 1 || !this.contextSentences) return [context];
    const ends = findSentenceEnds(context);
    return ends.map((end, i) => stripText(context.slice(ends[i - 1] ?? 0, end))).slice(-this.contextSentences);
  }

  /** Searches for the translation of one segment, once more without repetitions where it repeats itself. */
  search(source: number[], settings: SearchSettings): SearchResult {
    const first = this.searchNonEmpty(source, settings, 0);
    const isRepeating = (result: Hypothesis) => hasRepetition(result.tokens.filter((token) => token !== EOS));
    if (!isRepeating(first) || hasRepetition(source)) return first;
    const second = this.searchNonEmpty(source, settings, NO_REPEAT);
    if (isRepeating(second)) return { ...first, notes: ["the translation repeats itself, and the line does not"] };
    return { ...second, notes: [`repeated itself; searched again with no ${NO_REPEAT} pieces twice`] };
  }

  /** Encodes a text that a translation shall begin with. */
  encodePrefix(text: string): Prefix {
    const ids = this.target.encode(text).slice(0, -1);
    if (ids.includes(UNK)) throw new Error(`The beginning “${text}” has a character that this model cannot write.`);
    return { ids, startsWord: text.endsWith(" ") };
  }

  /** Searches once more where the likeliest translation is no text at all: nothing that a user wrote shall vanish so. */
  private searchNonEmpty(source: number[], settings: SearchSettings, noRepeat: number): SearchResult {
    const found = this.searchOnce(source, settings, noRepeat);
    if (found.tokens[0] !== EOS) return found;
    return { ...this.searchOnce(source, settings, noRepeat, true), notes: [EMPTIED] };
  }

  private searchOnce(source: number[], settings: SearchSettings, noRepeat: number, isNotEmpty = false): SearchResult {
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
        ...(isNotEmpty ? [forbidEmpty] : []),
      ],
      observe: (candidates) => steps.push(candidates),
    });
    if (!best) throw new Error("The model gives no translation of this sentence a probability.");
    return { ...best, notes: [], steps };
  }
}

const EMPTIED = "the likeliest translation was empty; this is the likeliest one that is not";
export const SENTENCE_BY_SENTENCE = "translated sentence by sentence: together a sentence was left out";

/** Says that a translation has fewer sentences than its line. */
export function describeMissing(count: number): string {
  return `the translation has ${count} ${count === 1 ? "sentence" : "sentences"} fewer than the line`;
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
