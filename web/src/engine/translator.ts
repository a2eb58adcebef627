// Translates lines with the model, as src/pellucid/decode/translator.py does, a segment at a time. The stages of decode/ that
// have a counterpart here: SplitLines (`cut`, and joinResults in joining.ts), ReadContexts (in `cut`), BeginWithPrefixes
// (`encodePrefix`) and SearchAgain (repetition.ts). Terms, tags, protected text, a memory, alignments, grades and provenance
// have none: the page translates text, and shows the numbers of the model.
import { Cache } from "./cache";
import { joinResults, type JoinedLine } from "./joining";
import type { CutLine, SearchResult, Segment, Translation } from "./line_segments";
import { decode, encode, logits, type Model, type Run, unseen, type Watch } from "./model";
import { searchAgain } from "./repetition";
import { beamSearch, forbiddenRule, prefixRule, type Rule, type SearchCandidate, type SearchState } from "./search";
import { SPACE } from "./sentencepiece";
import { countSentences, findSentenceEnds } from "./sentences";
import type { SourceReader } from "./source_reader";
import type { Tensor } from "./tensor";
import { splitLine, type SplitRules, stripText } from "./text";
import { BOS, type TokenizerSide, UNK } from "./tokenizer";

export const LENGTH_PENALTY = 1; // the default of `SearchConfig`
export const MAX_EXTRA = 50; // pieces that a translation may have more than its source
export const WIDEST_BEAM = 64;

/** How a line is cut: which sentences stand together, what its translation begins with, and the text before it. */
export interface CuttingOptions {
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

  private translateLine(text: string, beam: number, sentences: "auto" | "split"): JoinedLine {
    const line = this.cut(text, { sentences });
    const results = line.segments.map(({ context, ids }) => this.search([...context, ...ids], { beam }));
    return joinResults(text, line, results, this.reader, this.target);
  }

  /** Splits a line into segments like the sources that the model was trained on, and reads each. */
  cut(line: string, options: CuttingOptions = {}): CutLine {
    const { whole = false, prefix = "", context = "" } = options;
    const rules = this.makeSplitRules(options);
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
      ...segments.flatMap(({ read }) => read.notes),
    ];
    return { split, segments, notes: [...new Set(notes)] };
  }

  private makeSplitRules({ sentences = "auto", prefix = "" }: CuttingOptions): SplitRules {
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

  /** Encodes a text that a translation shall begin with. */
  encodePrefix(text: string): Prefix {
    const ids = this.target.encode(text).slice(0, -1);
    if (ids.includes(UNK)) throw new Error(`The beginning “${text}” has a character that this model cannot write.`);
    return { ids, startsWord: text.endsWith(" ") };
  }

  /** Searches for the translation of one segment, again where it repeats itself or is empty. */
  search(source: number[], settings: SearchSettings): SearchResult {
    return searchAgain(source, settings.prefix?.ids.length ?? 0, (rules) => this.searchSegment(source, settings, rules));
  }

  private searchSegment(source: number[], settings: SearchSettings, furtherRules: Rule[]): SearchResult {
    const { beam, prefix, edit = unseen, readsAgain } = settings;
    const limit = Math.min(source.length - 1 + MAX_EXTRA, this.limits.longest);
    const ids = prefix?.ids ?? [];
    if (ids.length > limit) throw new Error(`The beginning has ${ids.length} pieces, the translation has at most ${limit}.`);
    const startsWord = (id: number) => this.target.names[id]?.startsWith(SPACE) ?? false;
    const steps: SearchCandidate[][] = [];
    const best = beamSearch((readsAgain ? makeReadingState : makeCachedState)({ model: this.model, watch: edit }, source), {
      width: beam,
      limit,
      lengthPenalty: LENGTH_PENALTY,
      rules: [
        forbiddenRule(this.forbidden),
        ...(ids.length ? [prefixRule(ids, prefix?.startsWord ? startsWord : null)] : []),
        ...furtherRules,
      ],
      observe: (candidates) => steps.push(candidates),
    });
    if (!best) throw new Error("The model gives no translation of this sentence a probability.");
    return { ...best, notes: [], steps };
  }
}

export const SENTENCE_BY_SENTENCE = "translated sentence by sentence: together a sentence was left out";

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
