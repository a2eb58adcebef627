// Searches again where a translation repeats itself or is empty, as src/pellucid/decode/stages/repetition.py does.
import type { SearchResult } from "./line_segments";
import { noRepeatRule, notEmptyRule, type Rule } from "./search";
import { EOS } from "./tokenizer";

const NO_REPEAT = 4; // tokens in a row that may not stand twice where a translation repeated itself
const EMPTIED = "the likeliest translation was empty; this is the likeliest one that is not";

/** Searches, and once more under a rule that forbids repeats where the translation repeats itself and its source does not. */
export function searchAgain(source: readonly number[], prefixLength: number, search: (rules: Rule[]) => SearchResult): SearchResult {
  const first = fillEmpty([], search);
  if (!isRepeating(first) || hasRepetition(source)) return first;
  const second = fillEmpty([noRepeatRule(NO_REPEAT, prefixLength)], search);
  if (isRepeating(second)) return { ...first, notes: ["the translation repeats itself, and the line does not"] };
  return { ...second, notes: [`repeated itself; searched again with no ${NO_REPEAT} pieces twice`] };
}

/** Searches once more where the likeliest translation is no text at all: nothing that a user wrote shall vanish so. */
function fillEmpty(rules: Rule[], search: (rules: Rule[]) => SearchResult): SearchResult {
  const found = search(rules);
  if (found.tokens[0] !== EOS) return found;
  return { ...search([...rules, notEmptyRule]), notes: [EMPTIED] };
}

function isRepeating(result: SearchResult): boolean {
  return hasRepetition(result.tokens.filter((token) => token !== EOS));
}

const [TIMES, FEWEST, LONGEST_BLOCK] = [4, 8, 16];

/** Tells whether a block of 1 to 16 tokens stands 4 times in a row or more and fills 8 tokens at least. */
export function hasRepetition(tokens: readonly number[]): boolean {
  for (let size = 1; size <= LONGEST_BLOCK; size++) {
    const needed = Math.max(TIMES * size, FEWEST) - size;
    let run = 0; // tokens in a row that equal the one a block before them
    for (let i = size; i < tokens.length; i++) {
      run = tokens[i] === tokens[i - size] ? run + 1 : 0;
      if (run === needed) return true;
    }
  }
  return false;
}
