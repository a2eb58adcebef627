// A small trace made by hand, a source that serves it, and rendered elements as plain trees.
import type { ComponentChild, VNode } from "preact";
import type { Manifest, Op, TensorRow, TraceSource } from "../src/types";

export const SIZES: Record<string, number> = { S: 5, T: 7, D: 6, H: 2, E: 3, "1": 1 };
const SOURCE = ["▁The", "▁ball", "▁is", "▁blue", "</s>"];
const READ = ["<s>", "▁La", "▁bola", "▁es", "▁az", "ul", "."];

export function makeRow(name: string, dims: string[], op: Op, more: Partial<TensorRow> = {}): TensorRow {
  const shape = dims.map((dim) => SIZES[dim] as number);
  return { name, dims, shape, means: "", of: "", op, captured: true, dtype: "float32", least: -2, largest: 3, ...more };
}

export const TENSORS: TensorRow[] = [
  makeRow("decoder.0.cross.products", ["H", "T", "S"], { kind: "dot", inputs: ["q", "k"] }),
  makeRow("decoder.0.cross.scores", ["H", "T", "S"], { kind: "scale", inputs: ["decoder.0.cross.products"], divisor: 2 }),
  makeRow("decoder.0.cross.allowed", ["1", "1", "S"], { kind: "present" }, { dtype: "bool" }),
  makeRow("decoder.0.cross.pattern", ["H", "T", "S"], {
    kind: "softmax",
    inputs: ["decoder.0.cross.scores", "decoder.0.cross.allowed"],
  }),
  makeRow("decoder.0.self.scores", ["H", "T", "T"], { kind: "scale", inputs: ["decoder.0.self.products"], divisor: 2 }),
  makeRow("decoder.0.self.allowed", ["1", "T", "T"], { kind: "causal" }, { dtype: "bool" }),
  makeRow("decoder.0.self.pattern", ["H", "T", "T"], {
    kind: "softmax",
    inputs: ["decoder.0.self.scores", "decoder.0.self.allowed"],
  }),
  makeRow("decoder.0.ffn.inner", ["T", "D"], { kind: "same", inputs: ["x"] }, { captured: false }),
  makeRow("decoder.1.cross.pattern", ["H", "T", "S"], {
    kind: "softmax",
    inputs: ["decoder.0.cross.scores", "decoder.0.cross.allowed"],
  }),
];

export function makeManifest(more: Partial<Manifest> = {}): Manifest {
  const side = { text: "The ball is blue.", normalised: "", pieces: SOURCE, ids: [4, 5, 6, 7, 2], words: [], unknown: [] };
  const candidate = { id: 9, piece: "▁La", logit: 1, log_prob: -1, prob: 0.4 };
  return {
    format: "pellucid-trace",
    version: 1,
    id: "abc",
    model: { name: "small", config: {}, parameters: 7, sha256: "0".repeat(64), tokenizer_sha256: "1".repeat(64) },
    run: {
      dtype: "float32",
      device: "cpu",
      mode: "eval",
      dropout: "off",
      pellucid: "0",
      torch: "0",
      search: {},
      capture: "float32",
      seconds: 0,
      bytes: 0,
    },
    sentence: "The ball is blue.",
    source: side,
    target: { ...side, text: "La bola es azul." },
    inputs: { pieces: READ, ids: [1, 2, 3, 4, 5, 6, 7] },
    forced: false,
    stop: "eos",
    log_prob: -1,
    score: -0.5,
    notes: [],
    edits: [],
    steps: READ.map((input, step) => ({
      step,
      input,
      chosen: candidate,
      rank: 1,
      top: [candidate],
      others: 0.6,
      others_count: 9,
      entropy: 1,
    })),
    tree: null,
    axes: Object.fromEntries(
      Object.entries(SIZES).map(([dim, size]) => {
        const labels = dim === "S" ? SOURCE : dim === "T" ? READ : undefined;
        return [dim, labels ? { means: "", size, labels } : { means: "", size }];
      }),
    ),
    tensors: TENSORS,
    parameters: [
      { name: "w", shape: [131, 3], captured: true },
      { name: "bias", shape: [131], captured: true },
      { name: "lost", shape: [5], captured: false },
    ],
    checks: [],
    ...more,
  };
}

/** Numbers each cell by its index written out: 100 h + 10 q + k, and so on. */
export function countCells(shape: number[]): Float32Array {
  const size = shape.reduce((a, b) => a * b, 1);
  return Float32Array.from({ length: size }, (_, flat) => {
    let [rest, number, place] = [flat, 0, 1];
    for (const length of [...shape].reverse()) {
      number += (rest % length) * place;
      rest = Math.floor(rest / length);
      place *= 10;
    }
    return number;
  });
}

/** Makes a source whose cells are numbered by their index, and which records its requests. */
export function makeSource(shown: Manifest, more: Partial<TraceSource> = {}): TraceSource & { requests: string[] } {
  const requests: string[] = [];
  return {
    kind: "http",
    requests: requests,
    fetchManifest: async () => shown,
    fetchTensor: async (name) => {
      requests.push(name);
      return countCells(shown.tensors.find((row) => row.name === name)?.shape ?? []);
    },
    fetchParameter: async (name, first, end) => {
      requests.push(`${name} ${first}:${end}`);
      const width = shown.parameters.find((parameter) => parameter.name === name)?.shape[1] ?? 1;
      return Float32Array.from({ length: (end - first) * width }, (_, i) => first * width + i);
    },
    ...more,
  };
}

export interface Element {
  tag: string;
  children: (Element | string)[];
}

/** Lists the elements and texts of a virtual node that holds no components. */
export function listElements(child: ComponentChild): (Element | string)[] {
  if (child === null || child === undefined || typeof child === "boolean") return [];
  if (Array.isArray(child)) return child.flatMap(listElements);
  if (typeof child !== "object") return [String(child)];
  const { type, props } = child as VNode<{ children?: ComponentChild }>;
  const children = listElements(props.children);
  return typeof type === "string" ? [{ tag: type, children }] : children;
}

/** Writes an element as XML. */
export function writeXml(element: Element | string): string {
  if (typeof element === "string") return element.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `<${element.tag}>${element.children.map(writeXml).join("")}</${element.tag}>`;
}

export function readText(element: Element | string): string {
  return typeof element === "string" ? element : element.children.map(readText).join("");
}
