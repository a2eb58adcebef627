// The source of a server's page: the server traces every sentence. What the reader then changes is computed here, by the
// engine of a file with a model inside, once that has computed the server's own trace with the same numbers.
import { signal } from "@preact/signals";
import type { ModelHeader } from "./engine/package";
import { type AskEngine, COMPUTED, leaveOutAnswers, startEngine } from "./engine_source";
import { describeError } from "./format";
import { waitUntilIdle } from "./hooks";
import { nameSentence } from "./network";
import { isAnswerTo, makeQuestion } from "./permalink";
import { OF_MODEL } from "./trace_cache";
import { gatherRequests, type HttpSource } from "./trace_source";
import type { Acts, Manifest, Question, TraceSource } from "./types";

const TOLERANCE = 1e-4; // of the range of a tensor, or of 1 where that is less

/** The line before the blocks of a model, or why there are none. */
type PackageHead = { refusal: string } | { refusal?: undefined; header: ModelHeader; sha256: string; tokenizer_sha256: string; engine: string; sizes: Record<string, number> };

type Engine = ReturnType<typeof startEngine>;

/** Makes the source of the page of a server. */
export function servedSource(server: HttpSource): TraceSource {
  const hindrance = signal<string | null>(null);
  let engine: { sha256: string; opened: Promise<Engine> } | null = null; // of the model that traced last
  let isProven = false; // every number of a trace was compared
  let isWanted = false; // a change can be made; before, no weights are fetched
  let shown: Manifest | null = null;
  let base: Manifest | null = null; // the server's trace that the engine has computed alike; changes start from it

  const askEngine: AskEngine = async (question, args) => {
    if (!engine) throw new Error("The model in this page is not open.");
    return (await engine.opened).ask(question, args);
  };

  /** Opens the engine for the model of a trace; one of another model ends. */
  const openEngineFor = (manifest: Manifest): Promise<Engine> => {
    if (engine?.sha256 === manifest.model.sha256) return engine.opened;
    engine?.opened.then(({ stop }) => stop()).catch(() => undefined);
    isProven = false;
    engine = { sha256: manifest.model.sha256, opened: loadEngine(server, manifest) };
    return engine.opened;
  };

  const showServed = (manifest: Manifest): Manifest => {
    shown = manifest;
    if (base?.id === manifest.id) void askEngine("trace", makeQuestion(manifest)).catch(() => undefined); // its edits start from here again
    else if (isWanted) void checkEngine(manifest);
    else base = null;
    return manifest;
  };

  const prepare = () => {
    if (isWanted) return;
    isWanted = true;
    if (shown && !shown.computed_here) void checkEngine(shown);
  };

  /** Lets the engine compute a trace of the server, too, and uses it from then on if the two are alike. */
  const checkEngine = async (manifest: Manifest) => {
    base = null;
    hindrance.value = null;
    const question = makeQuestion(manifest);
    if (question.drawing) return; // only the server draws
    try {
      await openEngineFor(manifest);
      if (manifest !== shown) return;
      const names = isProven ? [] : manifest.tensors.filter((row) => row.captured).map((row) => row.name);
      const traced = askEngine("trace", question);
      const numbers = names.map((name) => askEngine("tensor", name)); // in the same turn: no other trace comes between
      const [ours, own, theirs] = await Promise.all([traced, Promise.all(numbers), Promise.all(names.map(server.fetchTensor))]);
      if (manifest !== shown) return;
      const difference = findDifference(manifest, ours, new Map(names.map((name, i) => [name, [own[i]!, theirs[i]!]])));
      if (difference) throw new Error(difference);
      base = manifest;
      isProven = true;
      hindrance.value = "";
    } catch (error) {
      if (manifest === shown) hindrance.value = describeError(error);
    }
  };

  const fetchComputed = gatherRequests((name) => askEngine("tensor", name));
  return {
    ...server,
    hindrance,
    prepare,
    fetchManifest: async (id, wanted) => showServed(await server.fetchManifest(id, wanted)),
    fetchTensor: (name) => (shown?.computed_here ? fetchComputed(name) : server.fetchTensor(name)),
    fetchParameter: (name, first, end) =>
      shown?.computed_here ? askEngine("parameter", { name, first, end }) : server.fetchParameter(name, first, end),
    async act<V extends keyof Acts>(verb: V, args: Acts[V]["args"]) {
      const isTrace = verb === "trace" || verb === "edit";
      if (shown && base && isTrace) {
        const question = verb === "trace" ? (args as Question) : makeUndoingQuestion(shown, args as Acts["edit"]["args"]);
        const { id } = base;
        if (question && isAnswerTo(base, question)) return showServed(await server.fetchManifest(id).catch(() => server.act("trace", question)));
        if (!question || isChange(question, shown)) {
          const computed = await (question ? askEngine("trace", question) : askEngine("edit", args as Acts["edit"]["args"]));
          return (shown = { ...computed, computed_here: true });
        }
      }
      if (shown?.computed_here) {
        if (!isTrace && COMPUTED.has(verb)) return askEngine(verb as "masking", args as Acts["masking"]["args"]);
        // The server knows this trace not yet.
        if (verb !== "trace" && !OF_MODEL.has(verb)) await server.act("trace", makeQuestion(shown));
      }
      const answer = await server.act(verb, args);
      return isTrace ? showServed(answer as Manifest) : answer;
    },
  };
}

/** Makes the question of the trace that is shown without its edits, if that is what an edit asks for. */
function makeUndoingQuestion(shown: Manifest, { edits, keep_target }: Acts["edit"]["args"]): Question | null {
  return edits.length || keep_target ? null : makeQuestion({ ...shown, edits: [], forced: false });
}

/** Tells whether a question is a change to the sentence that is shown; what was computed here and is asked again goes to the server. */
function isChange(question: Question, shown: Manifest): boolean {
  const { sentence, context, segment, target, target_ids, prefix_ids, edits, drawing } = question;
  const here = nameSentence(shown);
  const isPlain = target === undefined && !target_ids?.length && !prefix_ids?.length && !edits?.length;
  const isSame = sentence === here.sentence && (context ?? "") === (here.context ?? "") && segment === here.segment;
  return isSame && !isPlain && !drawing && !(shown.computed_here && isAnswerTo(shown, question));
}

/** Fetches the model of a trace and opens it in a worker, once the page has drawn that trace. */
async function loadEngine(server: HttpSource, manifest: Manifest): Promise<Engine> {
  await waitUntilIdle();
  const bytes = await server.fetchModel();
  let end = new Uint8Array(bytes).indexOf(10) + 1 || bytes.byteLength; // of the line of JSON
  const head = JSON.parse(new TextDecoder().decode(bytes.slice(0, end))) as PackageHead;
  if (head.refusal !== undefined) throw new Error(head.refusal);
  const { sha256, tokenizer_sha256 } = manifest.model;
  if (head.sha256 !== sha256 || head.tokenizer_sha256 !== tokenizer_sha256) throw new Error("the server has another model by now");
  const blocks = Object.fromEntries(Object.entries(head.sizes).map(([key, size]) => [key, bytes.slice(end, (end += size))]));
  const engine = startEngine(head.engine);
  await engine.ask("open", { header: head.header, manifest: leaveOutAnswers(manifest), blocks });
  return engine;
}

/** Finds what the engine computes otherwise than the server, as a sentence; `numbers` are both tensors of a name, ours first. */
function findDifference(theirs: Manifest, ours: Manifest, numbers: ReadonlyMap<string, [Float32Array, Float32Array]>): string | null {
  if (String(ours.source.ids) !== String(theirs.source.ids)) return "this browser reads the sentence in other pieces";
  if (String(ours.target.ids) !== String(theirs.target.ids) || ours.target.text !== theirs.target.text)
    return `this browser translates it as “${ours.target.text}”`;
  const rows = new Map(ours.tensors.map((row) => [row.name, row]));
  const other = theirs.tensors.find((row) => {
    if (!row.captured) return false;
    const [least, largest] = [Number(row.least ?? 0), Number(row.largest ?? 0)];
    const own = rows.get(row.name);
    const limit = TOLERANCE * Math.max(1, largest - least);
    const pairs = [[Float32Array.of(own?.least ?? 0, own?.largest ?? 0), Float32Array.of(least, largest)], numbers.get(row.name) ?? []];
    return !own?.captured || pairs.some(([a, b]) => a && b && !isClose(a, b, limit));
  });
  return other ? `this browser computes other numbers of ${other.name} than the server` : null;
}

/** Tells whether no two numbers differ by more than a limit. */
function isClose(a: Float32Array, b: Float32Array, limit: number): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i] || Math.abs(value - b[i]!) <= limit);
}
