// Edits of a run: which tensors each changes, and how, as in src/pellucid/interpret/trace/edits.py.
import type { EditSpec } from "../types";
import type { ModelConfig, Watch } from "./model";
import { rotate } from "./positions";
import { mapNumbers, type Tensor } from "./tensor";

interface Change {
  /** Pattern of the names of the tensors that are changed; a star is the number of a layer. */
  names: RegExp;
  change: (value: Tensor, name: string) => Tensor;
  /** False where the tensor is only looked at, for the change of another one. */
  replaces: boolean;
}

/** Makes the watcher that makes all these changes; `words` has the word of each source piece. */
export function makeEditor(edits: readonly EditSpec[], config: ModelConfig, words: readonly (number | null)[]): Watch {
  const problems = edits.flatMap((edit) => findProblems(edit, config, words));
  if (problems.length) throw new Error(`${problems.join("; ")}.`);
  const changes = edits.flatMap((edit) => listChanges(edit, config, words));
  return (name, value) => changes.reduce((changed, { names, change }) => (names.test(name) ? change(changed, name) : changed), value);
}

/** Tells whether an edit replaces the tensor of this name. */
export function isReplaced(name: string, edits: readonly EditSpec[], config: ModelConfig): boolean {
  return edits.some((edit) => listChanges(edit, config, []).some(({ names, replaces }) => replaces && names.test(name)));
}

/** Tells whether an edit counts the rows of the decoder as positions, so that a search must read every beginning as a whole. */
export function countsPositions(edit: EditSpec, config: ModelConfig): boolean {
  return (edit.kind === "pattern" && edit.attention.startsWith("decoder")) || (edit.kind === "without" && edit.part === "positions" && config.positions === "rotary");
}

function listChanges(edit: EditSpec, config: ModelConfig, words: readonly (number | null)[]): Change[] {
  const replace = (pattern: string, change: (value: Tensor) => Tensor): Change => ({
    names: new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*")}$`),
    change,
    replaces: true,
  });
  if (edit.kind === "silence") return [replace(`${edit.attention}.head_output`, (z) => fillHead(z, edit.head))];
  if (edit.kind === "pattern") return [replace(`${edit.attention}.pattern`, (pattern) => setRow(pattern, edit.head, edit.row, edit.values))];
  if (edit.kind === "hide") {
    const hide = (allowed: Tensor) => mapNumbers(allowed, (value, place) => (words[place % allowed.shape.at(-1)!] === edit.word ? 0 : value));
    return [replace("encoder.*.self.allowed", hide), replace("decoder.*.cross.allowed", hide)];
  }
  if (edit.kind === "prefix") return []; // it concerns only the search
  if (edit.part === "scaling") return [replace("*.scores", (scores) => mapNumbers(scores, (score) => score * Math.sqrt(config.d_model / config.heads)))];
  if (edit.part === "mask") return [replace("decoder.*.self.allowed", (allowed) => mapNumbers(allowed, () => 1))];
  if (edit.part === "positions") {
    if (config.positions !== "rotary") return [replace("*coder.positions", (vectors) => mapNumbers(vectors, () => 0))];
    const turnBack = (x: Tensor) => rotate(x, Array.from({ length: x.shape[1]! }, (_, position) => position), -1);
    return [replace("*.self.q", turnBack), replace("*.self.k", turnBack)];
  }
  // Without the residual, the output of a sublayer stands in the place of its sum with the input.
  let output: Tensor | null = null;
  const sublayers = "(encoder|decoder)\\.\\d+\\.(self|cross|ffn)";
  return [
    { names: new RegExp(`^${sublayers}\\.output$`), change: (value) => (output = value), replaces: false },
    { names: new RegExp(`^${sublayers}_residual\\.sum$`), change: (sum) => output ?? sum, replaces: true },
  ];
}

/** Puts zeros into one head of (H Q E). */
function fillHead(z: Tensor, head: number): Tensor {
  const size = z.shape[1]! * z.shape[2]!;
  return mapNumbers(z, (value, place) => (Math.floor(place / size) === head ? 0 : value));
}

/** Puts these weights into one row of one head of (H Q K); while a translation grows, the row may not be there yet. */
function setRow(pattern: Tensor, head: number, row: number, values: readonly number[]): Tensor {
  const [, queries, keys] = pattern.shape as [number, number, number];
  const changed = { shape: pattern.shape, values: pattern.values.slice() };
  if (row < queries) changed.values.set(values.slice(0, keys), (head * queries + row) * keys);
  return changed;
}

/** Lists the reasons why an edit does not fit this model and sentence. */
function findProblems(edit: EditSpec, config: ModelConfig, words: readonly (number | null)[]): string[] {
  if (edit.kind === "prefix") return edit.text.trim() ? [] : ["The prefix is blank; say how the translation begins"];
  if (edit.kind === "hide") return words.includes(edit.word) ? [] : [`Word ${edit.word} is not in the sentence`];
  if (edit.kind === "without") {
    if (!["scaling", "positions", "mask", "residual"].includes(edit.part)) return [`Nothing is called ${edit.part} that could be left out`];
    return edit.part === "positions" && config.positions === "none" ? ["This model has no position vectors that could be left out"] : [];
  }
  if (edit.kind !== "silence" && edit.kind !== "pattern") return ["The edit is of an unknown kind"];
  const layers: Record<string, number> = { encoder: config.encoder_layers, decoder: config.decoder_layers };
  const [, stack, layer, sublayer] = /^(encoder|decoder)\.(\d+)\.(self|cross)$/.exec(edit.attention) ?? [];
  if (!stack || Number(layer) >= layers[stack]! || (stack === "encoder" && sublayer === "cross")) return [`${edit.attention} is no attention of this model`];
  const problems = edit.head >= 0 && edit.head < config.heads ? [] : [`${edit.attention} has heads 0 to ${config.heads - 1}; head ${edit.head} is none`];
  if (edit.kind === "pattern") {
    const isCausal = stack === "decoder" && sublayer === "self";
    const where = `Row ${edit.row} of ${edit.attention}`;
    if (edit.row < 0 || (stack === "encoder" && edit.row >= words.length)) problems.push(`${where} is none; rows are counted from 0`);
    if (!edit.values.every((value) => Number.isFinite(value) && value >= 0)) problems.push(`${where}: weights must be numbers of at least 0`);
    if (!isCausal && edit.values.length !== words.length) problems.push(`${where} has ${words.length} weights; ${edit.values.length} were given`);
    if (isCausal && (edit.values.length <= edit.row || edit.values.slice(edit.row + 1).some(Boolean)))
      problems.push(`${where} has ${edit.row + 1} weights, for itself and the pieces before it; later ones must be 0`);
  }
  return problems;
}

/** Refuses a row of the decoder that the translation is too short to reach. */
export function refuseRowsBeyond(edits: readonly EditSpec[], positions: number): void {
  for (const edit of edits)
    if (edit.kind === "pattern" && edit.attention.startsWith("decoder") && edit.row >= positions)
      throw new Error(`Row ${edit.row} of ${edit.attention} is never reached: the translation has ${positions} pieces.`);
}
