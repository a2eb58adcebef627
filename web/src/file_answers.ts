// What a file holds of the answers that otherwise Python gives.
import type { Account, Acts, Manifest } from "./types";

/** What is asked of the model, not of the sentence: such answers outlive a trace. */
export const OF_MODEL: ReadonlySet<string> = new Set(["words", "neighbours", "similar", "analogy", "heads"]);

type Ways = { [V in keyof Acts]?: (manifest: Manifest, args: Acts[V]["args"]) => Acts[V]["gives"] | null | undefined };

const WAYS: Ways = {
  verdict: (manifest, { reference }) => (reference ? null : manifest.verdict),
  account(manifest, { step, piece, other }) {
    const all: (Account | null)[] = [...(manifest.accounts?.chosen ?? []), ...(manifest.accounts?.against ?? [])];
    return all.find((a) => a && a.step === step && a.id === piece && a.other?.id === other);
  },
  words: (manifest, { side }) => manifest.words?.find((each) => each.side === side),
  neighbours(manifest, { side, piece }) {
    const near = manifest.words?.find((each) => each.side === side)?.near?.[piece];
    return near && { near };
  },
  similar(manifest, { side, words }) {
    const kept = manifest.words?.find((each) => each.side === side)?.similar;
    return kept && words.every((word) => kept.words.includes(word) || kept.unknown.includes(word)) ? kept : null;
  },
  masking: (manifest) => manifest.masking,
  heads: (manifest) => manifest.heads,
};

/** The answer, if the manifest of a file has it. */
export function fromFile<V extends keyof Acts>(manifest: Manifest | null, verb: V, args: Acts[V]["args"]): Acts[V]["gives"] | null {
  return (manifest && WAYS[verb]?.(manifest, args)) ?? null;
}
