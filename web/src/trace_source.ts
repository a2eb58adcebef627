// Sources of a trace: a server, a file, or the kernel of a notebook, all with the same interface.
import { inflate, toFloats, toNumbers } from "./file_formats";
import type { Acts, Examples, Manifest, ParameterRow, TensorRow, TraceSource } from "./types";

export interface HttpSource extends TraceSource {
  /** Id of the trace that is shown; null before the first. */
  id: string | null;
  /** Fetches the model, as pellucid/interpret/trace/model_page.py packs it. */
  fetchModel(): Promise<ArrayBuffer>;
  act: NonNullable<TraceSource["act"]>;
}

/** Makes the source of a server; `base` is the address of the page, ending in a slash, or "" for the page's own. */
export function httpSource(base = "", firstId: string | null = null): HttpSource {
  const traceUrl = (path: string, id = source.id) => `${base}trace/${encodeURIComponent(id ?? "")}/${path}`;
  const fetchOne = async (name: string) =>
    toFloats(await (await request(traceUrl(`t/${encodeURIComponent(name)}`))).arrayBuffer());
  const source: HttpSource = {
    kind: "http",
    id: firstId,
    async fetchManifest(id, wanted) {
      const shown = (await (await request(traceUrl("manifest.json", id ?? source.id))).json()) as Manifest;
      if (wanted && !wanted(shown)) throw new Error(`The trace ${shown.id} is not the one requested.`);
      source.id = shown.id;
      return shown;
    },
    fetchTensor: gatherRequests(fetchOne, async (names) => {
      const question = names.map((name) => `name=${encodeURIComponent(name)}`).join("&");
      const answer = await request(traceUrl(`tensors?${question}`));
      return cutNumbers(toFloats(await answer.arrayBuffer()), answer.headers.get("x-shape") ?? "");
    }),
    fetchParameter: async (name, from, end) =>
      toFloats(await (await request(traceUrl(`p/${encodeURIComponent(name)}?rows=${from}:${end}`))).arrayBuffer()),
    async act<V extends keyof Acts>(verb: V, args: Acts[V]["args"]) {
      const headers = { "content-type": "application/json" };
      const url = verb === "trace" ? `${base}trace` : traceUrl(verb);
      const answer = await request(url, { method: "POST", headers, body: JSON.stringify(args) });
      const result = (await answer.json()) as Acts[V]["gives"];
      if (verb === "trace" || verb === "edit") source.id = (result as Manifest).id;
      return result;
    },
    fetchModel: async () => (await request(`${base}model`)).arrayBuffer(),
    fetchExamples: async () => (await (await request(`${base}examples`)).json()) as Examples,
    async fetchRareWords(text) {
      const headers = { "content-type": "application/json" };
      const answer = await request(`${base}rare-words`, { method: "POST", headers, body: JSON.stringify({ text }) });
      return ((await answer.json()) as { words: Record<string, number> | null }).words;
    },
    async fetchCorrectionSettings() {
      const { suggestions, language } = (await (await request(`${base}frontend/settings`)).json()) as {
        suggestions: boolean;
        language: Record<"source" | "target", { code: string }>;
      };
      return { stores: suggestions, source: language.source.code, target: language.target.code };
    },
    async storeCorrection(sentence, correction, { source, target }) {
      const headers = { "content-type": "application/json" };
      await request(`${base}suggest`, { method: "POST", headers, body: JSON.stringify({ q: sentence, s: correction, source, target }) });
    },
    downloadUrl: (what) => traceUrl(what === "npz" ? "tensors.npz" : `export.html?keep=${what.replace("html-", "")}`),
  };
  return source;
}

/**
 * Makes a function that asks for one tensor, from one that asks for several at once: the names of one turn of the event
 * loop go together, since thirty requests, or drawing thirty times, take as long as the trace itself. What is refused
 * together is asked for alone.
 */
export function gatherRequests(
  fetchOne: (name: string) => Promise<Float32Array>,
  fetchAll = (names: string[]): Promise<Float32Array[]> => Promise.all(names.map(fetchOne)),
): (name: string) => Promise<Float32Array> {
  let gathered: string[] = [];
  let answers: Promise<Float32Array[]> = Promise.resolve([]);
  return async (name) => {
    if (gathered.length === 0) answers = Promise.resolve().then(() => {
      const names = gathered;
      gathered = [];
      return names.length > 1 ? fetchAll(names) : [];
    });
    const place = gathered.push(name) - 1;
    const numbers = (await answers.catch(() => []))[place];
    return numbers ?? fetchOne(name);
  };
}

/** Cuts numbers that came one array after another; the shapes read "2,3;4". */
export function cutNumbers(values: Float32Array, shapes: string): Float32Array[] {
  let end = 0;
  const parts = shapes.split(";").map((shape) => {
    const size = shape.split(",").filter(Boolean).reduce((product, length) => product * Number(length), 1);
    end += size;
    return values.slice(end - size, end);
  });
  if (end !== values.length) throw new Error(`${values.length} numbers came; their shapes have ${end}.`);
  return parts;
}

/** Requests a URL; where that fails, throws an Error with the server's reason in one sentence. */
async function request(url: string, options?: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, options);
  } catch {
    throw new Error("The server does not answer; is `pellucid serve` still running?");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  throw new Error(readReason(text) ?? `The server answered ${answer.status} ${answer.statusText}.`);
}

/** Reads the reason from the JSON of an error. */
export function readReason(text: string): string | null {
  try {
    const { error, detail } = JSON.parse(text) as { error?: unknown; detail?: unknown };
    if (typeof error === "string") return error;
    if (typeof detail === "string") return detail;
    if (Array.isArray(detail)) return detail.map((problem: { msg?: string }) => problem.msg ?? "").join("; ") || null;
  } catch {
    return null;
  }
  return null;
}

/** Makes the source of a file, whose manifest and packed numbers are in inert script elements of the document. */
export function fileSource(document: Document): TraceSource {
  let loading: Promise<Manifest> | null = null;
  const manifest = () => {
    loading ??= readFileManifest(document);
    return loading;
  };
  const unpack = async (kind: "tensor" | "parameter", name: string): Promise<Float32Array> => {
    const block = [...document.querySelectorAll(`script[data-${kind}]`)].find(
      (element) => element.getAttribute(`data-${kind}`) === name,
    );
    if (!block) throw new Error(`The numbers of ${name} are not in this file.`);
    const rows: (TensorRow | ParameterRow)[] = (await manifest())[kind === "tensor" ? "tensors" : "parameters"];
    const row = rows.find((candidate) => candidate.name === name);
    return toNumbers(await inflate(block.textContent ?? ""), row && "dtype" in row ? row.dtype : "float32");
  };
  const parameters = new Map<string, Promise<Float32Array>>();
  return {
    kind: "file",
    fetchManifest: manifest,
    fetchTensor: gatherRequests((name) => unpack("tensor", name)),
    async fetchParameter(name, from, end) {
      const values = parameters.get(name) ?? unpack("parameter", name);
      parameters.set(name, values);
      const width = (await manifest()).parameters.find((row) => row.name === name)?.shape[1] ?? 1;
      return (await values).subarray(from * width, end * width);
    },
  };
}

/** Reads the manifest of a file, with the answers that are packed beside it. */
export async function readFileManifest(document: Document): Promise<Manifest> {
  const manifestText = document.getElementById("pellucid-manifest")?.textContent;
  if (!manifestText) throw new Error("This file holds no trace.");
  const whole = JSON.parse(manifestText) as Manifest;
  for (const block of document.querySelectorAll("script[data-answer]")) {
    const text = new TextDecoder().decode(await inflate(block.textContent ?? ""));
    Object.assign(whole, { [block.getAttribute("data-answer") ?? ""]: JSON.parse(text) });
  }
  return whole;
}

/** The part of anywidget's model that is used. */
export interface WidgetModel {
  send(content: unknown): void;
  on(event: "msg:custom", listener: (content: Answer, buffers: (DataView | ArrayBuffer)[]) => void): void;
}

interface Answer {
  id?: number;
  value?: unknown;
  problem?: string;
}

const KERNEL_TIMEOUT = 8000; // milliseconds until a kernel that has never answered counts as absent

const widgetSources = new WeakMap<WidgetModel, TraceSource>();

/** Makes the source of a notebook's kernel, asked through messages; the views of one widget share one source. */
export function widgetSource(model: WidgetModel): TraceSource {
  const source = widgetSources.get(model) ?? makeWidgetSource(model);
  widgetSources.set(model, source);
  return source;
}

function makeWidgetSource(model: WidgetModel): TraceSource {
  const waiting = new Map<number, { settle: (answer: Answer, buffers: (DataView | ArrayBuffer)[]) => void }>();
  let lastId = 0;
  let trace: string | null = null;
  model.on("msg:custom", (content, buffers) => {
    if (typeof content?.id !== "number") return;
    waiting.get(content.id)?.settle(content, buffers);
    waiting.delete(content.id);
  });
  const askKernel = <T>(question: Record<string, unknown>, read: (answer: Answer, buffers: (DataView | ArrayBuffer)[]) => T) =>
    new Promise<T>((resolve, reject) => {
      const id = ++lastId;
      waiting.set(id, {
        settle: (answer, buffers) =>
          answer.problem === undefined ? resolve(read(answer, buffers)) : reject(new Error(answer.problem)),
      });
      // Only the first question has a time limit: later ones may compute for long.
      if (question.ask === "manifest")
        setTimeout(() => reject(new Error("The notebook's kernel does not answer: run the cell again.")), KERNEL_TIMEOUT);
      model.send({ id, trace, ...question });
    });
  const readNumbers = (_: Answer, buffers: (DataView | ArrayBuffer)[]) => {
    const [bytes] = buffers;
    if (!bytes) throw new Error("The kernel sent no numbers.");
    if (bytes instanceof ArrayBuffer) return toFloats(bytes);
    return toFloats(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
  };
  return {
    kind: "widget",
    fetchManifest: () => askKernel({ ask: "manifest" }, (answer) => answer.value as Manifest),
    fetchTensor: (name) => askKernel({ ask: "tensor", name }, readNumbers),
    fetchParameter: (name, first, end) => askKernel({ ask: "parameter", name, first, end }, readNumbers),
    async act<V extends keyof Acts>(verb: V, args: Acts[V]["args"]) {
      const answer = await askKernel({ ask: "act", verb, args }, (reply) => reply.value as Acts[V]["gives"]);
      if (verb === "trace" || verb === "edit") trace = (answer as Manifest).id;
      return answer;
    },
  };
}
