// Text around the model, as in src/pellucid/data/text/: lines are split into segments that fit it, and words are found among pieces.
import { findProtected } from "./protected";
import { SPACE } from "./sentencepiece";
import { findSentenceEnds, WHITE } from "./sentences";
import { MOST_MARKS, type MarkKind, trimMarks } from "./surroundings";

const WORDS = new RegExp(`[^${WHITE}]+`, "gu");

/** Strips white space from both ends, as Python does. */
export function stripText(text: string): string {
  return text.replace(new RegExp(`^[${WHITE}]+|[${WHITE}]+$`, "gu"), "");
}

/** Splits a text into words at white space. */
export function splitWords(text: string): string[] {
  return text.match(WORDS) ?? [];
}

// Characters around a segment that are not translated: white space, invisible characters and emoji (data/text/line_splitting.py).
const SPACES = String.raw`${WHITE}\0-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff`;
const ATTACHED = String.raw`\u200d\u20e3\ufe0e\ufe0f\u{1f3fb}-\u{1f3ff}\u{e0020}-\u{e007f}`;
const EMOJI = String.raw`\u{1f000}-\u{1f0ff}\u{1f170}-\u{1f1ff}\u{1f300}-\u{1faff}`;
const PICTURES = `${listSymbols()}${EMOJI}`;
const OUTER_RUN = new RegExp(
  String.raw`(?:[${SPACES}]|(?:[${PICTURES}]|[0-9#*]\ufe0f?\u20e3|[©®‼⁉™ℹ〰〽㊗㊙\u2190-\u2bff]\ufe0f)[${ATTACHED}]*)+`,
  "gu",
);
const BREAKS = "\\t\\n\\v\\f\\r\\x1c\\x1d\\x1e\\x85\\u2028\\u2029"; // between cells or lines, never inside a segment
const BREAK = new RegExp(`[${BREAKS}]+`, "gu");
export const JOINT = new RegExp(`^(?:(?![${BREAKS}])[${WHITE}])*$`, "u"); // what stands between sentences of one cell
const BAR = new RegExp(String.raw`(?<![^${WHITE}])\|{1,2}(?![^${WHITE}])|(?<!\\)\\[nrt](?![a-z0-9_{(\[])`, "gu");
const UNSPACED = /^[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\u{20000}-\u{3ffff}]/u;

/** Lists the symbols from arrows to dingbats, but not those that stand for letters (℃, Ⓐ). */
function listSymbols(): string {
  let symbols = "";
  for (let code = 0x2190; code < 0x2c00; code++) {
    const symbol = String.fromCharCode(code);
    if ((code < 0x2800 || code >= 0x2900) && /\p{So}/u.test(symbol) && symbol.normalize("NFKD") === symbol) symbols += symbol;
  }
  return symbols;
}

/** The segments of a line that are translated, and the gaps around them, of which there is one more. */
export interface SplitLine {
  segments: string[];
  gaps: string[];
}

// A letter, or a mark that no letter carries; those of emoji are marks, too (data/text/line_splitting.py).
const LETTER = /\p{L}|(?![\u20e3\ufe0e\ufe0f])\p{M}/u;

/** How many sentences stand together in a segment, which marks around it are left out, and whether it needs a letter. */
export interface SplitRules {
  together: number;
  /** Whether a sentence continues the one before, and may stand together with it. */
  continues: (sentence: string) => boolean;
  marks: ReadonlySet<MarkKind>;
  keepsWithoutLetters: boolean;
}

/** Splits a line into segments: the sentences of its cells between tabs and line ends, as many together as the rules allow. */
export function splitLine(line: string, rules: SplitRules, fits: (text: string) => boolean, fitsSentence: (text: string) => boolean): SplitLine {
  const isTranslated = (text: string) => !rules.keepsWithoutLetters || LETTER.test(text);
  const packing: Packing = { text: line, rules, fits, fitsSentence, isInside: findInside(line) };
  const found: [number, number][] = [];
  for (const [start, end] of findCells(line)) if (isTranslated(line.slice(start, end))) found.push(...packSentences(packing, start, end));
  // A cell that was cut may have parts without a letter.
  const spans = found.length > 1 ? found.filter(([first, last]) => isTranslated(line.slice(first, last))) : found;
  const edges = [0, ...spans.flat(), line.length];
  const texts = edges.slice(1).map((edge, i) => line.slice(edges[i], edge));
  return { segments: texts.filter((_, i) => i % 2 === 1), gaps: texts.filter((_, i) => i % 2 === 0) };
}

/** Finds the spans between tabs, line ends, and bars that are no part of protected text. */
function findCells(line: string): [number, number][] {
  const bars = [...line.matchAll(BAR)];
  const spans = bars.length ? findProtected(line) : [];
  const outside = bars.filter(({ index }) => !spans.some(([start, end]) => start <= index && index < end));
  const separators = [...line.matchAll(BREAK), ...outside].map((match): [number, number] => [match.index, match.index + match[0].length]);
  const edges = [0, ...separators.sort(([a], [b]) => a - b).flat(), line.length];
  return edges.flatMap((edge, i): [number, number][] => (i % 2 === 0 && edge < edges[i + 1]! ? [[edge, edges[i + 1]!]] : []));
}

/** Joins texts that replace the segments of a line; between sentences that had no space, as in Chinese, they get one. */
export function joinLine(line: SplitLine, texts: readonly string[]): string {
  return line.gaps
    .map((gap, i) => {
      const [left, right] = [texts[i - 1] ?? "", texts[i] ?? ""];
      const isTight = i > 0 && !gap && left !== "" && right !== "" && UNSPACED.test([...line.segments[i - 1]!].at(-1)!);
      const isSpaced = isTight && !UNSPACED.test([...left].at(-1)!) && !UNSPACED.test(right);
      return (isSpaced ? " " : gap) + right;
    })
    .join("");
}

type FindEnds = (text: string) => number[];

/** A text to be cut into segments, and what a segment may be. */
interface Packing {
  text: string;
  rules: SplitRules;
  fits: (text: string) => boolean;
  fitsSentence: (text: string) => boolean;
  /** Whether a place is inside of protected text, which only a cut between characters takes apart. */
  isInside: (place: number) => boolean;
}

function findInside(line: string): (place: number) => boolean {
  const spans = findProtected(line);
  return (place) => spans.some(([start, end]) => start < place && place < end);
}

/** Gives the span without white space, emoji and the marks around it. */
function trim({ text, rules }: Packing, start: number, end: number): [number, number] {
  [start, end] = trimSpan(text, start, end);
  for (let round = 0; round < MOST_MARKS; round++) {
    const inner = trimMarks(text, start, end, rules.marks);
    if (inner[0] === start && inner[1] === end) break;
    [start, end] = trimSpan(text, ...inner);
  }
  return [start, end];
}

function findEnds({ text, isInside }: Packing, level: number, start: number, end: number): number[] {
  const ends = LEVELS[level]!(text.slice(start, end)).map((place) => start + place);
  return level < CHARACTER_LEVEL ? ends.filter((place) => place === end || !isInside(place)) : ends;
}

/** Counts how many of the ends a segment that begins at `start` can include. */
function countFitting(packing: Packing, start: number, ends: readonly number[], fits: (text: string) => boolean): number {
  const fitsUpTo = (count: number) => {
    const [left, right] = trim(packing, start, ends[count - 1]!);
    return left === right || fits(packing.text.slice(left, right));
  };
  return findLargestFitting(fitsUpTo, ends.length);
}

/** Finds the spans of the segments of a stretch of text. */
function packSentences(packing: Packing, from: number, to: number): [number, number][] {
  const { text, rules } = packing;
  let [start, end] = trim(packing, from, to);
  if (start === end) return [];
  const spans: [number, number][] = [];
  const ends = findEnds(packing, 0, start, end);
  for (let first = 0; first < ends.length; ) {
    const most = Math.min(ends.length - first, rules.together);
    let together = 1;
    while (together < most && rules.continues(text.slice(ends[first + together - 1], ends[first + together]))) together++;
    const count = countFitting(packing, start, ends.slice(first, first + together), packing.fits);
    const stop = ends[first + Math.max(1, count) - 1]!;
    const span = trim(packing, start, stop);
    if (!count) spans.push(...packParts(packing, start, stop, 1));
    else if (span[0] < span[1]) spans.push(span);
    start = stop;
    first += Math.max(1, count);
  }
  return spans;
}

/** Finds the spans of the segments of a sentence, each as long as fits, cut at the coarsest level possible. */
function packParts(packing: Packing, from: number, to: number, level: number): [number, number][] {
  let [start, end] = trim(packing, from, to);
  if (start === end) return [];
  if (level === LEVELS.length || packing.fitsSentence(packing.text.slice(start, end))) return [[start, end]];
  const spans: [number, number][] = [];
  const ends = findEnds(packing, level, start, end);
  for (let first = 0; first < ends.length; ) {
    const count = countFitting(packing, start, ends.slice(first), packing.fitsSentence);
    const stop = ends[first + Math.max(1, count) - 1]!;
    const span = trim(packing, start, stop);
    if (!count) spans.push(...packParts(packing, start, stop, level + 1));
    else if (span[0] < span[1]) spans.push(span);
    start = stop;
    first += Math.max(1, count);
  }
  return spans;
}

/** Gives the span without white space and emoji at its ends. */
function trimSpan(text: string, start: number, end: number): [number, number] {
  const stretch = text.slice(start, end);
  let [first, last] = [0, stretch.length];
  for (const run of stretch.matchAll(OUTER_RUN)) {
    if (run.index === 0) first = run[0].length;
    if (run.index + run[0].length === stretch.length) last = run.index;
  }
  return [start + first, start + Math.max(first, last)];
}

/** Finds the largest n from 1 to `total` for which `holds`, or 0, by doubling and halving. */
function findLargestFitting(holds: (count: number) => boolean, total: number): number {
  let [low, high] = [0, 1];
  while (high <= total && holds(high)) [low, high] = [high, 2 * high];
  high = Math.min(high, total + 1);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return low;
}

const CLAUSE_END = new RegExp(`[;:,–—](?=[${WHITE}])|[、，；：،؛]`, "gu");
const SPACE_END = new RegExp(`[${WHITE}]+`, "gu");

function listEnds(text: string, matches: Iterable<RegExpMatchArray>): number[] {
  const ends = [...matches].map((match) => (match.index as number) + match[0].length);
  return [...ends.filter((end) => end < text.length), text.length];
}

/** Finds the ends of characters as a reader sees them: a letter with accents, an emoji with joiners, a flag. */
function findCharacterEnds(text: string): number[] {
  const attached = new RegExp(`^(?:\\p{M}|[${ATTACHED}])`, "u");
  const isLetterOfFlag = (character: string) => /^[\u{1f1e6}-\u{1f1ff}]$/u.test(character);
  const ends: number[] = [];
  let [place, letters, last] = [0, 0, ""];
  for (const character of text) {
    const isFlag = letters % 2 === 1 && isLetterOfFlag(character);
    if (place > 0 && !(isFlag || attached.test(character) || last === "\u200d")) ends.push(place);
    letters = isLetterOfFlag(character) ? letters + 1 : 0;
    place += character.length;
    last = character;
  }
  return [...ends, text.length];
}

const CHARACTER_LEVEL = 3;
const LEVELS: readonly FindEnds[] = [
  findSentenceEnds,
  (text) => listEnds(text, text.matchAll(CLAUSE_END)),
  (text) => listEnds(text, text.matchAll(SPACE_END)),
  findCharacterEnds,
  (text) => listEnds(text, text.matchAll(/[^]/gu)),
];

/** For each piece the number of its word in the text (words are separated by white space), null for those of no word. */
export function findWords(pieces: readonly string[], text: string): (number | null)[] {
  const found: (number | null)[] = pieces.map(() => null);
  const words = splitWords(text);
  const letters = spellLetters(pieces);
  const wordOf = numberLetters(letters.map(({ letter }) => letter).join(""), text);
  const ranges = words.map((): { begin?: number; end?: number } => ({}));
  letters
    .filter(({ letter }) => splitWords(letter).length > 0)
    .forEach(({ first, last }, i) => {
      const range = ranges[wordOf[i] ?? -1];
      if (!range) return;
      range.begin ??= first;
      range.end = last + 1;
    });
  // A word begins where the one before it ended, so that pieces of white space have a word too.
  let stop = 0;
  const spans = ranges.map(({ begin, end }) => {
    const start = Math.min(begin ?? stop, stop);
    stop = end ?? stop;
    return [start, stop] as const;
  });
  // In reverse, so that the first of two words that share a piece is written last.
  for (const [word, [start, end]] of [...spans.entries()].reverse()) found.fill(word, start, end);
  return found;
}

/** Lists the letters that the pieces spell, each with the first and the last piece that has a byte of it. */
function spellLetters(pieces: readonly string[]): { letter: string; first: number; last: number }[] {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const bytes: number[] = [];
  const pieceOf: number[] = [];
  pieces.forEach((piece, number) => {
    const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
    const spelled = byte ? [Number.parseInt(byte[1]!, 16)] : [...encoder.encode(piece.replaceAll(SPACE, " "))];
    for (const value of spelled) {
      bytes.push(value);
      pieceOf.push(number);
    }
  });
  const letters: { letter: string; first: number; last: number }[] = [];
  for (let start = 0; start < bytes.length; ) {
    const lead = bytes[start]!;
    let size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    let letter: string;
    try {
      letter = decoder.decode(Uint8Array.from(bytes.slice(start, start + size)));
    } catch {
      [letter, size] = ["\ufffd", 1]; // a byte of no text becomes a letter of its own
    }
    letters.push({ letter, first: pieceOf[start]!, last: pieceOf[Math.min(start + size, bytes.length) - 1]! });
    start += size;
  }
  return letters;
}

/** For each letter of `spelled` that is not white space the number of its word in the text. */
function numberLetters(spelled: string, text: string): number[] {
  const own = splitWords(spelled);
  const words = own.length === splitWords(text).length ? own : splitWords(text);
  const wordOf = words.flatMap((word, number) => [...word].map(() => number));
  const [letters, wanted] = [[...own.join("")], [...words.join("")]];
  if (letters.join("") === wanted.join("")) return wordOf;
  // An imported tokenizer rewrites text before it cuts it: what is equal at both ends decides, letters in between are spread evenly.
  let [head, tail] = [0, 0];
  const shorter = Math.min(letters.length, wanted.length);
  while (head < shorter && letters[head] === wanted[head]) head++;
  while (tail < shorter - head && letters.at(-1 - tail) === wanted.at(-1 - tail)) tail++;
  const [inside, room] = [letters.length - head - tail, wanted.length - head - tail];
  return letters.map((_, i) => {
    if (i < head) return wordOf[i]!;
    if (i >= head + inside) return wordOf[wanted.length - (letters.length - i)]!;
    return wordOf[Math.min(head + Math.floor(((i - head) * room) / inside), wordOf.length - 1)]!;
  });
}
