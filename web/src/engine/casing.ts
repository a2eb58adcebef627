// Capitals: a text in the case that the model knows, its translation in that of the text, as in src/pellucid/text/casing.py.
import { findProtected, replaceParts } from "./protected";
import { WHITE } from "./sentences";

export type Casing = "capitals" | "title";
type WordForms = ReadonlyMap<string, string>;

const WORD = /[\p{L}\p{N}_][\p{L}\p{N}_'’]*/gu;
const LONGEST_SMALL_WORD = 4;
const CAPITALISED_SHARE = 0.15;
const COMMONEST_WORDS = 1000;
const SMALL_WORDS = new Set("a an the and but or nor as at by for from in into of off on onto out over per to up via with".split(" "));

const hasCase = (text: string) => text.toLowerCase() !== text.toUpperCase();
const isUpper = (text: string) => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
const isLower = (text: string) => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
const firstOf = (text: string) => [...text][0] ?? "";
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
  const spell = (word: string) => {
    const known = findForm(word, forms);
    if (known !== undefined) return known;
    if (casing === "title") return word; // it may be a name
    const lower = word.toLowerCase();
    return capitalisesUnknown ? firstOf(word).toUpperCase() + word.slice(firstOf(word).length).toLowerCase() : lower;
  };
  const recased = replaceParts(text, (part) => part.replace(WORD, spell));
  const letter = /\p{L}/u.exec(recased);
  if (!letter || isProtected(recased, letter.index)) return recased;
  return recased.slice(0, letter.index) + letter[0].toUpperCase() + recased.slice(letter.index + letter[0].length);
}

/** Gives a translation the case that its source had; a title gets capitals where its language writes them so. */
export function restoreCasing(translation: string, casing: Casing, language: string | null): string {
  const base = (language ?? "").replaceAll("_", "-").split("-")[0]!.toLowerCase();
  if (casing === "capitals") return replaceParts(translation, (part) => capitalise(part, base));
  return base === "en" || base === "eng" ? capitaliseTitle(translation) : translation;
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
    return firstOf(word).toUpperCase() + word.slice(firstOf(word).length);
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
