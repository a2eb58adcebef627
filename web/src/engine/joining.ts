// Joins the translations of the segments of a line: text, score, pieces and notes, as src/pellucid/decode/stages/joining.py does.
import { isLower } from "./casing";
import type { CutLine, SearchResult, Translation } from "./line_segments";
import { countSentences } from "./sentences";
import type { SourceReader } from "./source_reader";
import { JOINT, joinLine } from "./text";
import type { TokenizerSide } from "./tokenizer";

/** The translation of a line, how many sentences it lacks, and whether a segment held several. */
export interface JoinedLine {
  translation: Translation;
  missing: number;
  isJoined: boolean;
}

/** Joins the results of the segments of a line; a line without anything to translate stays as it is. */
export function joinResults(line: string, { split, segments, notes }: CutLine, results: SearchResult[], reader: SourceReader, target: TokenizerSide): JoinedLine {
  if (!results.length) return { translation: { text: line, score: 0, stop: "empty", pieces: [], notes: [] }, missing: 0, isJoined: false };
  const sources = segments.map((segment) => segment.text);
  const texts = results.map((result, i) => reader.restore(segments[i]!.read, target.decode(result.tokens)));
  const missing = countMissingSentences(sources, texts, split.gaps);
  const all = [...notes, ...results.flatMap((result) => result.notes), ...(missing ? [describeMissing(missing)] : [])];
  const translation: Translation = {
    text: joinLine(split, texts),
    score: results.reduce((sum, result) => sum + result.score, 0),
    stop: results.every((result) => result.stop === "eos") ? "eos" : "length",
    pieces: results.flatMap((result) => target.pieces(result.tokens)),
    notes: [...new Set(all)],
  };
  return { translation, missing, isJoined: sources.some((source) => countSentences(source) > 1) };
}

// Thai, Lao and Khmer separate sentences by a space, which tells nothing.
const WITHOUT_ENDS = /[\u0e00-\u0eff\u1780-\u17ff]/;

/** How many sentences fewer than its line a translation has, as the ends of sentences tell; `texts` are those of its segments. */
function countMissingSentences(sources: string[], texts: string[], gaps: string[]): number {
  if (texts.some((text) => WITHOUT_ENDS.test(text))) return 0;
  // Sentences between which nothing but a space stands are counted together: where the translation of one has no end mark, it runs into the next.
  const runs: { source: string; translation: string }[] = [];
  sources.forEach((source, i) => {
    const gap = gaps[i]!;
    const last = runs.at(-1);
    if (last && JOINT.test(gap)) {
      last.source += gap + source;
      last.translation += (gap || " ") + texts[i]!;
    } else runs.push({ source, translation: texts[i]! });
  });
  // In small letters sentences end where the next one needs no capital.
  const count = (run: (typeof runs)[number]) => countSentences(isLower(run.source) ? run.translation.toLowerCase() : run.translation);
  return runs.reduce((sum, run) => sum + Math.max(0, countSentences(run.source) - count(run)), 0);
}

/** Says that a translation has fewer sentences than its line. */
export function describeMissing(count: number): string {
  return `the translation has ${count} ${count === 1 ? "sentence" : "sentences"} fewer than the line`;
}
