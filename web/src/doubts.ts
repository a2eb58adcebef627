// What the page says of the word that the model was least sure of, and of how often such a word was a wrong one.
import { formatProbability, formatQuantity, quotePiece } from "./format";
import type { Doubt, DoubtCounts } from "./types";

/** Names the word that the model was least sure of, and what it would have been instead: “ve” (0.13), or “pierde” (0.12). */
export function describeDoubt({ text, prob, instead, instead_prob }: Doubt): string {
  const other = instead ? quotePiece(instead) : "the end";
  return `${quotePiece(text)} (${formatProbability(prob)}), or ${other} (${formatProbability(instead_prob)})`;
}

/** Says how well such words tell the mistakes of a model, in tenths where there are enough; "" where nothing was measured. */
export function describeDoubtCounts(counts: DoubtCounts | null | undefined): string {
  if (!counts?.pairs) return "";
  const { pairs, mistakes, doubted, named, right, right_doubted } = counts;
  const made = `In ${formatQuantity(pairs, "sentence")} not trained on, this model made ${formatQuantity(mistakes, "mistake")}.`;
  if (mistakes < 5) return `${made} A word was marked in ${doubted}, a wrong one in ${named}.`;
  const inTen = (count: number, of: number) => Math.round((10 * count) / of);
  const found = `Of ten mistakes it marks a word in ${inTen(doubted, mistakes)}, a wrong one in ${inTen(named, mistakes)}`;
  return `${made} ${found}${right ? `; of ten right translations, a word in ${inTen(right_doubted, right)}` : ""}.`;
}
