// Texts as the model has learned to read them, by a profile of its training text: decode/source_reader.py and data/source_profile.py.
import { type Casing, capitaliseFirst, hasCapitalisedNouns, isInCapitals, isInSmallLetters, isInTitleCase, recaseCapitalWords, recaseSentence, restoreCapitalWords, restoreCasing } from "./casing";
import { findIntended, LONE_WORD } from "./misspellings";
import { findProtected } from "./protected";
import { findCounterpart, type PlainText, restoreSpelling, spellPlainly } from "./spelling";
import { MARK_KINDS, type MarkKind } from "./surroundings";
import type { TokenizerSide } from "./tokenizer";

/** Counts of how the sources of a training text look, as `SourceProfile.as_json` of Python writes them. */
export interface SourceProfile {
  sources: number;
  sentences: number[];
  continuations: Record<string, number>;
  without_letters: number;
  capitals: number;
  title_case: number;
  marks: Record<string, number>;
  spellings: Record<string, number>;
  small_letters?: number | null;
}

const [LEARNED_SHARE, SENTENCES_SHARE, SPELLING_SHARE] = [0.01, 0.1, 0.001];
const CASING_NOTES: Record<Casing, string> = {
  capitals: "read without its capitals, of which the training text has few",
  title: "read without the capital on each word, of which the training text has few",
  small: "read with a capital at its beginning, because the training text has few sentences without one",
  words: "words in capitals were read in small letters, as the training text has them",
};
// What stands before the first word of a sentence.
const BEGINS_SENTENCE = /(?:^|[.!?…:])[ \t\u00a0"'“”„‘’«»()[\]¿¡–—-]*$/u;
const FIRST_WORD = /[\p{L}\p{N}_][\p{L}\p{N}_'’]*/u;

/** What a model reads for a text, and what its translation gets back. */
export interface ReadText {
  text: string;
  plain: PlainText | null;
  casing: Casing | null;
  /** The user's text in plain spelling, in the case that it had. */
  cased: string;
  /** Sentences about the case and about misspelled words, where they were changed. */
  notes: string[];
}

/** Turns texts of users into texts like those that a model was trained on; without a profile, only unknown characters change. */
export class SourceReader {
  readonly together: number;
  readonly translatesNumbers: boolean;
  readonly unknownMarks: ReadonlySet<MarkKind>;
  private readonly characters: ReadonlySet<string>;
  private readonly forms = new Map<string, string>();
  private readonly ranks: ReadonlyMap<string, number>;
  private readonly pieces: ReadonlySet<string>;
  private readonly capitalisesUnknown: boolean;
  private readonly continuations: ReadonlySet<string>;

  constructor(
    tokenizer: TokenizerSide,
    private readonly lowercase: boolean,
    private readonly profile: SourceProfile | null,
    private readonly words: readonly string[],
    private readonly targetLanguage: string | null,
  ) {
    this.characters = new Set([...tokenizer.names.join(""), "\u2581"]);
    for (const word of [...words].reverse()) this.forms.set(word.toUpperCase(), word);
    this.pieces = new Set(tokenizer.names);
    this.ranks = new Map(words.map((word, rank) => [word, rank]));
    this.capitalisesUnknown = hasCapitalisedNouns(words);
    this.continuations = new Set(Object.keys(profile?.continuations ?? {}));
    const sentences = profile?.sentences ?? [];
    const isTogether = (count: number) => count < sentences.length && this.isShare(sentences.slice(count).reduce((sum, n) => sum + n, 0), SENTENCES_SHARE);
    let together = 1;
    while (isTogether(together)) together++;
    this.together = together;
    this.translatesNumbers = profile !== null && this.isShare(profile.without_letters);
    this.unknownMarks = new Set(profile ? MARK_KINDS.filter((kind) => !this.isShare(profile.marks[kind] ?? 0)) : []);
  }

  /** Tells whether a sentence begins like those that the model has learned together with the one before. */
  continues(sentence: string): boolean {
    return !this.profile || this.continuations.has(FIRST_WORD.exec(sentence)?.[0].toLowerCase() ?? "");
  }

  /** Reads a text; `keepsCase` leaves its capitals alone. */
  read(text: string, keepsCase = false): ReadText {
    const spelled = spellPlainly(text, (character) => this.knows(character));
    const casing = keepsCase ? null : this.findCasing(spelled.text);
    const plain = spelled.respelled.length ? spelled : null;
    const cased = spelled.text;
    const recased = casing ? this.recase(cased, casing) : cased;
    const notes = casing ? [CASING_NOTES[casing]] : [];
    if (!this.profile) return { text: recased, plain, casing, cased, notes };
    const mended = this.mendSpelling(recased);
    return { text: mended.text, plain, casing, cased, notes: [...notes, ...mended.notes] };
  }

  private recase(text: string, casing: Casing): string {
    if (casing === "words") return recaseCapitalWords(text, this.forms, this.capitalisesUnknown);
    return recaseSentence(text, casing, this.forms, this.capitalisesUnknown);
  }

  /** Puts words in the place of those that are misspelled for them. */
  private mendSpelling(text: string): { text: string; notes: string[] } {
    const words = [...text.matchAll(LONE_WORD)].filter(([word]) => !this.knowsWord(word));
    const unknown = words.filter(({ index }) => !BEGINS_SENTENCE.test(text.slice(0, index)));
    const notes: string[] = [];
    if (!unknown.length) return { text, notes };
    const kept = findProtected(text);
    let [mended, previousEnd] = ["", 0];
    for (const match of unknown) {
      const [word] = match;
      const [start, end] = [match.index, match.index + word.length];
      if (kept.some(([first, last]) => first < end && start < last)) continue;
      const small = word.toLowerCase();
      // Where nouns have no capital, a word that has one may be a name.
      const isSmall = word === small && word !== word.toUpperCase();
      const isWord = isSmall || (this.capitalisesUnknown && word === capitaliseFirst(small));
      const intended = isWord ? findIntended(word, this.ranks, this.words) : null;
      if (intended === null) continue;
      notes.push(`“${word}”, an unknown word, was read as “${intended}”`);
      mended += text.slice(previousEnd, start) + intended;
      previousEnd = end;
    }
    return { text: mended + text.slice(previousEnd), notes };
  }

  /** Tells whether a word is in the training text, or so common there that it is one piece. */
  private knowsWord(word: string): boolean {
    if (this.forms.has(word.toUpperCase())) return true;
    const small = word.toLowerCase();
    return [word, small, capitaliseFirst(small)].some((form) => this.pieces.has(`▁${form}`));
  }

  /** Gives a translation the case, and copied words the spellings, that the user's text had. */
  restore({ plain, casing, cased }: ReadText, translation: string): string {
    const spelled = plain ? restoreSpelling(plain, translation) : translation;
    if (casing === "words") return restoreCapitalWords(spelled, cased, this.targetLanguage);
    return casing ? restoreCasing(spelled, casing, this.targetLanguage) : spelled;
  }

  private findCasing(text: string): Casing | null {
    const { profile } = this;
    if (!profile || this.lowercase) return null;
    if (isInCapitals(text)) {
      const word = text.replace(/^[.!?:,; ]+|[.!?:,; ]+$/gu, "");
      return this.isShare(profile.capitals) || this.forms.get(word) === word ? null : "capitals";
    }
    if (!this.isShare(profile.title_case) && isInTitleCase(text, this.forms)) return "title";
    if (typeof profile.small_letters === "number" && isInSmallLetters(text) && !this.isShare(profile.small_letters)) return "small";
    return !this.isShare(profile.capitals) && recaseCapitalWords(text, this.forms, false) !== text ? "words" : null;
  }

  private knows(character: string): boolean {
    if (character <= "\x7f") return true;
    if (this.profile && findCounterpart(character) !== null) return this.isShare(this.profile.spellings[character] ?? 0, SPELLING_SHARE);
    return this.characters.has(character);
  }

  private isShare(count: number, share = LEARNED_SHARE): boolean {
    return this.profile !== null && this.profile.sources > 0 && count >= share * this.profile.sources;
  }
}
