// Marks around a whole line: a number, bullet or label before it, quotation marks or brackets around it (data/text/surroundings.py).
import { ADDRESS, W } from "./protected";
import { WHITE } from "./sentences";

export const MARK_KINDS = ["numbers", "bullets", "quotes", "brackets", "notes", "labels"] as const;
export type MarkKind = (typeof MARK_KINDS)[number];

const NUMBER = new RegExp(
  String.raw`^(?:\(?\p{Nd}{1,4}(?:\.\p{Nd}{1,3})*[.):\]]|\p{Nd}+(?:\.\p{Nd}+){2,}|\(?[a-zA-Z]\)|\(?[ivxIVX]{1,5}\)|[IVX]{2,5}\.` +
    String.raw`|\p{Nd}{1,4}[${WHITE}]?[–—\-](?=[${WHITE}]+\P{Nd}))[${WHITE}]+`,
  "u",
);
const BULLET = new RegExp(String.raw`^[-–—*+•‣▪▸►●○◦·∙][${WHITE}]+(?:\[[ xX]\][${WHITE}]+)?|^[–—\-](?=[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я¿¡])`, "u");
/** So that no line, whatever is in it, takes more than a moment. */
export const MOST_MARKS = 8;
const ANY_QUOTE = /["“”„«»「」『』]/gu;
const BEHIND_SENTENCE = `(?<=[.!?…。！？"'”’»)])`;
const NOTE = new RegExp(String.raw`${BEHIND_SENTENCE}[${WHITE}]?(?:\[\p{Nd}{1,3}\]|[¹²³⁰⁴-⁹*†‡]){1,6}$`, "u");
// An address, @name, #topic, a time or a code, before a capital or behind the end of a sentence.
const LABEL = `(?:${ADDRESS}|[@#][${W}]+(?:[.@\\-][${W}]+)*|[(\\[]?[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?[)\\]]?(?:[${WHITE}]?[AaPp]\\.?[Mm](?![${W}])\\.?)?|[A-Z]{1,6}-(?:[0-9]{3,}|[0-9]{1,2}(?=:)))`;
const BEFORE = new RegExp(`^(?:${LABEL}(?::|[${WHITE}]?[–—\\-])?[${WHITE}]+(?!(?:Uhr|[AP]M)(?![${W}]))){1,4}(?=["'“„«‘‚‹»(\\[¿¡*_]*[\\p{Lu}\\p{Lt}])`, "u");
const BEHIND = new RegExp(`${BEHIND_SENTENCE}(?:[${WHITE}]+(?:${LABEL}|\\([0-9]+\\)|\\{\\{?[A-Za-z0-9_.]*\\}\\}?)){1,4}$(?<![.!?…])`, "u");
const readPairs = (text: string) => new Map(text.split(" ").map((pair): [string, string] => [pair[0]!, pair.slice(1)]));
const QUOTES = readPairs("\"\" “” „“” «» »« ‘’ ‚‘’ ‹› ›‹ ”” '' 「」 『』");
const BRACKETS = readPairs("() [] （） 【】 〔〕 ［］");
const AFTER_CLOSING = ".,;:!?…。";
const isLetter = (character: string | undefined) => /^\p{L}/u.test(character ?? "");

/** Gives a span without up to MOST_MARKS marks of these kinds around it; something with a letter stays. */
export function trimMarks(text: string, start: number, end: number, kinds: ReadonlySet<MarkKind>): [number, number] {
  for (let marks = 0; marks < MOST_MARKS; marks++) {
    const found = trimOne(text.slice(start, end), text.slice(end, end + 2));
    if (!found || !kinds.has(found.kind)) break;
    end = start + found.end;
    start += found.start;
  }
  return [start, end];
}

/** Finds the outermost mark of a text, and the span inside of it. */
function trimOne(text: string, after: string): { kind: MarkKind; start: number; end: number } | null {
  const note = NOTE.exec(text);
  if (note && /\p{L}/u.test(text.slice(0, note.index)) && !(note[0].includes("*") && text.slice(0, note.index).includes("*")))
    return { kind: "notes", start: 0, end: note.index };
  const before = BEFORE.exec(text);
  if (before) return { kind: "labels", start: before[0].length, end: text.length };
  const behind = BEHIND.exec(text);
  if (behind && /\p{L}/u.test(text.slice(0, behind.index))) return { kind: "labels", start: 0, end: behind.index };
  const [first = "", second] = text;
  const closes = QUOTES.has(text.at(-1) ?? "");
  if (!first || (!closes && isLetter(first) && isLetter(second ?? after) && !"IVXivx".includes(first))) return null;
  const number = NUMBER.exec(text);
  const bullet = BULLET.exec(text);
  const inside =
    number || bullet
      ? { kind: number ? ("numbers" as const) : ("bullets" as const), start: (number ?? bullet)![0].length, end: text.length }
      : (trimPair("quotes", text, QUOTES.get(first)) ??
        trimPair("brackets", text, BRACKETS.get(first)) ??
        (QUOTES.has(first) || (closes && !BRACKETS.has(first)) ? trimLone(text) : null));
  return inside && /\p{L}/u.test(text.slice(inside.start, inside.end)) ? inside : null;
}

/** Finds the span without a quotation mark at one end whose partner stands in another sentence. */
function trimLone(text: string): { kind: MarkKind; start: number; end: number } | null {
  const places = [...text.matchAll(ANY_QUOTE)].map(({ index }) => index);
  if (places.length !== 1) return null;
  if (places[0] === 0) return { kind: "quotes", start: 1, end: text.length };
  const isLast = places[0] === text.length - 1 && !/\p{Nd}.$/u.test(text);
  return isLast ? { kind: "quotes", start: 0, end: text.length - 1 } : null;
}

/** Finds the span inside a pair of marks; null unless the pair stands around everything. */
function trimPair(kind: MarkKind, text: string, closing: string | undefined): { kind: MarkKind; start: number; end: number } | null {
  if (closing === undefined) return null;
  const characters = [...text];
  let last = characters.length - 1;
  while (last > 0 && AFTER_CLOSING.includes(characters[last]!)) last--;
  if (last <= 1 || !closing.includes(characters[last]!)) return null;
  const pair = [characters[0], characters[last]];
  // Another mark of the pair inside means that this one does not go around the whole; an apostrophe in a word is none.
  const isOther = (character: string, i: number) => pair.includes(character) && !(isLetter(characters[i]) && isLetter(characters[i + 2]));
  if (characters.slice(1, last).some(isOther)) return null;
  return { kind, start: 1, end: characters.slice(0, last).join("").length };
}
