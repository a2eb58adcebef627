// Characters that a model does not know are read as their plain counterparts, as in src/pellucid/data/text/spelling.py.

const listPairs = (characters: string, plain: string): [string, string][] => [...characters].map((character) => [character, plain]);
const PLAIN = new Map([
  ...listPairs("“”„‟«»″〝〞", '"'),
  ...listPairs("‘’‚‛‹›′´ʼ", "'"),
  ...listPairs("‐‑‒–—―−", "-"),
  ...listPairs("\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff", ""),
  ...listPairs("…", "..."),
  // Unicode spells these by characters that it decomposes further.
  ...listPairs("\ufb05", "ſt"),
  ...listPairs("\ufe49\ufe4a\ufe4b\ufe4c", "‾"),
  ...listPairs("\u0f77", "\u0fb2\u0f81"),
  ...listPairs("\u0f79", "\u0fb3\u0f81"),
  ...listPairs("\ufbdd", "\u0677"),
  ...listPairs("\uffe3", "\u00af"),
]);

// Characters whose decomposition changes what they say: superscripts, fractions, circled and squared ones (data/text/spelling.py).
const OTHER_TEXT =
  /[\u00aa\u00b2\u00b3\u00b9\u00ba\u00bc-\u00be\u02b0-\u02b8\u02e0-\u02e4\u0f0c\u10fc\u1d2c-\u1d6a\u1d78\u1d9b-\u1dbf\u2070-\u209c\u2120\u2122\u2150-\u215f\u2189\u2460-\u2473\u24b6-\u24ea\u2c7c\u2c7d\u2d6f\u309f\u30ff\u3192-\u319f\u3244-\u3247\u3250-\u327e\u3280-\u32bf\u32cc-\u3357\u3371-\u33df\u33ff\ua69c\ua69d\ua770\ua7f2-\ua7f4\ua7f8\ua7f9\uab5c-\uab5f\uab69\ufe10-\ufe19\ufe30-\ufe44\ufe47\ufe48\ufe50-\ufe6b\u{10781}-\u{107ba}\u{1e030}-\u{1e06d}\u{1f12b}-\u{1f12e}\u{1f130}-\u{1f14f}\u{1f16a}-\u{1f16c}\u{1f190}\u{1f200}-\u{1f202}\u{1f210}-\u{1f23b}\u{1f250}\u{1f251}]/u;

/** Gives the plain text that a character is another spelling of, or null where it has none. */
export function findCounterpart(character: string): string | null {
  const plain = PLAIN.get(character);
  if (plain !== undefined) return plain;
  if (/\p{Zs}/u.test(character)) return character === " " ? null : " ";
  if (character.normalize("NFD") !== character || OTHER_TEXT.test(character)) return null;
  const isHangul = /[\u320e-\u321e]/u.test(character);
  const spelled = character.normalize(isHangul ? "NFKD" : "NFKC");
  if (spelled === character || spelled.startsWith(" ")) return null;
  // Greek letters of formulas: the alphabet stands there ten times, with other forms of seven letters.
  const place = (character.codePointAt(0)! - 0x1d6a8) % 58;
  if (/[\u{1d6a8}-\u{1d7c9}]/u.test(character) && (place === 17 || place >= 52)) return place === 17 ? "ϴ" : "ϵϑϰϕϱϖ"[place - 52]!;
  // A narrow letter of Hangul is another spelling of the wide one.
  if (/[\uffa0-\uffdc]/u.test(character))
    for (let code = 0x3131; code <= 0x3164; code++) if (String.fromCharCode(code).normalize("NFKC") === spelled) return String.fromCharCode(code);
  return spelled;
}

/** A text in the spelling that a model knows, with the words that were spelled differently. */
export interface PlainText {
  text: string;
  respelled: [plain: string, original: string][];
}

/** Replaces characters that a model does not know by a counterpart that it does know. */
export function spellPlainly(text: string, knows: (character: string) => boolean): PlainText {
  if ([...new Set(text)].every(knows)) return { text, respelled: [] };
  const respelled: [string, string][] = [];
  const spelled = text.replace(/[^ ]+/gu, (word) => {
    const plain = splitClusters(word)
      .map((cluster) => spellCluster(cluster, knows))
      .join("");
    if (plain === word || !plain) return word;
    const core = stripSigns(plain);
    const original = stripSigns(word);
    if (core && core !== original) respelled.push([core, original]);
    return plain;
  });
  return { text: spelled, respelled };
}

const WORD_END = "(?![\\p{L}\\p{N}_])";

/** Gives words that a translation copied from the text the spelling that they had there. */
export function restoreSpelling({ respelled }: PlainText, translation: string): string {
  return respelled.reduce((text, [plain, original]) => {
    const copied = new RegExp(`(?<![\\p{L}\\p{N}_])${plain.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")}${WORD_END}`, "u");
    return text.replace(copied, () => original);
  }, translation);
}

/** Tells whether a character combines with the one before: then it changes places with the sign of the highest class. */
function isCombining(character: string): boolean {
  if (!/\p{M}/u.test(character)) return false;
  return character === "\u0345" || `\u0345${character}`.normalize("NFD") !== `\u0345${character.normalize("NFD")}`;
}

function splitClusters(word: string): string[] {
  const clusters: string[] = [];
  for (const character of word) {
    if (clusters.length && isCombining(character)) clusters.push(clusters.pop()! + character);
    else clusters.push(character);
  }
  return clusters;
}

/** Gives a character, with its marks, in a spelling that is known, or as it is where none is. */
function spellCluster(cluster: string, knows: (character: string) => boolean): string {
  const isKnown = (text: string) => [...text].every(knows);
  if (isKnown(cluster)) return cluster;
  for (const form of ["NFC", "NFD"]) {
    const spelled = cluster.normalize(form);
    if (spelled !== cluster && isKnown(spelled)) return spelled;
  }
  const plain = [...cluster].map((character) => (knows(character) ? character : findCounterpart(character)));
  return plain.includes(null) ? cluster.normalize("NFC") : plain.join("");
}

/** Gives a word from its first letter or digit to its last. */
function stripSigns(word: string): string {
  const characters = [...word];
  const isInside = characters.map((character) => /[\p{L}\p{N}]/u.test(character) || isCombining(character));
  return characters.slice(isInside.indexOf(true), isInside.lastIndexOf(true) + 1).join("");
}
