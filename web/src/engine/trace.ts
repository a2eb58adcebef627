// A traced translation: its manifest, made from the one that the file was written with, and every tensor by its name.
import type { Acts, Candidate, Check, EditSpec, LogitAccount, Manifest, Side, Step, TensorRow, Tree, TreeNode } from "../types";
import { accountForLogit } from "./account";
import { findDoubt } from "./doubt";
import { countsPositions, isReplaced, makeEditor, refuseRowsBeyond } from "./edits";
import { describeMissing } from "./joining";
import { identifyTrace } from "./identity";
import type { Segment } from "./line_segments";
import { decode, encode, logits, type Watch } from "./model";
import { findLargest, lengthDivisor, logSumExp, type SearchCandidate } from "./search";
import { BOS, EOS, PAD, type TokenizerSide, UNK } from "./tokenizer";
import type { Tensor } from "./tensor";
import { countSentences } from "./sentences";
import { findWords, stripText } from "./text";
import { checkBeam, LENGTH_PENALTY, MAX_EXTRA, type Prefix, type Translator } from "./translator";

const [LONGEST_WHOLE, LONGEST] = [64, 256]; // pieces on a side up to which all tensors are kept, and up to which one is traced
const TOP_CANDIDATES = 20;
const CLOSE_CALL = 1e-4; // a difference in log-probability that rounding may make

type Question = Acts["trace"]["args"] & { model?: string };

export interface Trace {
  manifest: Manifest;
  tensors: ReadonlyMap<string, Tensor>;
}

interface Target {
  ids: number[];
  logProbs: number[];
  stop: "eos" | "length";
  notes: string[];
  tree: Tree | null;
}

/** Traces one sentence as the question asks. Throws an Error with one sentence where that cannot be done. */
export function traceSentence(translator: Translator, template: Manifest, question: Question): Trace {
  const began = performance.now();
  const { model } = translator;
  const { beam = 4, edits = [] } = question;
  if (question.model && !template.model.sha256.startsWith(question.model)) throw new Error("This link is of another model than the one in this file.");
  if (question.drawing) throw new Error("This page does not draw translations by chance; to do that, open the model with `pellucid serve`.");
  checkBeam(beam);
  const isForced = question.target !== undefined || Boolean(question.target_ids?.length);
  const { sentence, context, part, segment, notes: readingNotes } = chooseSegment(translator, question, isForced);
  const own = segment.ids;
  const ids = [...segment.context, ...own];
  const join = (text: string) => (segment.before ? `${segment.before} ${translator.source.names[BOS]} ${text}` : text);
  const source = makeSide(translator.source, ids, join(segment.read.text), join(translator.source.decode(own)), segment.context.length);
  const editor = edits.length ? makeEditor(edits, model.config, source.words) : undefined;
  const prefix = choosePrefix(translator, question);
  const limits = Math.min(LONGEST, translator.limits.longest);
  if (ids.length > limits) throw new Error(`The sentence has ${ids.length} pieces; a trace takes ${limits}, so trace one sentence at a time.`);

  let target = isForced ? readTarget(translator, question) : search(translator, ids, beam, prefix, edits, editor);
  const inputs = [BOS, ...target.ids.slice(0, -1)];
  refuseRowsBeyond(edits, inputs.length);
  if (inputs.length > limits) throw new Error(`The translation has ${inputs.length} pieces; a trace takes ${limits}, so trace one sentence at a time.`);
  const { tensors, all } = capture(translator, ids, inputs, editor);
  const steps = makeSteps(translator.target, all, inputs, target.ids);
  const searched = target.logProbs;
  if (isForced) target = { ...target, logProbs: steps.map((step) => step.chosen.log_prob) };
  const logProb = target.logProbs.reduce((sum, value) => sum + value, 0);
  const text = translator.target.decode(target.ids);
  const notes = [...readingNotes, ...target.notes, ...(isForced ? [] : listMissing(translator, segment, text))];

  const search_ = {
    method: isForced ? "given" : beam === 1 ? "greedy" : "beam",
    beam,
    length_penalty: LENGTH_PENALTY,
    max_extra: MAX_EXTRA,
    prefix: translator.target.pieces(question.prefix_ids ?? []).join(" "),
  };
  const inputPieces = translator.target.pieces(inputs);
  const made: Manifest = {
    ...template,
    id: "",
    run: { ...template.run, search: search_, seconds: (performance.now() - began) / 1000, bytes: countBytes(tensors) },
    sentence,
    context,
    part,
    source,
    target: makeSide(translator.target, target.ids, text, text),
    inputs: { pieces: inputPieces, ids: inputs },
    forced: isForced,
    stop: target.stop,
    log_prob: logProb,
    score: logProb / lengthDivisor(target.ids.length, LENGTH_PENALTY),
    notes: [...notes, ...listNotes(translator, { sentence, part, segment }, source, tensors.has("logits"))],
    edits,
    steps,
    tree: target.tree,
    axes: {
      ...template.axes,
      S: { ...template.axes.S!, size: ids.length, labels: source.pieces },
      T: { ...template.axes.T!, size: inputs.length, labels: inputPieces },
    },
    tensors: [],
    checks: [],
  };
  const manifest = { ...made, id: identifyTrace(made), doubt: findDoubt(translator, made) };
  const trace = {
    manifest: { ...manifest, tensors: template.tensors.map((row) => makeRow(row, manifest, tensors, edits, model.config)) },
    tensors,
  };
  return { ...trace, manifest: { ...trace.manifest, checks: checkTrace(translator, trace, searched) } };
}

/** What a trace reads: a sentence, which may be one of several parts of a line. */
interface TracedLine {
  sentence: string;
  context: string;
  part: NonNullable<Manifest["part"]> | null;
  segment: Segment;
  notes: string[];
}

/** Chooses the segment of a line that is traced: the first or the one asked for, or with a translation that is given the whole line. */
function chooseSegment(translator: Translator, question: Question, isForced: boolean): TracedLine {
  const { sentence: line, context = "", segment: number, edits = [] } = question;
  if (context && !translator.contextSentences) throw new Error("This model was trained on single sentences and reads none before another.");
  const prefix = isForced ? "" : (edits.find((edit) => edit.kind === "prefix")?.text ?? "");
  const isWhole = isForced && number === undefined;
  const cutLine = translator.cut(line, { context, ...(isWhole && { whole: true, sentences: "keep" as const }) });
  const count = cutLine.segments.length;
  if (!count) throw new Error("There is nothing to trace: no part of the line is translated.");
  const parts = count === 1 ? "it is one" : `they are 1 to ${count}`;
  if (number !== undefined && !(number >= 1 && number <= count)) throw new Error(`The line has no part ${number}; ${parts}.`);
  if (isWhole && count > 1) throw new Error(`The line is translated in ${count} parts, and a translation that is given is that of one; say of which.`);
  const chosen = cutLine.segments[(number ?? 1) - 1]!;
  if (context && !chosen.before && (number ?? 1) === 1)
    throw new Error(`Both sentences have more than ${translator.limits.trained} pieces, which the longest source of training had; shorten the one before.`);

  if (count === 1) {
    const { segments, notes } = prefix ? translator.cut(line, { context, prefix }) : cutLine;
    return { sentence: line, context, part: null, segment: segments[0]!, notes };
  }
  const part = { line, segments: cutLine.split.segments, segment: number ?? 1, context };
  // What a prefix begins may be several sentences, so the segment is read anew, whole.
  const segment = prefix ? translator.cut(chosen.text, { context: chosen.before, prefix, sentences: "keep" }).segments[0]! : chosen;
  const readings = new Set(cutLine.segments.flatMap(({ read }) => read.notes));
  const notes = cutLine.notes.filter((note) => segment.read.notes.includes(note) || !readings.has(note));
  return { sentence: chosen.text, context: part.segment > 1 ? chosen.before : context, part, segment, notes };
}

/** Says that a translation has fewer sentences than what was translated, and what is done about that elsewhere. */
function listMissing(translator: Translator, { text, read }: Segment, translation: string): string[] {
  const count = countSentences(text);
  const missing = count - countSentences(translator.reader.restore(read, translation));
  if (missing <= 0) return [];
  const remark = "a sentence is missing from the translation: `translate` then tries each sentence of the text by itself, and a trace shows them together";
  return [describeMissing(missing), ...(count > 1 ? [remark] : [])];
}

function choosePrefix(translator: Translator, { prefix_ids: ids = [], edits = [] }: Question): Prefix | undefined {
  const texts = edits.flatMap((edit) => (edit.kind === "prefix" ? [edit.text] : []));
  if (texts.length + Number(ids.length > 0) > 1) throw new Error("A translation has one beginning; leave out all but one.");
  if (texts[0] !== undefined) return translator.encodePrefix(texts[0]);
  const wrong = ids.find((id) => !(id in translator.target.names) || id === EOS || translator.forbidden.includes(id));
  if (wrong !== undefined) throw new Error(`No translation begins with the piece ${wrong}.`);
  return ids.length ? { ids, startsWord: false } : undefined;
}

function search(translator: Translator, source: number[], beam: number, prefix: Prefix | undefined, edits: EditSpec[], editor: Watch | undefined): Target {
  if (edits.some((edit) => edit.kind === "without" && edit.part === "mask"))
    throw new Error("A search has no later pieces that the mask could hide; trace a given target without the mask.");
  const readsAgain = edits.some((edit) => countsPositions(edit, translator.model.config));
  const found = translator.search(source, { beam, prefix, edit: editor, readsAgain });
  return {
    ids: found.tokens,
    logProbs: found.logProbs,
    stop: found.stop,
    notes: found.notes,
    tree: makeTree(translator.target, found.steps, beam, found.tokens),
  };
}

function readTarget(translator: Translator, { target, target_ids: ids, prefix_ids: prefix }: Question): Target {
  if (target !== undefined && ids?.length) throw new Error("The target is given both as a text and as ids; a trace is of one translation.");
  if (prefix?.length) throw new Error("A translation that is given already has its beginning.");
  const tokens = target === undefined ? (ids as number[]) : translator.target.encode(target);
  const wrong = tokens.find((id, i) => !(id in translator.target.names) || id === PAD || id === BOS || (id === EOS && i + 1 < tokens.length));
  if (wrong !== undefined) throw new Error(`The target has the id ${wrong}, which cannot stand there.`);
  return { ids: tokens, logProbs: [], stop: tokens.at(-1) === EOS ? "eos" : "length", notes: [], tree: null };
}

/** Runs the model over a whole pair; gives the tensors that are kept, and the logits of every position. */
function capture(translator: Translator, source: number[], inputs: number[], editor: Watch | undefined): { tensors: Map<string, Tensor>; all: Tensor } {
  const tensors = new Map<string, Tensor>();
  const isShort = Math.max(source.length, inputs.length) <= LONGEST_WHOLE;
  const watch: Watch = (name, value) => {
    const seen = editor ? editor(name, value) : value;
    if (isShort || name.endsWith(".pattern") || name.endsWith(".allowed")) tensors.set(name, seen);
    return seen;
  };
  const run = { model: translator.model, watch };
  const all = logits(run, decode(run, inputs, encode(run, source)));
  return { tensors, all };
}

function makeSide(tokenizer: TokenizerSide, ids: number[], text: string, normalised: string, context = 0): Side {
  const pieces = tokenizer.pieces(ids);
  const written = ids.at(-1) === EOS ? pieces.slice(0, -1) : pieces;
  const words = [...findWords(written, text), ...pieces.slice(written.length).map(() => null)];
  const unknown = ids.map((id, i) => id === UNK || /^<0x[0-9A-F]{2}>$/.test(pieces[i]!));
  return { text, normalised, pieces, ids, words, unknown, context };
}

/** What each step could have written, from its logits. */
function makeSteps(tokenizer: TokenizerSide, all: Tensor, inputs: number[], target: number[]): Step[] {
  const size = all.shape[1]!;
  return target.map((chosen, step) => {
    const row = all.values.subarray(step * size, (step + 1) * size);
    const shift = logSumExp(row);
    const logProbs = new Float64Array(row); // in 64 bits: the entropy adds up a whole vocabulary
    for (let id = 0; id < size; id++) logProbs[id]! -= shift;
    const best = findLargest(row, TOP_CANDIDATES);
    const candidate = (id: number): Candidate => {
      return { id, piece: tokenizer.names[id]!, logit: row[id]!, log_prob: logProbs[id]!, prob: Math.exp(logProbs[id]!) };
    };
    const shown = new Set(best);
    let [others, entropy, rank] = [0, 0, 1];
    for (let id = 0; id < size; id++) {
      const prob = Math.exp(logProbs[id]!);
      if (prob > 0) entropy -= prob * logProbs[id]!;
      if (!shown.has(id)) others += prob;
      if (row[id]! > row[chosen]! || (row[id] === row[chosen] && id < chosen)) rank++;
    }
    return {
      step,
      input: tokenizer.names[inputs[step]!]!,
      chosen: candidate(chosen),
      rank,
      top: best.map(candidate),
      others,
      others_count: Math.max(0, size - TOP_CANDIDATES),
      entropy,
    };
  });
}

/** The tree of all candidates of a search; `best` is on the way to the translation. */
function makeTree(tokenizer: TokenizerSide, steps: readonly SearchCandidate[][], width: number, translation: readonly number[]): Tree {
  const nodes: TreeNode[] = [];
  let live: (TreeNode | null)[] = [null];
  let onPath: TreeNode | null = null; // the last node of the way to the translation
  steps.forEach((candidates, step) => {
    const next: TreeNode[] = [];
    const before: TreeNode | null = onPath;
    // One candidate beyond the 2W that a search looks at shows only how near the next one came.
    candidates.slice(0, 2 * width).forEach(({ parent, token, logProb, kept, finished }, i) => {
      const above = live[parent] ?? null;
      const total = (above?.total ?? 0) + logProb;
      const node: TreeNode = {
        id: nodes.length,
        parent: above?.id ?? null,
        step,
        piece: tokenizer.names[token]!,
        piece_id: token,
        log_prob: logProb,
        total,
        score: total / lengthDivisor(step + 1, LENGTH_PENALTY),
        rank: i + 1,
        fate: kept ? "kept" : finished ? "finished" : "pruned",
        best: above === before && token === translation[step] && (step === 0 || before !== null),
      };
      nodes.push(node);
      if (kept) next.push(node);
      if (node.best) onPath = node;
    });
    if (onPath === before) onPath = null;
    live = next;
  });
  return { width, length_penalty: LENGTH_PENALTY, formula: `total / ((5 + pieces) / 6) ^ ${LENGTH_PENALTY}`, candidates: 2 * width, nodes };
}

function makeRow(row: TensorRow, manifest: Manifest, tensors: ReadonlyMap<string, Tensor>, edits: EditSpec[], config: Translator["model"]["config"]): TensorRow {
  const tensor = tensors.get(row.name);
  const shape = row.dims.map((letter) => manifest.axes[letter]?.size ?? 1);
  const isEdited = isReplaced(row.name, edits, config);
  return { ...row, shape, captured: tensor !== undefined, ...(isEdited && { edited: true }), ...(tensor && findExtremes(row.name, tensor, tensors)) };
}

/** The least and largest number of a tensor; of scores, only where a query may read. */
function findExtremes(name: string, { shape, values }: Tensor, tensors: ReadonlyMap<string, Tensor>): { least: number; largest: number } {
  const mask = name.endsWith(".scores") ? tensors.get(name.replace(/scores$/, "allowed")) : undefined;
  const [, queries, keys] = shape as [number, number, number];
  const isRead = (place: number) => {
    if (!mask) return true;
    const row = mask.shape[1] === 1 ? 0 : Math.floor(place / keys) % queries;
    return mask.values[row * keys + (place % keys)] !== 0;
  };
  let [least, largest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let place = 0; place < values.length; place++) {
    const value = values[place]!;
    if (value < least && isRead(place)) least = value;
    if (value > largest && isRead(place)) largest = value;
  }
  return { least, largest };
}

function listNotes(translator: Translator, { sentence, part, segment }: Pick<TracedLine, "sentence" | "part" | "segment">, source: Side, isWhole: boolean): string[] {
  const { trained } = translator.limits;
  const why = segment.read.notes.length ? "" : ", because its training text has few of the characters that were written";
  return [
    ...(part ? [`the line is translated in ${part.segments.length} parts; this is part ${part.segment}`] : []),
    ...(source.ids.length > trained ? [`the sentence has ${source.ids.length} pieces, the longest source of training had ${trained}`] : []),
    ...(segment.read.text !== segment.text ? [`the model reads “${segment.read.text}”${why}`] : []),
    ...(segment.text !== stripText(sentence) ? ["text around the sentence is not read by the model"] : []),
    ...(/<\/?[A-Za-z0-9]|:\/\/|www\.|@|[{}]|%[a-z(]/.test(sentence) ? ["tags, addresses and placeholders are read as text here; `pellucid translate` carries them over"] : []),
    ...(isWhole ? [] : ["for a sentence this long only the patterns are captured"]),
  ];
}

/** Accounts for a logit of a trace. */
export function makeAccount(translator: Translator, { manifest, tensors }: Trace, { step, piece, other }: Acts["account"]["args"]): LogitAccount {
  const all = tensors.get("logits");
  const size = translator.target.names.length;
  if (!all) throw new Error("The logits of a sentence this long were not captured.");
  if (!(step >= 0 && step < manifest.steps.length)) throw new Error(`This translation has steps 0 to ${manifest.steps.length - 1}.`);
  for (const id of [piece, other ?? piece]) if (!(id >= 0 && id < size)) throw new Error(`The target vocabulary has pieces 0 to ${size - 1}.`);
  const parts = accountForLogit(translator.model, tensors, step, piece, other ?? null);
  const logit = all.values[step * size + piece]! - (other === undefined ? 0 : all.values[step * size + other]!);
  return {
    step,
    piece: translator.target.names[piece]!,
    id: piece,
    other: other === undefined ? null : { piece: translator.target.names[other]!, id: other },
    logit,
    sum: parts.reduce((sum, part) => sum + part.value, 0),
    parts,
  };
}

/** Checks that the numbers of a trace hold together; `searched` are the log-probabilities that the search found. */
function checkTrace(translator: Translator, trace: Trace, searched: readonly number[]): Check[] {
  const { manifest, tensors } = trace;
  const check = (name: string, value: number, limit: number, means: string): Check => ({ name, passed: value <= limit, value, limit, means });
  const patterns = manifest.tensors.filter((row) => row.op.kind === "softmax" && row.captured && !row.edited);
  let [sumError, unread] = [0, 0];
  for (const { name } of patterns) {
    const { shape, values } = tensors.get(name)!;
    const allowed = tensors.get(name.replace(/pattern$/, "allowed"))!;
    const [heads, queries, keys] = shape as [number, number, number];
    for (let row = 0; row < heads * queries; row++) {
      const mask = allowed.shape[1] === 1 ? 0 : (row % queries) * keys;
      let [sum, mayRead] = [0, false];
      for (let k = 0; k < keys; k++) {
        sum += values[row * keys + k]!;
        if (allowed.values[mask + k]) mayRead = true;
        else unread = Math.max(unread, values[row * keys + k]!);
      }
      sumError = Math.max(sumError, Math.abs(sum - Number(mayRead)));
    }
  }
  const probability = manifest.steps.map((step) => Math.abs(step.top.reduce((sum, { prob }) => sum + prob, step.others) - 1));
  const checks = [
    check("rows of every pattern sum to 1", sumError, 1e-5, `The largest distance from 1 in ${patterns.length} patterns.`),
    check("what may not be read has weight 0", unread, 0, "The largest weight on a key that the mask forbids."),
    check("the probabilities of each step sum to 1", Math.max(0, ...probability), 1e-5, `The largest distance from 1 in ${manifest.steps.length} steps.`),
  ];
  if (!manifest.forced) {
    const distance = Math.max(0, ...manifest.steps.map(({ chosen }, step) => Math.abs(chosen.log_prob - searched[step]!)));
    checks.push(check("the model gives the log-probabilities of the beam", distance, CLOSE_CALL, "The largest difference when the translation is read again in one pass, without the cache of the search."));
  }
  if (tensors.has("logits") && !manifest.edits.length) {
    const errors = manifest.steps.map((step) => {
      const { logit, sum, parts } = makeAccount(translator, trace, { step: step.step, piece: step.chosen.id });
      return Math.abs(sum - logit) / Math.max(Math.abs(logit), ...parts.map((part) => Math.abs(part.value)));
    });
    checks.push(check("the parts of each written piece's logit add up to it", Math.max(0, ...errors), 1e-4, "The largest difference, as a share of the largest part."));
  }
  return checks;
}

function countBytes(tensors: ReadonlyMap<string, Tensor>): number {
  return [...tensors.values()].reduce((sum, { values }) => sum + values.byteLength, 0);
}
