// Capitals: a text in the case that the model knows, its translation in that of the text, as in src/pellucid/data/text/casing.py.
import { findProtected, replaceParts } from "./protected";
import { WHITE } from "./sentences";

export type Casing = "capitals" | "title" | "small" | "words";
type WordForms = ReadonlyMap<string, string>;

const WORD = /[\p{L}\p{N}_][\p{L}\p{N}_'’]*/gu;
const LONGEST_SMALL_WORD = 4;
const CAPITALISED_SHARE = 0.15;
const COMMONEST_WORDS = 1000;
const [FEWEST_LETTERS, SHORTEST_LABEL] = [6, 4];
const TWO_CAPITALS = /[A-ZÀ-ÖØ-Þ\u0100-\u024fΆ-ΫЀ-ЯԱ-Ֆ]{2}/u;
const BETWEEN_CAPITALS = new RegExp(`^[${WHITE},;&\\/\\-]*$`, "u");
const ENDS_IN_MARK = new RegExp(String.raw`[.!?…][${WHITE}"'”’»)\]]*$`, "u");
const BEFORE_FIRST_WORD = new RegExp(String.raw`(?:^|[.!?…][${WHITE}"'”’»)\]]+|[:,][${WHITE}])["'“„«‘(\[¿¡${WHITE}]*$`, "u");
const FRAME = new RegExp(String.raw`([${WHITE}][–—\-][${WHITE}]|[:()\[\]"“”„«»])`, "u");
const SMALL_WORDS = new Set("a an the and but or nor as at by for from in into of off on onto out over per to up via with".split(" "));

const hasCase = (text: string) => text.toLowerCase() !== text.toUpperCase();
const isUpper = (text: string) => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
export const isLower = (text: string) => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
const firstOf = (text: string) => [...text][0] ?? "";

/** Gives a word with a capital at its beginning. */
export const capitaliseFirst = (word: string) => firstOf(word).toUpperCase() + word.slice(firstOf(word).length);
const listWords = (text: string) => replaceParts(text, (part) => part, () => " ").match(WORD) ?? [];

/** Tells whether all letters of a text are capitals, and at least two stand in one word; protected text is free. */
export function isInCapitals(text: string): boolean {
  const visible = replaceParts(text, (part) => part, () => " ");
  return isUpper(visible) && (visible.match(WORD) ?? []).some((word) => [...word].filter(hasCase).length > 1);
}

/** Tells whether each word of a text begins with a capital, except short ones, and some would not in a sentence. */
export function isInTitleCase(text: string, forms: WordForms): boolean {
  const isLong = (word: string) => [...word].length > LONGEST_SMALL_WORD;
  const isLongAndSmall = (word: string) => [...word].length > LONGEST_SMALL_WORD + 2 && /^\p{L}+$/u.test(word) && isLower(word);
  if (text.split(new RegExp(`[${WHITE}]+`, "u")).some(isLongAndSmall)) return false;
  const words = listWords(text).filter(hasCase).slice(1);
  const capitalised = words.filter((word) => isUpper(firstOf(word)) && !isUpper(word));
  const small = words.filter((word) => isLower(firstOf(word)));
  if (capitalised.length <= small.length || small.some(isLong)) return false;
  return capitalised.some((word) => isLower(firstOf(forms.get(word.toUpperCase()) ?? word)));
}

/** Tells whether so many of the commonest words, which come first, have a capital inside a sentence that a new word probably has one. */
export function hasCapitalisedNouns(words: readonly string[]): boolean {
  const commonest = words.slice(0, COMMONEST_WORDS);
  return commonest.filter((word) => isUpper(firstOf(word))).length > CAPITALISED_SHARE * commonest.length;
}

/** Spells a text in capitals, or with a capital on each word, as a sentence; what is protected stays as it is. */
export function recaseSentence(text: string, casing: Casing, forms: WordForms, capitalisesUnknown: boolean): string {
  const spell = (word: string) =>
    casing === "title"
      ? (findForm(word, forms) ?? word) // an unknown word may be a name
      : spellAsKnown(word, forms, capitalisesUnknown && casing === "capitals");
  const recased = replaceParts(text, (part) => part.replace(WORD, spell));
  const letter = /\p{L}/u.exec(recased);
  if (!letter || isProtected(recased, letter.index)) return recased;
  return recased.slice(0, letter.index) + letter[0].toUpperCase() + recased.slice(letter.index + letter[0].length);
}

/** Gives a word in capitals as the training text has it; one that is unknown there in small letters, or as a noun. */
function spellAsKnown(word: string, forms: WordForms, capitalisesUnknown: boolean): string {
  const first = firstOf(word);
  return findForm(word, forms) ?? (capitalisesUnknown ? first.toUpperCase() + word.slice(first.length).toLowerCase() : word.toLowerCase());
}

/** Tells whether a text is a sentence, with a mark at its end, in which no letter is a capital. */
export function isInSmallLetters(text: string): boolean {
  return isLower(text) && ENDS_IN_MARK.test(text);
}

/** Spells words in capitals inside a sentence as the training text has them, where it has most in small letters. */
export function recaseCapitalWords(text: string, forms: WordForms, capitalisesUnknown: boolean): string {
  if (!TWO_CAPITALS.test(text)) return text;
  let [out, end] = ["", 0];
  for (const [start, stop] of findCapitalRuns(text, forms)) {
    let run = text.slice(start, stop).replace(WORD, (word) => spellAsKnown(word, forms, capitalisesUnknown));
    const before = [...text.slice(Math.max(0, start - 16), start)].slice(-8).join("");
    if (BEFORE_FIRST_WORD.test(before)) run = capitaliseFirst(run);
    out += text.slice(end, start) + run;
    end = stop;
  }
  return out + text.slice(end);
}

function findCapitalRuns(text: string, forms: WordForms): [number, number][] {
  const spans = findProtected(text);
  const words = [...text.matchAll(WORD)].filter(({ index }) => !spans.some(([start, end]) => start <= index && index < end));
  const runs: RegExpMatchArray[][] = [[]];
  for (const word of words) {
    const last = runs.at(-1)!.at(-1);
    if (!isUpper(word[0])) runs.push([]);
    else if (last && BETWEEN_CAPITALS.test(text.slice(last.index! + last[0].length, word.index))) runs.at(-1)!.push(word);
    else runs.push([word]);
  }
  const emphasised = runs.filter((run) => run.length && isEmphasis(text, run, run[0] === words[0], forms));
  return emphasised.map((run) => [run[0]!.index!, run.at(-1)!.index! + run.at(-1)![0].length]);
}

/** Whether words in capitals are words that the training text has in small letters. */
function isEmphasis(text: string, run: RegExpMatchArray[], isFirst: boolean, forms: WordForms): boolean {
  const sizeOf = (word: string) => [...word].length;
  const words = run.map(([word]) => word).filter((word) => sizeOf(word) > 1);
  const known = words.flatMap((word) => findForm(word, forms) ?? []);
  const small = known.filter(isLower);
  if (words.length === 1) return isFirst && text[run[0]!.index! + run[0]![0].length] === ":" && sizeOf(words[0]!) >= SHORTEST_LABEL && small.length > 0;
  return small.length >= words.length - known.length && small.reduce((sum, word) => sum + sizeOf(word), 0) >= FEWEST_LETTERS;
}

/** Gives those parts of a translation capitals that are in capitals in the source, where it is sure which they are. */
export function restoreCapitalWords(translation: string, source: string, language: string | null): string {
  const [pieces, sourcePieces] = [translation.split(FRAME), source.split(FRAME)];
  const listSigns = (parts: string[]) => parts.filter((_, i) => i % 2 === 1).map(plainSign).join();
  if (pieces.length === 1 || listSigns(pieces) !== listSigns(sourcePieces)) return translation;
  return pieces.map((piece, i) => (i % 2 === 0 && isInCapitals(sourcePieces[i]!) ? restoreCasing(piece, "capitals", language) : piece)).join("");
}

function plainSign(sign: string): string {
  return sign.trim().replace(/[“”„«»]/u, '"').replace(/[–—]/u, "-");
}

/** Gives a translation the case that its source had; a title gets capitals where its language writes them so. */
export function restoreCasing(translation: string, casing: Casing, language: string | null): string {
  const base = (language ?? "").replaceAll("_", "-").split("-")[0]!.toLowerCase();
  if (casing === "capitals") return replaceParts(translation, (part) => capitalise(part, base));
  return casing === "title" && (base === "en" || base === "eng") ? capitaliseTitle(translation) : translation;
}

/** Gives a text in capitals, as its language writes them. */
function capitalise(text: string, language: string): string {
  const capitals = (["tr", "az", "tur", "aze"].includes(language) ? text.replaceAll("i", "İ") : text).toUpperCase();
  if (!["el", "ell", "gre"].includes(language)) return capitals;
  return capitals.normalize("NFD").replaceAll("\u0301", "").normalize("NFC");
}

function capitaliseTitle(text: string): string {
  const count = (text.match(WORD) ?? []).length;
  let number = 0;
  return text.replace(WORD, (word, place: number) => {
    const isOuter = number === 0 || number === count - 1;
    number++;
    if (isProtected(text, place) || word !== word.toLowerCase() || (SMALL_WORDS.has(word) && !isOuter)) return word;
    return capitaliseFirst(word);
  });
}

/** Gives the spelling of a word inside a sentence; of one with an apostrophe also by what stands before it. */
function findForm(word: string, forms: WordForms): string | undefined {
  const known = forms.get(word.toUpperCase());
  const cut = Math.max(word.lastIndexOf("'"), word.lastIndexOf("’"));
  if (known !== undefined || cut <= 0) return known;
  const stem = forms.get(word.slice(0, cut).toUpperCase());
  return stem && stem + word.slice(cut).toLowerCase();
}

function isProtected(text: string, place: number): boolean {
  return findProtected(text).some(([start, end]) => start <= place && place < end);
}
