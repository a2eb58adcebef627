// A SentencePiece model, read from its file: text is normalised, cut into pieces, and joined again exactly as the library does.
// The rules are those of its sources: normalizer.cc, bpe_model.cc, unigram_model.cc, sentencepiece_processor.cc.

export const SPACE = "\u2581"; // stands for a space in a piece
const UNKNOWN_SURFACE = " \u2047 "; // what the unknown piece spells
const UNKNOWN_PENALTY = 10; // an unknown character scores so much below the worst piece

/** Kinds of pieces, as their file numbers them. */
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const UNUSED = 5;
const BYTE = 6;

type Algorithm = "unigram" | "bpe" | "word" | "char";
const ALGORITHMS: Record<number, Algorithm> = { 1: "unigram", 2: "bpe", 3: "word", 4: "char" };

interface Entry {
  piece: string;
  score: number;
  kind: number;
}

/** A text that stands for a piece, with the id of that piece: the unknown piece may stand for any text. */
export interface CutPiece {
  text: string;
  id: number;
}

export class SentencePiece {
  readonly entries: readonly Entry[];
  private readonly algorithm: Algorithm;
  private readonly ids = new Map<string, number>(); // of pieces that a text can be cut into
  private readonly reservedIds = new Map<string, number>(); // of special tokens and bytes
  private readonly unknownId: number;
  private readonly hasBytes: boolean;
  private readonly longest: number; // code units of the longest piece
  private readonly leastScore: number;
  private readonly normaliser: Normaliser;

  constructor(file: Uint8Array) {
    const { entries, algorithm, hasBytes, suffix, normaliser } = readModelFile(file);
    this.entries = entries;
    this.algorithm = algorithm;
    this.hasBytes = hasBytes;
    this.normaliser = normaliser;
    if (suffix || entries.some((entry) => entry.kind === USER_DEFINED))
      throw new Error("This tokenizer has symbols of its user or puts spaces behind words, which this page cannot do.");
    entries.forEach(({ piece, kind }, id) => {
      const isCut = kind === NORMAL || kind === UNUSED;
      (isCut ? this.ids : this.reservedIds).set(piece, id);
    });
    this.unknownId = entries.findIndex((entry) => entry.kind === UNKNOWN);
    this.longest = Math.max(0, ...[...this.ids.keys()].map((piece) => piece.length));
    this.leastScore = Math.min(...entries.filter((entry) => entry.kind === NORMAL).map((entry) => entry.score));
    if (this.unknownId < 0) throw new Error("This tokenizer has no piece for what is unknown.");
  }

  /** Cuts a line into pieces. */
  cut(line: string): CutPiece[] {
    const text = this.normaliser.normalise(line);
    const pieces: CutPiece[] = [];
    let wasUnknown = false;
    for (const piece of CUTTERS[this.algorithm](this, text)) {
      const id = this.findId(piece);
      const isUnknown = id === this.unknownId;
      const last = pieces.at(-1);
      if (isUnknown && this.hasBytes) for (const byte of new TextEncoder().encode(piece)) pieces.push(this.bytePiece(byte));
      else if (isUnknown && wasUnknown && last) last.text += piece; // neighbours that are unknown are one piece
      else pieces.push({ text: piece, id });
      wasUnknown = isUnknown;
    }
    return pieces;
  }

  /** Joins pieces into the text that they spell. */
  join(pieces: readonly string[]): string {
    let text = "";
    let bytes: number[] = [];
    let isFirst = true; // no text has been written, so the space before the first word is left out
    let beganWithSpace = false;
    const writeBytes = () => {
      text += decodeBytes(bytes);
      bytes = [];
    };
    for (const piece of pieces) {
      const id = this.findId(piece);
      const entry = this.entries[id];
      if (entry?.kind === BYTE) {
        bytes.push(Number.parseInt(piece.slice(3, 5), 16));
        continue;
      }
      writeBytes();
      if (beganWithSpace || text !== "") isFirst = false;
      beganWithSpace = false;
      if (entry?.kind === CONTROL) continue;
      if (entry?.kind === UNKNOWN) {
        text += entry.piece === piece ? UNKNOWN_SURFACE : piece;
        continue;
      }
      const { addsSpace, removesSpaces } = this.normaliser;
      const isStripped = isFirst && (addsSpace || removesSpaces) && piece.startsWith(SPACE);
      beganWithSpace = isStripped && !removesSpaces;
      text += (isStripped ? piece.slice(1) : piece).replaceAll(SPACE, " ");
    }
    writeBytes();
    return text;
  }

  /** The id of a piece that a text can be cut into, if there is one. */
  idOf(piece: string): number | undefined {
    return this.ids.get(piece);
  }

  /** The pieces that begin at a place of the text, the shortest first, with their ids. */
  *piecesAt(text: string, start: number): Generator<{ end: number; id: number }> {
    for (let end = start + 1; end <= Math.min(text.length, start + this.longest); end++) {
      const id = this.ids.get(text.slice(start, end));
      if (id !== undefined && this.entries[id]!.kind !== UNUSED) yield { end, id };
    }
  }

  /** The score of an unknown character. */
  get unknownScore(): number {
    return Math.fround(this.leastScore - UNKNOWN_PENALTY);
  }

  private findId(piece: string): number {
    return this.reservedIds.get(piece) ?? this.ids.get(piece) ?? this.unknownId;
  }

  private bytePiece(byte: number): CutPiece {
    const text = `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
    return { text, id: this.findId(text) };
  }
}

const CUTTERS: Record<Algorithm, (model: SentencePiece, text: string) => string[]> = {
  bpe: cutByMerges,
  unigram: cutByScores,
  char: (_, text) => [...text],
  word: (_, text) => text.match(/^[^\u2581]+|\u2581[^\u2581]*/gu) ?? [],
};

/** Byte-pair encoding: of all neighbours that make a piece, those with the best score are merged first, the leftmost of equals. */
function cutByMerges(model: SentencePiece, text: string): string[] {
  const parts = [...text];
  const next = parts.map((_, i) => (i + 1 < parts.length ? i + 1 : -1));
  const before = parts.map((_, i) => i - 1);
  const halves = new Map<string, [string, string]>(); // of pieces that are not used: they are taken apart again
  const pairs: { left: number; right: number; score: number; text: string }[] = [];
  const addPair = (left: number, right: number) => {
    if (left < 0 || right < 0) return;
    const joined = parts[left]! + parts[right]!;
    const id = model.idOf(joined);
    if (id === undefined) return;
    const { score, kind } = model.entries[id]!;
    pairs.push({ left, right, score, text: joined });
    if (kind === UNUSED) halves.set(joined, [parts[left]!, parts[right]!]);
  };
  for (let i = 1; i < parts.length; i++) addPair(i - 1, i);
  while (pairs.length) {
    let best = 0;
    pairs.forEach(({ score, left }, i) => {
      if (score > pairs[best]!.score || (score === pairs[best]!.score && left < pairs[best]!.left)) best = i;
    });
    const [{ left, right, text: joined }] = pairs.splice(best, 1) as [(typeof pairs)[number]];
    // One of the two may have been merged with another since.
    if (!parts[left] || !parts[right] || parts[left]! + parts[right]! !== joined) continue;
    parts[left] = joined;
    parts[right] = "";
    next[left] = next[right]!;
    if (next[left]! >= 0) before[next[left]!] = left;
    addPair(before[left]!, left);
    addPair(left, next[left]!);
  }
  const takeApart = (piece: string): string[] => {
    const id = model.idOf(piece);
    const pair = halves.get(piece);
    return id !== undefined && model.entries[id]!.kind === UNUSED && pair ? pair.flatMap(takeApart) : [piece];
  };
  return parts.filter((part) => part !== "").flatMap(takeApart);
}

/** Unigram: the pieces whose scores have the largest sum, found from left to right (Viterbi); sums are rounded to float32. */
function cutByScores(model: SentencePiece, text: string): string[] {
  const best: ({ score: number; start: number } | undefined)[] = new Array(text.length + 1);
  best[0] = { score: 0, start: 0 };
  const offer = (end: number, start: number, score: number) => {
    if (!best[end] || score > best[end]!.score) best[end] = { score, start };
  };
  for (let start = 0; start < text.length; ) {
    const sum = best[start]!.score;
    const size = (text.codePointAt(start) as number) > 0xffff ? 2 : 1;
    let hasCharacter = false;
    for (const { end, id } of model.piecesAt(text, start)) {
      offer(end, start, Math.fround(model.entries[id]!.score + sum));
      hasCharacter ||= end === start + size;
    }
    if (!hasCharacter) offer(start + size, start, Math.fround(model.unknownScore + sum));
    start += size;
  }
  const pieces: string[] = [];
  for (let end = text.length; end > 0; end = best[end]!.start) pieces.unshift(text.slice(best[end]!.start, end));
  return pieces;
}

/** Decodes UTF-8; each byte that belongs to no character becomes U+FFFD. */
function decodeBytes(bytes: readonly number[]): string {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let start = 0; start < bytes.length; ) {
    const first = bytes[start]!;
    const size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      if (start + size > bytes.length) throw new Error("cut off");
      text += strict.decode(Uint8Array.from(bytes.slice(start, start + size)));
      start += size;
    } catch {
      text += "\ufffd";
      start += 1;
    }
  }
  return text;
}

/** Rewrites characters by the rules of the file, and puts one mark in front of every word. */
class Normaliser {
  private readonly trie: Uint32Array; // a double array (Darts-clone), empty where no character is rewritten
  private readonly rewritten: Uint8Array; // what characters are rewritten to, each ending in a zero

  constructor(
    charsmap: Uint8Array,
    readonly addsSpace: boolean,
    readonly removesSpaces: boolean,
    private readonly escapesSpaces: boolean,
  ) {
    const size = charsmap.length ? new DataView(charsmap.buffer, charsmap.byteOffset).getUint32(0, true) : 0;
    if (size % 4 || size + 4 > charsmap.length + (charsmap.length ? 0 : 4)) throw new Error("The rules of this tokenizer are cut off.");
    this.trie = new Uint32Array(charsmap.slice(4, 4 + size).buffer);
    this.rewritten = charsmap.subarray(4 + size);
  }

  normalise(line: string): string {
    let parts = this.rewrite(new TextEncoder().encode(line));
    if (this.removesSpaces) {
      const first = parts.findIndex((part) => part !== " ");
      parts = first < 0 ? [] : parts.slice(first);
    }
    if (!parts.length) return "";
    const space = this.escapesSpaces ? SPACE : " ";
    let text = this.addsSpace ? space : "";
    let isAfterSpace = this.removesSpaces;
    for (let part of parts) {
      if (isAfterSpace) part = part.replace(/^ +/, "");
      if (part !== "") {
        text += part.replaceAll(" ", space);
        isAfterSpace = part.endsWith(" ");
      }
      if (!this.removesSpaces) isAfterSpace = false;
    }
    while (this.removesSpaces && text.endsWith(space)) text = text.slice(0, -space.length);
    return text;
  }

  /** Cuts bytes of UTF-8 into the longest stretches that a rule rewrites, and characters that stay. */
  private rewrite(bytes: Uint8Array): string[] {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const parts: string[] = [];
    for (let start = 0; start < bytes.length; ) {
      const rule = this.findRule(bytes, start);
      const first = bytes[start]!;
      const size = rule?.size ?? (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);
      const written = rule ? this.rewritten.subarray(rule.place, this.rewritten.indexOf(0, rule.place)) : bytes.subarray(start, start + size);
      parts.push(decoder.decode(written));
      start += size;
    }
    return parts;
  }

  /** Finds the longest stretch from `start` on that is rewritten, and the place of what it becomes. */
  private findRule(bytes: Uint8Array, start: number): { size: number; place: number } | null {
    const { trie } = this;
    if (!trie.length) return null;
    const offset = (unit: number) => (unit >>> 10) << ((unit & 0x200) >>> 6);
    let found: { size: number; place: number } | null = null;
    let node = offset(trie[0]!);
    for (let end = start; end < bytes.length; end++) {
      node ^= bytes[end]!;
      const unit = trie[node] ?? 0;
      if ((unit & 0x800000ff) >>> 0 !== bytes[end]) break; // the label of a leaf has its highest bit set
      node ^= offset(unit);
      if (unit & 0x100) found = { size: end + 1 - start, place: trie[node]! & 0x7fffffff };
    }
    return found;
  }
}

interface ModelFile {
  entries: Entry[];
  algorithm: Algorithm;
  hasBytes: boolean;
  suffix: boolean;
  normaliser: Normaliser;
}

/** Reads a model file: a protocol buffer (sentencepiece_model.proto), of which the fields named here are used. */
function readModelFile(file: Uint8Array): ModelFile {
  const message = readMessage(file);
  const trainer = readMessage((message.get(2)?.at(-1) ?? new Uint8Array()) as Uint8Array);
  const rules = readMessage((message.get(3)?.at(-1) ?? new Uint8Array()) as Uint8Array);
  const flag = (fields: Fields, number: number, otherwise: boolean) => Boolean(fields.get(number)?.at(-1) ?? otherwise);
  const algorithm = ALGORITHMS[(trainer.get(3)?.at(-1) as number | undefined) ?? 1];
  if (!algorithm) throw new Error("This tokenizer cuts text in a way that this page does not know.");
  const entries = (message.get(1) ?? []).map((bytes): Entry => {
    const fields = readMessage(bytes as Uint8Array);
    return {
      piece: new TextDecoder("utf-8", { ignoreBOM: true }).decode(fields.get(1)?.at(-1) as Uint8Array | undefined),
      score: (fields.get(2)?.at(-1) as number | undefined) ?? 0,
      kind: (fields.get(3)?.at(-1) as number | undefined) ?? NORMAL,
    };
  });
  const charsmap = (rules.get(2)?.at(-1) as Uint8Array | undefined) ?? new Uint8Array();
  return {
    entries,
    algorithm,
    hasBytes: flag(trainer, 35, false),
    suffix: flag(trainer, 24, false),
    normaliser: new Normaliser(charsmap, flag(rules, 3, true), flag(rules, 4, true), flag(rules, 5, true)),
  };
}

type Fields = Map<number, (number | Uint8Array)[]>;

/** Reads the fields of a message by their numbers: whole numbers, float32 and stretches of bytes. */
function readMessage(bytes: Uint8Array): Fields {
  const fields: Fields = new Map();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let place = 0;
  const readNumber = () => {
    let number = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = view.getUint8(place++);
      number += (byte & 127) * factor;
      if (byte < 128) return number;
    }
  };
  while (place < bytes.length) {
    const tag = readNumber();
    const type = tag % 8;
    let value: number | Uint8Array;
    if (type === 0) value = readNumber();
    else if (type === 2) {
      const size = readNumber();
      if (place + size > bytes.length) throw new Error("The tokenizer's file is cut off.");
      value = bytes.subarray(place, place + size);
      place += size;
    } else if (type === 5) {
      value = view.getFloat32(place, true);
      place += 4;
    } else if (type === 1) {
      value = view.getFloat64(place, true);
      place += 8;
    } else throw new Error("The tokenizer's file is damaged.");
    const number = Math.floor(tag / 8);
    const values = fields.get(number) ?? [];
    values.push(value);
    fields.set(number, values);
  }
  return fields;
}
