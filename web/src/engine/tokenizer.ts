// Text to token ids and back, for both languages, as in src/pellucid/data/tokenizer.py.
import { SentencePiece, SPACE } from "./sentencepiece";
import { stripText } from "./text";

export const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3] as const;

/** Other spellings of characters that SentencePiece uses itself. An imported tokenizer was not learned from text spelled so. */
const ESCAPES: [character: string, spelling: string][] = [..."\ufdd0\u2581\u2585"].map((character, i) => [character, `\ufdd0${i}`]);

export interface TokenizerConfig {
  kind: "bpe" | "unigram" | "char" | "word" | "marian";
  lowercase: boolean;
  source_end: boolean;
}

/** One side of a tokenizer: a SentencePiece model and, if it was imported, the list by which its pieces are numbered. */
export class TokenizerSide {
  readonly names: readonly string[];
  private readonly model: SentencePiece;
  private readonly listedIds: Map<string, number> | null;

  constructor(
    file: Uint8Array,
    private readonly config: TokenizerConfig,
    list: readonly string[] | null,
  ) {
    this.model = new SentencePiece(file);
    this.names = list ?? this.model.entries.map((entry) => entry.piece);
    // Without the special tokens: a text that spells "</s>" must not end the sentence.
    this.listedIds = list && new Map(list.map((name, id): [string, number] => [name, id]).filter(([, id]) => id > EOS));
  }

  /** The ids of a line, with the end token last. */
  encode(line: string): number[] {
    if (/\p{Surrogate}/u.test(line)) throw new Error("The text has half of a character (a lone surrogate), which is no text.");
    const text = this.escape(line);
    if (!this.listedIds) return [...this.model.cut(text).map((piece) => piece.id), EOS];
    // The code of a language at the beginning, >>fra<<, is one piece, however the model would cut it.
    const mark = /^>>[\s\S]*?<</.exec(text)?.[0] ?? "";
    const pieces = this.model.cut(text.slice(mark.length)).map((piece) => piece.text);
    const ids = [...(mark ? [mark] : []), ...pieces].map((piece) => this.listedIds?.get(piece) ?? UNK);
    return [...ids, EOS];
  }

  /** The ids of a line as a source, which in some imported models has no end token; an empty one is the end token alone. */
  encodeSource(line: string): number[] {
    const ids = this.encode(line);
    return this.config.source_end || ids.length === 1 ? ids : ids.slice(0, -1);
  }

  /** The text of one sentence. */
  decode(ids: readonly number[]): string {
    const pieces = this.pieces(ids.filter((id) => id !== PAD && id !== BOS && id !== EOS));
    const joined = this.model.join(pieces);
    return this.unescape(this.listedIds ? stripText(joined.replaceAll(SPACE, " ")) : joined);
  }

  /** The pieces of ids. */
  pieces(ids: readonly number[]): string[] {
    return ids.map((id) => {
      const name = this.names[id];
      if (name === undefined) throw new Error(`Piece ${id} is not one of the ${this.names.length}.`);
      return name;
    });
  }

  private escape(line: string): string {
    const text = this.config.lowercase ? line.toLowerCase() : line;
    if (this.config.kind === "marian") return text;
    return ESCAPES.reduce((spelled, [character, spelling]) => spelled.replaceAll(character, spelling), text);
  }

  private unescape(text: string): string {
    if (this.config.kind === "word") text = text.replaceAll(SPACE, " ").replace(/^ /, "");
    // Backwards: the first escape spells the character that begins all of them.
    if (this.config.kind !== "marian") text = ESCAPES.reduceRight((spelled, [character, spelling]) => spelled.replaceAll(spelling, character), text);
    return text.replaceAll("\n", " ");
  }
}
