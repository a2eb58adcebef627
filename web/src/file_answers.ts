// Answers that a file holds, which otherwise Python gives.
import type { Acts, LogitAccount, Manifest } from "./types";

/** Questions about the model, not about the sentence; their answers outlive a trace. */
export const OF_MODEL: ReadonlySet<string> = new Set(["words", "neighbours", "similar", "analogy", "heads"]);

type FileAnswers = { [V in keyof Acts]?: (manifest: Manifest, args: Acts[V]["args"]) => Acts[V]["gives"] | null | undefined };

const ANSWERS: FileAnswers = {
  verdict: (manifest, { reference }) => (reference ? null : manifest.verdict),
  account(manifest, { step, piece, other }) {
    const accounts: (LogitAccount | null)[] = [...(manifest.accounts?.chosen ?? []), ...(manifest.accounts?.against ?? [])];
    return accounts.find((account) => account && account.step === step && account.id === piece && account.other?.id === other);
  },
  words: (manifest, { side }) => manifest.words?.find((map) => map.side === side),
  neighbours(manifest, { side, piece }) {
    const neighbours = manifest.words?.find((map) => map.side === side)?.near?.[piece];
    return neighbours && { near: neighbours };
  },
  similar(manifest, { side, words }) {
    const similarities = manifest.words?.find((map) => map.side === side)?.similar;
    return similarities && words.every((word) => similarities.words.includes(word) || similarities.unknown.includes(word)) ? similarities : null;
  },
  masking: (manifest) => manifest.masking,
  heads: (manifest) => manifest.heads,
};

/** Finds the answer in the manifest of a file, if it is there. */
export function findFileAnswer<V extends keyof Acts>(manifest: Manifest | null, verb: V, args: Acts[V]["args"]): Acts[V]["gives"] | null {
  return (manifest && ANSWERS[verb]?.(manifest, args)) ?? null;
}
