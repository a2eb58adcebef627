// The source of a file with the model inside: a worker computes every trace from the weights of the file.
import type { EngineQuestions } from "./engine/answers";
import type { EngineReply, EngineRequest } from "./engine/worker";
import type { ModelHeader, PackedModel } from "./engine/package";
import { identifyTrace } from "./engine/identity";
import { waitUntilIdle } from "./hooks";
import { nameSentence } from "./network";
import { isAnswerTo } from "./permalink";
import { fileSource, gatherRequests } from "./trace_source";
import type { Acts, Manifest, Question, TraceSource } from "./types";

export type AskEngine = <Q extends keyof EngineQuestions>(ask: Q, args: EngineQuestions[Q]["args"]) => Promise<EngineQuestions[Q]["gives"]>;

/** What a page with a model offers to scripts around it, as `window.pellucid`. */
export interface PellucidApi {
  /** Translates a text; resolves to it with its score, why it stopped, and its pieces. */
  translate(text: string, options?: { beam?: number }): Promise<EngineQuestions["translate"]["gives"]>;
}

export const COMPUTED: ReadonlySet<string> = new Set(["trace", "edit", "account", "masking", "identity"]); // acts that the engine performs

/** Makes the source of a document that holds a model, and what it offers to scripts; null where the document holds none. */
export function engineSource(document: Document): { source: TraceSource; api: PellucidApi } | null {
  const headerText = document.getElementById("pellucid-model")?.textContent;
  if (!headerText) return null;
  const header = JSON.parse(headerText) as ModelHeader;
  const recording = readRecording(document);
  const opened = openEngine(document, header, recording);
  opened.catch(() => undefined); // it is told to whoever asks
  let shown: Manifest | null = null;
  let atHand: Recording | null = null;
  const askModel: AskEngine = async (question, args) => (await opened)(question, args);
  const showRecording = async () => {
    atHand = await recording;
    shown = atHand.manifest;
    // The engine answers in turn: whatever is asked of it after this is asked about the same trace.
    askModel("trace", nameSentence(shown)).catch(() => undefined);
    return shown;
  };
  const source: TraceSource = {
    kind: "engine",
    async fetchManifest(id, wanted) {
      if (!shown && id === (await recording).manifest.id) await showRecording();
      if (!shown || (id && shown.id !== id) || (wanted && !wanted(shown))) throw new Error("This file no longer has that trace.");
      return shown;
    },
    peekTensor: (id, name) => (id === atHand?.manifest.id ? atHand.tensors.get(name) : undefined),
    fetchTensor: gatherRequests(async (name) => source.peekTensor?.(shown?.id ?? "", name) ?? askModel("tensor", name)),
    fetchParameter: (name, first, end) => askModel("parameter", { name, first, end }),
    async act<V extends keyof Acts>(verb: V, args: Acts[V]["args"]) {
      if (!COMPUTED.has(verb)) throw new Error("The model in this page does not compute this; open it with `pellucid serve MODEL`.");
      const recorded = (await recording).manifest;
      if (verb === "trace" && isAnswerTo(recorded, args as Question)) return (await showRecording()) as Acts[V]["gives"];
      const answer = await askModel(verb as "trace", args as Acts["trace"]["args"]);
      if (verb !== "trace" && verb !== "edit") return answer as Acts[V]["gives"];
      const { words, heads, word_curve } = recorded; // what belongs to the model, not to a sentence
      shown = { ...answer, ...(words && { words }), ...(heads && { heads }), ...(word_curve && { word_curve }) };
      return shown as Acts[V]["gives"];
    },
    fetchExamples: async () => ({ sentences: header.examples, notes: {}, references: {}, doubts: null, pending: false, languages: header.languages, pairs: null }),
  };
  return { source, api: { translate: (text, { beam } = {}) => askModel("translate", { text, beam }) } };
}

/** The first trace of a file, with the tensors that the map draws: it is shown while the model is still unpacked. */
interface Recording {
  manifest: Manifest;
  tensors: ReadonlyMap<string, Float32Array>;
}

async function readRecording(document: Document): Promise<Recording> {
  const file = fileSource(document);
  const names = [...document.querySelectorAll("script[data-tensor]")].map((block) => block.getAttribute("data-tensor") ?? "");
  const [manifest, ...tensors] = await Promise.all([file.fetchManifest(), ...names.map(file.fetchTensor)]);
  return { manifest: { ...manifest, id: identifyTrace(manifest) }, tensors: new Map(names.map((name, i) => [name, tensors[i]!])) };
}

/** Starts the engine and opens the model, once the browser has read the whole document; gives the function that asks. */
async function openEngine(document: Document, header: ModelHeader, recording: Promise<Recording>): Promise<AskEngine> {
  if (document.readyState === "loading") await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
  await waitUntilIdle(); // the first sentence is drawn meanwhile
  const { ask } = startEngine(document.getElementById("pellucid-engine")?.textContent ?? "");
  await ask("open", { header, manifest: leaveOutAnswers((await recording).manifest), blocks: listBlocks(document) });
  return ask;
}

/** Leaves out of a manifest what the engine has no use for. */
export function leaveOutAnswers({ words: _, heads: __, ...manifest }: Manifest): Manifest {
  return manifest;
}

/** Lists the packed weights and tokenizers of a document, by kind and name. */
function listBlocks(document: Document): PackedModel["blocks"] {
  const blocks: Record<string, string> = {};
  for (const kind of ["parameter", "tokenizer"])
    for (const block of document.querySelectorAll(`script[data-${kind}]`)) blocks[`${kind} ${block.getAttribute(`data-${kind}`)}`] = block.textContent ?? "";
  return blocks;
}

/** Starts the worker; gives a function that asks it, one question after the other, and one that ends it. */
export function startEngine(script: string): { ask: AskEngine; stop: () => void } {
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  let lastId = 0;
  let worker: Worker | null = null;
  let failure: Error | null = null;
  const fail = () => {
    failure = new Error("This browser does not start the worker in which the model runs.");
    for (const { reject } of waiting.values()) reject(failure);
    waiting.clear();
  };
  try {
    worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    worker.onerror = fail;
    worker.onmessage = ({ data: { id, value, problem } }: MessageEvent<EngineReply>) => {
      const question = waiting.get(id);
      waiting.delete(id);
      if (problem === undefined) question?.resolve(value as never);
      else question?.reject(new Error(problem));
    };
  } catch {
    fail();
  }
  const ask: AskEngine = (question, args) =>
    new Promise((resolve, reject) => {
      if (failure) return reject(failure);
      const id = ++lastId;
      waiting.set(id, { resolve, reject });
      worker?.postMessage({ id, ask: question, args } satisfies EngineRequest);
    });
  return { ask, stop: () => worker?.terminate() };
}
