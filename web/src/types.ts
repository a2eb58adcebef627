// The manifest of a trace (manifest.json), the source of its numbers, and the acts of the server. The page knows kinds of
// dimensions and of operations, never layers: everything it draws is listed in the manifest by the model that ran.
import type { ReadonlySignal } from "@preact/signals";

/** One dimension letter of the glossary: S, T, D, H, E, F, 2F, V or 1. */
export type Dim = string;

export interface Axis {
  means: string;
  size: number;
  /** One for each position: the pieces for S and T; absent where positions have numbers only. */
  labels?: string[];
}

/** Operation that computes a tensor from others. Index letters: p a position, h a head; weights are stored (out, in) as in torch. */
export type Op =
  /** out[p,d] = scale * table[ids[p], d] */
  | { kind: "lookup"; table: string; scale: number; side: "source" | "target" }
  /** out[p,2i] = sin(p / 10000^(2i/D)), out[p,2i+1] = cos(the same) */
  | { kind: "sinusoid" }
  /** out[p,d] = table[p,d] */
  | { kind: "row"; table: string }
  /** out = the sum of its inputs, number by number; an input without the leading dimension is the same for all */
  | { kind: "add"; inputs: string[] }
  /**
   * out[p] = (x[p] - mean) / sqrt(variance + eps) * weight + bias, over the last dimension. `rms`: out[p] = x[p] / sqrt(mean
   * of x[p]^2 + eps) * weight, and there is no bias.
   */
  | { kind: "norm"; inputs: [string]; weight: string; bias: string | null; eps: number; rms?: boolean }
  /**
   * out[p,j] = sum_i x[p,i] weight[first + j, i] + bias[first + j]. `split`: out is (H p E) and j = h * E + e. `merged`:
   * x is (H p E) and i = h * E + e. `turned`: afterwards each pair (2i, 2i+1) of a head is turned by the angle
   * p / 10000^(2i/E) (rotary positions).
   */
  | {
      kind: "linear";
      inputs: [string];
      weight: string;
      bias: string | null;
      first: number;
      split?: boolean;
      merged?: boolean;
      turned?: boolean;
    }
  /** out[h,q,k] = sum_e a[h,q,e] b[h,k,e] */
  | { kind: "dot"; inputs: [string, string] }
  /** out = x / divisor, plus the second input where there is one */
  | { kind: "scale"; inputs: [string] | [string, string]; divisor: number }
  /** out[k] = 1 where a piece stands: without padding, everywhere */
  | { kind: "present" }
  /** out[q,k] = 1 where k <= q */
  | { kind: "causal" }
  /** out[h,q,:] = softmax of scores[h,q,:] over the keys allowed, 0 elsewhere; inputs: scores, allowed */
  | { kind: "softmax"; inputs: [string, string] }
  /** out[h,q,e] = sum_k pattern[h,q,k] v[h,k,e] */
  | { kind: "mix"; inputs: [string, string] }
  | { kind: "activation"; inputs: [string]; function: "relu" | "gelu" | "silu" | "swiglu" }
  /** out is its input */
  | { kind: "same"; inputs: [string] }
  /** out is what a part of the model gave that the page has no formula of, such as a position encoding of one's own */
  | { kind: "given" };

export interface TensorRow {
  /** The name everywhere: "decoder.3.cross.pattern". */
  name: string;
  dims: Dim[]; // without the batch: ["H", "T", "S"]
  shape: number[];
  means: string; // one sentence fragment, from the glossary
  of: string; // the formula in words, from the glossary
  op: Op;
  captured: boolean; // false: draw hatching and "not captured"
  dtype: "float32" | "float16" | "bool";
  /** Over all captured numbers (allowed ones, for scores); absent where not captured. */
  least?: number;
  largest?: number;
  /** Set where an edit replaced this tensor: what the op says is then not what stands here. */
  edited?: boolean;
  code?: Code;
  /** In a file: of its bytes as they are stored there, little-endian. */
  sha256?: string;
}

export interface ParameterRow {
  name: string; // "encoder.0.self.qkv.weight"
  shape: number[]; // one or two numbers
  captured: boolean; // false in a file without weights
  sha256?: string; // like that of a tensor
}

/** A line of the installed source. */
export interface Code {
  file: string; // "model/attention.py"
  line: number;
  text: string;
  /** The statements just above it, at most two. */
  before?: string[];
}

export interface Side {
  text: string;
  normalised: string;
  /** Pieces as they are written, end token last; spaces shown as U+2581. */
  pieces: string[];
  ids: number[];
  /** For each piece the number of its word (white-space words of `text`), null for special tokens. */
  words: (number | null)[];
  /** Which pieces are UNK or bytes of a character that no piece covers. */
  unknown: boolean[];
  /** How many pieces, the first, are those of the sentence before and of the start token after it. */
  context?: number;
}

export interface Candidate {
  id: number;
  piece: string;
  logit: number;
  log_prob: number;
  prob: number;
}

/** One step of decoding: what the model saw up to here, and what it could have written next. */
export interface Step {
  step: number; // 0 first: row of every T dimension
  input: string; // the piece read at this position: the start token first
  chosen: Candidate;
  rank: number; // of the chosen piece among all, 1 first
  top: Candidate[]; // most likely first
  others: number; // probability of all pieces not in `top`
  others_count: number;
  entropy: number; // in nats
}

export interface TreeNode {
  id: number;
  parent: number | null; // null: the root, an empty hypothesis
  step: number; // 0 for children of the root
  piece: string;
  piece_id: number;
  log_prob: number; // of this piece
  total: number; // of the hypothesis so far
  score: number; // total / penalty(length)
  rank: number; // among the candidates of its step, 1 first
  fate: "kept" | "pruned" | "finished";
  best: boolean; // on the way to the translation
}

export interface Tree {
  width: number;
  length_penalty: number;
  formula: string; // how score follows from total and length
  candidates: number; // looked at in each step
  nodes: TreeNode[];
}

export interface Check {
  name: string; // short: "rows of every pattern sum to 1"
  passed: boolean;
  value: number | null; // what was measured; null where nothing could be: then `means` says why, and `passed` is true
  limit: number | null;
  means: string; // a sentence
}

export type EditSpec =
  | { kind: "silence"; attention: string; head: number } // "decoder.3.cross", head 0 first
  | { kind: "pattern"; attention: string; head: number; row: number; values: number[] } // one query's weights
  | { kind: "hide"; word: number } // a source word (its pieces are masked for every reader)
  | { kind: "prefix"; text: string } // how the translation begins
  | { kind: "without"; part: "scaling" | "positions" | "mask" | "residual" }; // left out everywhere

/** A translation that is drawn by chance: logits are divided by the temperature; then the likeliest k, of them those that reach p. */
export interface Drawing {
  temperature: number;
  top_k: number; // 0: of all pieces
  top_p: number;
  seed: number;
}

/** Where a logit came from: parts that add up to it exactly (norms frozen as they were in this run). */
export interface LogitAccount {
  step: number;
  piece: string;
  id: number;
  other: { piece: string; id: number } | null; // then everything below is a difference: piece minus other
  logit: number; // as captured
  sum: number; // of all parts
  parts: AccountPart[];
}

export interface AccountPart {
  name: string; // "decoder.3.cross.head.2", "decoder.2.ffn", "embedding", "positions", "norms", "biases"
  group: "embedding" | "positions" | "self" | "cross" | "ffn" | "norm" | "bias";
  value: number;
  /** For a head: how the value splits over the positions it read (S for cross, T for self). */
  by_key?: number[];
}

/** The word that the model was least sure of, by its least likely piece, and what it would have been. */
export interface Doubt {
  word: number; // of the translation
  text: string;
  step: number; // that wrote its least likely piece
  prob: number; // of that piece
  instead: string; // the word with the likeliest other piece; empty: the translation would have ended
  instead_prob: number; // of that piece
}

/** How well doubts tell the mistakes of a model, counted on pairs that it was not trained on. */
export interface DoubtCounts {
  pairs: number;
  mistakes: number; // translations other than the reference
  doubted: number; // of these: a word was doubted
  named: number; // and it was a wrong one
  right: number; // translations that are the reference
  right_doubted: number;
}

/** Why a translation may be bad, each with its numbers. */
export interface Finding {
  kind: "doubt" | "search" | "model" | "tokens" | "copy" | "numbers" | "names" | "length" | "omission" | "repetition" | "hallucination" | "fine";
  says: string; // a sentence with the numbers in it
  step?: number; // where to look
  word?: number; // source word
  numbers: Record<string, number>;
}

export interface Verdict {
  findings: Finding[];
  reference: string | null;
  /** Change of the log-probability of each written piece (columns) when a source word (rows) is hidden. */
  erasure_source?: number[][];
  /** Change of the log-probability of each written piece when an earlier one (rows) is hidden; null where it stands later. */
  erasure_prefix?: (number | null)[][];
}

export interface Manifest {
  format: "pellucid-trace";
  version: 1;
  id: string;
  /** `context`: how many sentences before another the model was trained with. */
  model: { name: string; config: Record<string, number | string | boolean>; parameters: number; sha256: string; tokenizer_sha256: string; context?: number };
  run: {
    dtype: string;
    device: string;
    mode: "eval";
    dropout: "off";
    pellucid: string; // versions
    torch: string;
    search: Record<string, number | string | boolean>;
    capture: string; // "float32" or "float16": what is stored here
    seconds: number;
    bytes: number;
  };
  sentence: string; // as it was given
  context?: string; // the sentence before, if there is one
  /** Where the sentence is one of several parts of a line, each translated by itself: which one (1 first), and the sentence before the line. */
  part?: { line: string; segments: string[]; segment: number; context: string } | null;
  source: Side; // what was read of it
  target: Side; // what was written
  inputs: { pieces: string[]; ids: number[] }; // what the decoder read: start token, then target without its last
  forced: boolean; // the target was given, not found
  stop: "eos" | "length";
  log_prob: number;
  score: number;
  notes: string[];
  edits: EditSpec[];
  steps: Step[];
  tree: Tree | null; // null: forced or edited
  /** Null where the model was sure of every word, and in a changed run; absent in files of older versions. */
  doubt?: Doubt | null;
  /** Where terms or a memory were given: for each word of the translation, what it is not there without. */
  provenance?: { word: string; origin: "model" | "memory" | "term" | "prefix"; place: string; source: string; target: string }[];
  axes: Record<Dim, Axis>;
  tensors: TensorRow[]; // in the order of computation
  parameters: ParameterRow[];
  /** Null where they are not made yet; the act `checks` makes them. */
  checks: Check[] | null;
  /** In a file, where nothing can be asked: the account of each step's chosen piece, and against its runner-up. */
  accounts?: { chosen: LogitAccount[]; against: (LogitAccount | null)[] };
  verdict?: Verdict;
  words?: WordMap[];
  masking?: Masking;
  heads?: HeadStudyAnswer;
  languages?: { source?: string; target?: string };
  /** In a server's page: the browser computed this trace, and not the server. */
  computed_here?: true;
  /** How likely it is that a person keeps a word, from each of some rising log-probabilities of it on; one more confidence than scores. */
  word_curve?: { scores: number[]; confidences: number[] };
}

/** A piece near another, with the cosine of their vectors. */
export interface Neighbour {
  piece: string;
  id: number;
  cosine: number;
}

/** The mean cosine of two different pieces of a table, and how much it varies. */
export interface Chance {
  mean: number;
  deviation: number;
}

/** The pieces of one table of vectors in two dimensions: the two directions in which they vary most (principal components). */
export interface WordMap {
  side: string;
  /** The tables there are, and what each does. */
  sides: Record<string, string>;
  ids: number[] | null; // null: all, in their order
  pieces: string[];
  places: number[]; // x and y of each
  shares: number[]; // of the variance that each direction holds
  chance: Chance;
  count: number; // of all pieces
  width: number; // of their vectors
  /** In a file: the neighbours of the sentence's own pieces by their ids, and the cosines of its words. */
  near?: Record<string, Neighbour[]>;
  similar?: Similarities | null;
}

/** The cosine of each word with each. */
export interface Similarities {
  side: string;
  words: string[];
  spelled: string[];
  cosines: number[][];
  chance: Chance;
  unknown: string[]; // words without a piece
}

export interface Analogy {
  question: string;
  spelled: string[];
  answers: Neighbour[]; // words of the question left out
  with_inputs: Neighbour[]; // and included
  expected: string | null;
  rank: number | null;
  rank_with_inputs: number | null;
  candidates: number;
  by_chance: number | null; // how often random vectors would place the expected word as high
  verdict: string;
}

/** Logits of one target computed three ways: step by step with cached keys and values, at once with the mask, and without it. */
export interface Masking {
  size: number; // the largest logit
  kept: number[]; // for each row, the largest difference to the masked run
  unmasked: number[];
  parted: number; // rows where another piece is likeliest without the mask
  products: { section: string; head: number; width: number; rows: number[][] };
}

/** The weight on the diagonal of each head of each cross-attention. */
export interface Diagonals {
  source: string;
  target: string;
  pieces: [number, number];
  attentions: { section: string; written: number[]; read: number[] }[];
}

export interface Badge {
  mark: string; // "R", "-1", "A", "S"
  says: string;
  share: number;
  beside: number;
}

/** Every head of the model, studied on sentence pairs. */
export interface HeadStudy {
  pairs: number;
  loss: number; // nats a piece
  rules: Record<string, string>;
  heads: { attention: string; head: number; badges: Badge[]; silent: number; error: number | null; gradient: number }[];
}

/** Heads that were studied, or why there is nothing. */
export interface HeadStudyAnswer {
  study: HeadStudy | null;
  says: string | null;
  pending?: boolean; // it is under way: ask again
}

/** A training pair with its influence on a word: by states like the one it was written from, and by gradients. */
export interface InfluentialPair {
  file: string;
  line: number;
  source: string;
  target: string;
  state: number; // the cosine of the nearest state, negative where it wrote another piece
  gradient: number; // has no unit
  word: number; // which word of the target was written from that state; -1 for the end
  source_words: number[]; // the words of the source that it is aligned with
}

/** The training pairs that made a word of the translation likelier and those against it, the strongest first. */
export interface Influence {
  word: string;
  piece: string; // the least likely piece of the word
  probability: number;
  because: InfluentialPair[];
  against: InfluentialPair[];
  agreement: { rank_correlation: number; both_on_top: number; of: number };
  candidates: number;
}

/** The pairs behind a word, or why they are not known. */
export interface InfluenceAnswer {
  found: Influence | null;
  says: string | null;
}

/** How the model learns a pair: the loss of each piece in nats, one update of plain gradient descent, and its checkpoints. */
export interface TrainingAnswer {
  target: string;
  reads: string[]; // at each position, and the piece that it must write
  writes: string[];
  losses: number[];
  losses_after: number[]; // the update
  update: { parameter: string; row: number; piece: string; column: number; before: number; gradient: number; rate: number; after: number };
  batch: { sources: string[][]; targets: string[][]; weights: number[][]; losses: number[] } | null; // a row for each of two pairs; the losses of the first
  checkpoints: { step: number; translation: string; loss: number }[]; // the first, the middle and the last
}

/** Where a server puts corrections of its translations. */
export interface CorrectionSettings {
  stores: boolean;
  source: string; // codes of the languages
  target: string;
}

/** Acts: what can be asked of a trace that lives in Python. */
export interface Acts {
  account: { args: { step: number; piece: number; other?: number }; gives: LogitAccount };
  checks: { args: Record<string, never>; gives: { checks: Check[] } };
  verdict: { args: { reference?: string }; gives: Verdict };
  /** A new trace, which the source shows from then on. */
  trace: { args: { sentence: string; context?: string; segment?: number; target?: string; target_ids?: number[]; prefix_ids?: number[]; beam?: number; edits?: EditSpec[]; drawing?: Drawing }; gives: Manifest };
  edit: { args: { edits: EditSpec[]; keep_target: boolean }; gives: Manifest };
  words: { args: { side: string }; gives: WordMap };
  neighbours: { args: { side: string; piece: number }; gives: { near: Neighbour[] } };
  similar: { args: { side: string; words: string[] }; gives: Similarities };
  analogy: { args: { side: string; question: string; expected?: string }; gives: Analogy };
  masking: { args: Record<string, never>; gives: Masking };
  identity: { args: { sentence: string; target?: string }; gives: Diagonals };
  heads: { args: Record<string, never>; gives: HeadStudyAnswer };
  influence: { args: { word: string }; gives: InfluenceAnswer };
  training: { args: { target?: string; beside: string }; gives: TrainingAnswer };
}

/**
 * Everything that a trace follows from. `target_ids` are read exactly, finished or not; the search begins with `prefix_ids`;
 * `model` is the beginning of the SHA-256 of the weights: a server of another model refuses.
 */
export type Question = Acts["trace"]["args"] & { model?: string };

/** What a server offers before anything was typed: sentences to try, and what is known of the training text. */
export interface Examples {
  sentences: string[];
  /** What is special about a sentence, or "". */
  notes: Record<string, string>;
  /** Their translations by people, as far as they are known. */
  references: Record<string, string>;
  /** How well doubts tell the model's mistakes; null until it is known. */
  doubts: DoubtCounts | null;
  /** Whether a server still looks for what its model gets wrong. */
  pending: boolean;
  languages: [source: string, target: string] | null;
  pairs: number | null;
}

export interface TraceSource {
  kind: "http" | "widget" | "file" | "engine";
  /** Fetches the manifest of the trace that is shown, or from now on of this id, if it is the one wanted. */
  fetchManifest(id?: string | null, wanted?: (manifest: Manifest) => boolean): Promise<Manifest>;
  /** Fetches all numbers of a captured tensor, the last dimension running fastest. */
  fetchTensor(name: string): Promise<Float32Array>;
  /** Gives the numbers of a tensor of the trace of this id, where they are at hand already. */
  peekTensor?(id: string, name: string): Float32Array | undefined;
  /** Fetches rows first (included) to end (excluded) of a parameter; of a vector, its numbers. */
  fetchParameter(name: string, first: number, end: number): Promise<Float32Array>;
  /** In a server's page: why the browser computes no changes to the trace that is shown; empty where it does, null until that is known. */
  hindrance?: ReadonlySignal<string | null>;
  /** Gets ready to compute changes in the browser; called where a change can be made. */
  prepare?(): void;
  /** Performs an act; absent in a file. */
  act?<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): Promise<Acts[V]["gives"]>;
  /** Fetches sentences to try; absent where nothing can be typed. */
  fetchExamples?(): Promise<Examples>;
  /** Fetches the words of a text that are rare in the training text, with their counts; null where these are unknown. */
  fetchRareWords?(text: string): Promise<Record<string, number> | null>;
  /** Asks whether corrections are stored; absent where there is no server. */
  fetchCorrectionSettings?(): Promise<CorrectionSettings>;
  /** Stores a better translation of a sentence. */
  storeCorrection?(sentence: string, correction: string, settings: CorrectionSettings): Promise<void>;
  /** Gives the address of a download of the whole trace, if there is one. */
  downloadUrl?(what: "html-maps" | "html-float16" | "html-float32" | "html-weights" | "npz"): string;
}
