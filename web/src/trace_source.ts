// Where a trace comes from: a server, a file, or the kernel of a notebook. All three answer the same questions.
import type { Acts, Manifest, ParameterRow, TensorRow, TraceSource } from "./types";

export interface HttpSource extends TraceSource {
  /** The trace that is shown; null before the first. */
  id: string | null;
}

/** A server; `base` is the address of the page, ending in a slash, "" for the page's own. */
export function httpSource(base = "", first: string | null = null): HttpSource {
  const at = (path: string, id = source.id) => `${base}trace/${encodeURIComponent(id ?? "")}/${path}`;
  const source: HttpSource = {
    kind: "http",
    id: first,
    async manifest(id, wanted) {
      const found = (await (await asked(at("manifest.json", id ?? source.id))).json()) as Manifest;
      if (wanted && !wanted(found)) throw new Error(`The trace ${found.id} is not the one that is asked for.`);
      source.id = found.id;
      return found;
    },
    tensor: async (name) => floats(await (await asked(at(`t/${encodeURIComponent(name)}`))).arrayBuffer()),
    parameter: async (name, from, end) =>
      floats(await (await asked(at(`p/${encodeURIComponent(name)}?rows=${from}:${end}`))).arrayBuffer()),
    async act<V extends keyof Acts>(verb: V, args: Acts[V]["args"]) {
      const headers = { "content-type": "application/json" };
      const url = verb === "trace" ? `${base}trace` : at(verb);
      const answer = await asked(url, { method: "POST", headers, body: JSON.stringify(args) });
      const found = (await answer.json()) as Acts[V]["gives"];
      if (verb === "trace" || verb === "edit") source.id = (found as Manifest).id;
      return found;
    },
    download: (what) => at(what === "npz" ? "tensors.npz" : `export.html?keep=${what.replace("html-", "")}`),
  };
  return source;
}

/** The answer, or an error that says in one sentence what the server said. */
async function asked(url: string, options?: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, options);
  } catch {
    throw new Error("The server does not answer; is `pellucid serve` still running?");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  throw new Error(reason(text) ?? `The server answered ${answer.status} ${answer.statusText}.`);
}

/** What the JSON of an error says. */
export function reason(text: string): string | null {
  try {
    const { error, detail } = JSON.parse(text) as { error?: unknown; detail?: unknown };
    if (typeof error === "string") return error;
    if (typeof detail === "string") return detail;
    if (Array.isArray(detail)) return detail.map((each: { msg?: string }) => each.msg ?? "").join("; ") || null;
  } catch {
    return null;
  }
  return null;
}

function floats(bytes: ArrayBuffer): Float32Array {
  if (bytes.byteLength % 4) throw new Error(`The numbers came cut off, ${bytes.byteLength} bytes of them.`);
  return new Float32Array(bytes);
}

/** A file: the manifest and packed numbers stand in inert script elements of the document. */
export function fileSource(document: Document): TraceSource {
  const written = document.getElementById("pellucid-manifest")?.textContent;
  let told: Promise<Manifest> | null = null;
  const manifest = () => {
    told ??= read();
    return told;
  };
  const read = async () => {
    if (!written) throw new Error("This file holds no trace.");
    const found = JSON.parse(written) as Manifest;
    for (const block of document.querySelectorAll("script[data-answer]")) {
      const text = new TextDecoder().decode(await inflated(block.textContent ?? ""));
      Object.assign(found, { [block.getAttribute("data-answer") ?? ""]: JSON.parse(text) });
    }
    return found;
  };
  const unpacked = async (kind: "tensor" | "parameter", name: string): Promise<Float32Array> => {
    const block = [...document.querySelectorAll(`script[data-${kind}]`)].find(
      (each) => each.getAttribute(`data-${kind}`) === name,
    );
    if (!block) throw new Error(`The numbers of ${name} are not in this file.`);
    const rows: (TensorRow | ParameterRow)[] = (await manifest())[kind === "tensor" ? "tensors" : "parameters"];
    const row = rows.find((each) => each.name === name);
    return numbersOf(await inflated(block.textContent ?? ""), row && "dtype" in row ? row.dtype : "float32");
  };
  const parameters = new Map<string, Promise<Float32Array>>();
  return {
    kind: "file",
    manifest,
    tensor: (name) => unpacked("tensor", name),
    async parameter(name, from, end) {
      const all = parameters.get(name) ?? unpacked("parameter", name);
      parameters.set(name, all);
      const width = (await manifest()).parameters.find((row) => row.name === name)?.shape[1] ?? 1;
      return (await all).subarray(from * width, end * width);
    },
  };
}

/** base64 of gzip, as bytes. */
async function inflated(text: string): Promise<ArrayBuffer> {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** Little-endian bytes as numbers. */
export function numbersOf(bytes: ArrayBuffer, dtype: TensorRow["dtype"]): Float32Array {
  if (dtype === "float32") return floats(bytes);
  if (dtype === "bool") return Float32Array.from(new Uint8Array(bytes));
  return Float32Array.from(new Uint16Array(bytes), fromHalf);
}

/** The number that 16 bits mean (IEEE 754, binary16). */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** The part of anywidget's model that is used. */
export interface WidgetModel {
  send(content: unknown): void;
  on(event: "msg:custom", heard: (content: Answer, buffers: (DataView | ArrayBuffer)[]) => void): void;
}

interface Answer {
  id?: number;
  value?: unknown;
  problem?: string;
}

const PATIENCE = 8000; // milliseconds until a kernel that never answered is taken for absent

const known = new WeakMap<WidgetModel, TraceSource>();

/** The kernel of a notebook, through messages; the views of one widget share one source. */
export function widgetSource(model: WidgetModel): TraceSource {
  const found = known.get(model) ?? makeWidgetSource(model);
  known.set(model, found);
  return found;
}

function makeWidgetSource(model: WidgetModel): TraceSource {
  const waiting = new Map<number, { tell: (answer: Answer, buffers: (DataView | ArrayBuffer)[]) => void }>();
  let last = 0;
  let trace: string | null = null;
  model.on("msg:custom", (content, buffers) => {
    if (typeof content?.id !== "number") return;
    waiting.get(content.id)?.tell(content, buffers);
    waiting.delete(content.id);
  });
  const ask = <T>(question: Record<string, unknown>, read: (answer: Answer, buffers: (DataView | ArrayBuffer)[]) => T) =>
    new Promise<T>((resolve, reject) => {
      const id = ++last;
      waiting.set(id, {
        tell: (answer, buffers) =>
          answer.problem === undefined ? resolve(read(answer, buffers)) : reject(new Error(answer.problem)),
      });
      if (question.ask === "manifest")
        setTimeout(() => reject(new Error("No Python answers behind this page: run the cell again.")), PATIENCE);
      model.send({ id, trace, ...question });
    });
  const numbers = (_: Answer, buffers: (DataView | ArrayBuffer)[]) => {
    const [bytes] = buffers;
    if (!bytes) throw new Error("The kernel sent no numbers.");
    if (bytes instanceof ArrayBuffer) return floats(bytes);
    return floats(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
  };
  return {
    kind: "widget",
    manifest: () => ask({ ask: "manifest" }, (answer) => answer.value as Manifest),
    tensor: (name) => ask({ ask: "tensor", name }, numbers),
    parameter: (name, first, end) => ask({ ask: "parameter", name, first, end }, numbers),
    async act<V extends keyof Acts>(verb: V, args: Acts[V]["args"]) {
      const answer = await ask({ ask: "act", verb, args }, (each) => each.value as Acts[V]["gives"]);
      if (verb === "trace" || verb === "edit") trace = (answer as Manifest).id;
      return answer;
    },
  };
}
