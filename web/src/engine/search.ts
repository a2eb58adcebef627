// Beam search over a step function, one sentence at a time, with the rules of src/pellucid/decode/; a beam of 1 is greedy search.
import { BOS, EOS } from "./tokenizer";

/** What a search knows of a model: the logits of the next token of each hypothesis, and which hypotheses live on. */
export interface SearchState {
  /** Takes the newest token of each hypothesis; gives a row of logits for each. */
  next(tokens: number[]): Float32Array[];
  /** Keeps these hypotheses, in this order; one may repeat. */
  select(rows: number[]): void;
}

/** Sets to minus infinity the log-probabilities of tokens that may not follow those written. */
export type Rule = (logProbs: Float32Array, written: readonly number[]) => void;

/** One candidate of a step, best first, and its fate; `parent` counts among the hypotheses that the step before kept. */
export interface SearchCandidate {
  parent: number;
  token: number;
  logProb: number;
  total: number;
  kept: boolean;
  finished: boolean;
}

export interface Hypothesis {
  tokens: number[]; // the end token included
  logProbs: number[];
  total: number;
  score: number;
  stop: "eos" | "length";
}

export interface SearchSettings {
  width: number;
  limit: number; // most tokens, the end token included
  lengthPenalty: number;
  rules: readonly Rule[];
  observe?: (candidates: SearchCandidate[]) => void;
}

/** ((5 + n) / 6) ^ alpha, which divides a log-probability (Wu et al. 2016, equation 14; paper, 6.1). */
export function lengthDivisor(length: number, alpha: number): number {
  return ((5 + length) / 6) ** alpha;
}

/** log of the sum of e^x over a row; a logit minus this is the log-probability. */
export function logSumExp(logits: Float32Array): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < logits.length; i++) largest = Math.max(largest, logits[i]!);
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i]! - largest);
  return largest + Math.log(sum);
}

/** The `count` largest numbers of a row, the largest first; of equal ones the first. */
export function findLargest(values: Float32Array, count: number): number[] {
  const best: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (best.length === count && !(values[i]! > values[best[count - 1]!]!)) continue;
    let place = best.length;
    while (place > 0 && values[i]! > values[best[place - 1]!]!) place--;
    best.splice(place, 0, i);
    if (best.length > count) best.pop();
  }
  return best;
}

interface Live {
  tokens: number[];
  logProbs: number[];
  total: number;
}

/**
 * The best hypothesis, or null where the rules forbid all. A step extends each live hypothesis by every token and looks at the
 * 2W likeliest results: an end among the first W finishes one, the first W that do not end live on. The search is over when W
 * have finished, when no live one can overtake the best that has, or at the limit.
 */
export function beamSearch(state: SearchState, settings: SearchSettings): Hypothesis | null {
  const { width, limit, lengthPenalty, rules, observe } = settings;
  let live: Live[] = [{ tokens: [], logProbs: [], total: 0 }];
  const finished: Hypothesis[] = [];
  const finish = ({ tokens, logProbs }: Live, stop: "eos" | "length") => {
    const total = logProbs.reduce((sum, value) => sum + value, 0);
    finished.push({ tokens, logProbs, total, score: total / lengthDivisor(tokens.length, lengthPenalty), stop });
  };
  for (let length = 1; live.length; length++) {
    const candidates = findBestContinuations(state, live, rules, 2 * width + 1);
    const survivors = candidates.filter((candidate) => candidate.token !== EOS).slice(0, width);
    candidates.forEach((candidate, rank) => {
      candidate.finished = candidate.token === EOS && rank < width;
      // A greedy search has one place: where its likeliest token is the end, nothing lives on.
      candidate.kept = survivors.includes(candidate) && !(width === 1 && candidates[0]?.finished);
    });
    observe?.(candidates);
    const extend = ({ parent, token, logProb, total }: SearchCandidate): Live => {
      const { tokens, logProbs } = live[parent]!;
      return { tokens: [...tokens, token], logProbs: [...logProbs, logProb], total };
    };
    for (const candidate of candidates) if (candidate.finished) finish(extend(candidate), "eos");
    const best = Math.max(Number.NEGATIVE_INFINITY, ...finished.map((hypothesis) => hypothesis.score));
    const next = survivors.map(extend);
    // A live hypothesis can score no better: its log-probability only falls, and its divisor is at most the limit's.
    const bestPossible = (next[0]?.total ?? Number.NEGATIVE_INFINITY) / lengthDivisor(limit, lengthPenalty);
    if (length >= limit) for (const hypothesis of next) finish(hypothesis, "length");
    if (length >= limit || finished.length >= width || best >= bestPossible) break;
    state.select(survivors.map((candidate) => candidate.parent));
    live = next;
  }
  // One that ended goes before one that was cut off; sort keeps the order of equals.
  finished.sort((a, b) => Number(a.stop !== "eos") - Number(b.stop !== "eos") || b.score - a.score);
  return finished[0] ?? null;
}

/** The likeliest continuations of all live hypotheses, best first; of equals that of the earlier one, then its likelier token. */
function findBestContinuations(state: SearchState, live: readonly Live[], rules: readonly Rule[], count: number): SearchCandidate[] {
  const candidates: SearchCandidate[] = [];
  state.next(live.map((hypothesis) => hypothesis.tokens.at(-1) ?? BOS)).forEach((logits, parent) => {
    const { tokens, total } = live[parent]!;
    const shift = logSumExp(logits);
    const logProbs = new Float32Array(logits.length);
    for (let id = 0; id < logits.length; id++) logProbs[id] = logits[id]! - shift;
    for (const rule of rules) rule(logProbs, tokens);
    for (const token of findLargest(logProbs, count)) {
      const logProb = logProbs[token]!;
      if (logProb > Number.NEGATIVE_INFINITY)
        candidates.push({ parent, token, logProb, total: Math.fround(total + logProb), kept: false, finished: false });
    }
  });
  return candidates.sort((a, b) => b.total - a.total).slice(0, count);
}

/** Makes the rule that these tokens are never written. */
export function forbiddenRule(ids: readonly number[]): Rule {
  return (logProbs) => {
    for (const id of ids) logProbs[id] = Number.NEGATIVE_INFINITY;
  };
}

/** Makes the rule that a translation begins with these tokens, and then, if asked for, with a token that starts a word. */
export function prefixRule(prefix: readonly number[], startsWord: ((id: number) => boolean) | null): Rule {
  return (logProbs, written) => {
    const required = prefix[written.length];
    if (required !== undefined) {
      const logProb = logProbs[required]!;
      logProbs.fill(Number.NEGATIVE_INFINITY)[required] = logProb;
    } else if (startsWord && written.length === prefix.length) {
      for (let id = 0; id < logProbs.length; id++) if (!startsWord(id)) logProbs[id] = Number.NEGATIVE_INFINITY;
    }
  };
}

/** Makes the rule that behind a prefix of this length no `size` tokens in a row stand twice. */
export function noRepeatRule(size: number, prefixLength: number): Rule {
  return (logProbs, written) => {
    if (written.length < Math.max(size, prefixLength)) return;
    const last = written.slice(written.length - size + 1).join(" ");
    for (let start = 0; start + size <= written.length; start++)
      if (written.slice(start, start + size - 1).join(" ") === last) logProbs[written[start + size - 1]!] = Number.NEGATIVE_INFINITY;
  };
}

/** The rule that a text does not end before it has a token. */
export const notEmptyRule: Rule = (logProbs, written) => {
  if (!written.length) logProbs[EOS] = Number.NEGATIVE_INFINITY;
};
