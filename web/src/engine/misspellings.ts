// The word that a misspelled one is meant to be: src/pellucid/data/text/misspellings.py.

/** A word of letters alone, not a part of an address, of a name in a program, or of a longer word. */
export const LONE_WORD = /(?<![\p{L}\p{N}_'’.:/@\\#&=~+-])[\p{L}\p{Nl}\p{No}]+(?![\p{L}\p{N}_'’/@\\#&=~+-]|[.:][\p{L}\p{N}_])/gu;

const [SHORTEST, SHORT, COMMONEST_SHORT] = [4, 5, 300];
const [LONG, COMMONEST] = [8, 1000];

/** Finds the known word that an unknown one is meant to be; null where there is none, or several. The commonest words come first. */
export function findIntended(word: string, known: ReadonlyMap<string, number>, words: readonly string[]): string | null {
  const letters = [...word];
  if (letters.length < SHORTEST) return null;
  const most = letters.length < SHORT ? COMMONEST_SHORT : Number.POSITIVE_INFINITY;
  let found = [...listSlips(letters)].filter((slip) => (known.get(slip) ?? Number.POSITIVE_INFINITY) < most);
  if (letters.length >= LONG && !found.length) found = words.slice(0, COMMONEST).filter((other) => differsInside(letters, [...other]));
  const [only, another] = found;
  return only !== undefined && another === undefined ? only : null;
}

/** Lists the words with two letters of this one exchanged, one doubled, or one of a pair left out. */
function listSlips(letters: readonly string[]): Set<string> {
  const slips = new Set<string>();
  letters.forEach((letter, i) => {
    const [before, behind] = [letters.slice(0, i).join(""), letters.slice(i + 1)];
    slips.add(before + letter + letter + behind.join(""));
    if (behind[0] === letter) slips.add(before + behind.join(""));
    if (i > 0 && behind.length) slips.add(before + behind[0] + letter + behind.slice(1).join(""));
  });
  slips.delete(letters.join(""));
  return slips;
}

/** Tells whether two words differ by one letter, which is neither the first nor the last of either. */
function differsInside(word: readonly string[], other: readonly string[]): boolean {
  const longest = Math.max(word.length, other.length);
  const shortest = Math.min(word.length, other.length);
  if (longest - shortest > 1) return false;
  let before = 0;
  while (before < shortest && word[before] === other[before]) before++;
  let behind = 0;
  while (behind < shortest - before && word.at(-1 - behind) === other.at(-1 - behind)) behind++;
  return before > 0 && behind > 0 && before + behind >= longest - 1;
}
