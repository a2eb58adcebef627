// The identity of a trace, made of what it is computed from: a trace that is recorded in a file has that of the engine's own.
import type { Manifest } from "../types";

/** Gives the id of a trace; it only tells traces apart. */
export function identifyTrace({ model, sentence, context, part, run, forced, target, edits }: Manifest): string {
  const { method, beam, prefix } = run.search;
  const text = context ? `${context}\n${sentence}` : sentence;
  const place = part ? [part.line, part.segment, part.context] : [];
  return hashText(JSON.stringify([model.sha256, text, ...place, method, beam, prefix, forced ? target.ids : [], edits]));
}

/** A short hash of a text (FNV-1a, two of 32 bits). */
function hashText(text: string): string {
  return [0x811c9dc5, 0x01000193]
    .map((seed) => {
      let hash = seed;
      for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
      return (hash >>> 0).toString(16).padStart(8, "0");
    })
    .join("")
    .slice(0, 12);
}
