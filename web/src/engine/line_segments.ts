// Lines, their segments, and what a search finds for them: src/pellucid/decode/line_segments.py.
import type { Hypothesis, SearchCandidate } from "./search";
import type { ReadText } from "./source_reader";
import type { SplitLine } from "./text";

export interface Translation {
  text: string;
  /** Log-probability divided by the length penalty, summed over the segments. */
  score: number;
  stop: "eos" | "length" | "empty";
  pieces: string[];
  /** Anything unusual that was done. */
  notes: string[];
}

/** A segment of a line: what the user wrote, what the model reads for it, and its ids, after those of the text before it. */
export interface Segment {
  text: string;
  read: ReadText;
  before: string;
  context: number[];
  ids: number[];
}

/** A line of the user, and the segments of it that are translated. */
export interface CutLine {
  split: SplitLine;
  segments: Segment[];
  notes: string[];
}

export interface SearchResult extends Hypothesis {
  notes: string[];
  steps: SearchCandidate[][]; // of the search that decided
}
