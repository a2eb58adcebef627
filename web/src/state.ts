// The state of one page: the trace it shows, the current place, and functions that fetch numbers. One object per mount.
import { batch, type Signal, signal } from "@preact/signals";
import { findFileAnswer, OF_MODEL } from "./file_answers";
import { findTensorRow } from "./network";
import type { Acts, HeadStudyAnswer, Manifest, ParameterRow, TensorRow, TraceSource } from "./types";

export type View =
  | "map"
  | "block"
  | "head"
  | "cell"
  | "tokens"
  | "positions"
  | "output"
  | "beam"
  | "words"
  | "claims"
  | "heads"
  | "align"
  | "checks"
  | "compare"
  | "debug"
  | "export";

/** The current place; a permalink is made of it. */
export interface Place {
  view: View;
  section?: string; // "decoder.3.cross"
  tensor?: string;
  head?: number;
  row?: number;
  col?: number;
  index?: number[]; // of the cell opened, one number for each dimension of `tensor`
}

export interface Tensor {
  row: TensorRow;
  values: Float32Array;
}

/** Rows `first` to `end` of a parameter, the last dimension running fastest; of a vector, its numbers. */
interface Parameter {
  row: ParameterRow;
  first: number;
  values: Float32Array;
}

export type Mode = "learn" | "teach" | "debug";
/** Switches of the page, by their letter in a link. */
export const SWITCHES = { n: "numbers", t: "table", m: "code", h: "hidden" } as const;
export type Theme = "auto" | "light" | "dark";
export type Host = "page" | "file" | "widget";
export interface FollowedPiece {
  dim: "S" | "T";
  index: number;
}

export interface App {
  source: TraceSource;
  host: Host;
  manifest: Signal<Manifest | null>;
  place: Signal<Place>;
  followed: Signal<FollowedPiece | null>; // the pinned piece, outlined everywhere
  step: Signal<number>; // the row of T looked at
  story: Signal<number | null>; // stop 1 to 14
  mode: Signal<Mode>;
  theme: Signal<Theme>;
  numbers: Signal<boolean>; // N: numbers in the cells
  table: Signal<boolean>; // T: a table instead of a canvas
  code: Signal<boolean>; // M: formula and code
  hidden: Signal<boolean>; // teach mode: values wait for the space bar
  busy: Signal<string | null>;
  problem: Signal<string | null>;
  notice: Signal<string | null>; // how the shown trace differs from what a link named, until another trace comes
  /** Study of the model's heads on other sentences; null until it has come. */
  headStudy: Signal<HeadStudyAnswer | null>;
  /** Shows the source's trace (the one with this id where it has several) if it is `wanted`; resolves to whether it did. */
  showTrace(id?: string | null, wanted?: (manifest: Manifest) => boolean): Promise<boolean>;
  /** Moves to a place that differs from the current one by `change`, and adds it to the history. */
  goTo(change: Partial<Place>): void;
  /** Loads all numbers of a captured tensor; rejects with one sentence where it was not captured. */
  loadTensor(name: string): Promise<Tensor>;
  /** Gives a tensor that has already been loaded. */
  peekTensor(name: string): Tensor | undefined;
  loadParameter(name: string, first: number, end: number): Promise<Parameter>;
  /** Asks the source; null where it could not answer, with the reason in `problem`. A new trace is shown at once, at `then`. */
  askSource<V extends keyof Acts>(verb: V, args: Acts[V]["args"], then?: Partial<Place>): Promise<Acts[V]["gives"] | null>;
  /** Asks the source for what a picture needs: only once, and without setting `busy` or `problem`; rejects with a sentence. */
  fetchAnswer<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): Promise<Acts[V]["gives"]>;
}

const BLOCK_ROWS = 64; // rows of a parameter fetched together

/** Makes the initial state of a page over `source`. */
export function makeApp(source: TraceSource, host: Host): App {
  let pending = new Map<string, Promise<Tensor>>();
  let loaded = new Map<string, Tensor>();
  let blocks = new Map<string, Promise<Float32Array>>();
  let answers = new Map<string, Promise<unknown>>();
  const manifest = signal<Manifest | null>(null);

  function showManifest(next: Manifest): void {
    pending = new Map();
    loaded = new Map();
    blocks = new Map();
    app.step.value = Math.min(app.step.value, Math.max(0, next.steps.length - 1));
    const follow = app.followed.value;
    if (follow && follow.index >= (next.axes[follow.dim]?.size ?? 0)) app.followed.value = null;
    const { tensor } = app.place.value;
    const isKnown = [...next.tensors, ...next.parameters].some((row) => row.name === tensor);
    if (tensor && !isKnown) app.place.value = { view: "map" };
    const isOtherModel = manifest.value?.model.sha256 !== next.model.sha256;
    answers = new Map([...answers].filter(([key]) => !isOtherModel && OF_MODEL.has(key.slice(0, key.indexOf(" ")))));
    manifest.value = next;
    app.notice.value = null;
    if (isOtherModel || !app.headStudy.value)
      app.fetchAnswer("heads", {}).then(
        (answer) => (app.headStudy.value = answer),
        (error) => (app.headStudy.value = { study: null, says: describeError(error) }),
      );
  }

  async function fetchTensor(name: string): Promise<Tensor> {
    const row = findTensorRow(manifest.value, name);
    if (!row) throw new Error(`This trace has no tensor named ${name}.`);
    if (!row.captured) throw new Error(`${name} was not captured.`);
    const values = await source.fetchTensor(name);
    const count = row.shape.reduce((a, b) => a * b, 1);
    if (values.length !== count) throw new Error(`${name} came with ${values.length} numbers; its shape has ${count}.`);
    return { row, values };
  }

  async function fetchBlock(row: ParameterRow, number: number): Promise<Float32Array> {
    const key = `${row.name}:${number}`;
    const end = Math.min((number + 1) * BLOCK_ROWS, row.shape[0] ?? 0);
    const rows = blocks.get(key) ?? source.fetchParameter(row.name, number * BLOCK_ROWS, end);
    blocks.set(key, rows);
    rows.catch(() => blocks.delete(key));
    return rows;
  }

  const app: App = {
    source,
    host,
    manifest,
    place: signal<Place>({ view: "map" }),
    followed: signal<FollowedPiece | null>(null),
    step: signal(0),
    story: signal<number | null>(null),
    mode: signal<Mode>("learn"),
    theme: signal<Theme>("auto"),
    numbers: signal(false),
    table: signal(false),
    code: signal(true),
    hidden: signal(false),
    busy: signal<string | null>(null),
    problem: signal<string | null>(null),
    notice: signal<string | null>(null),
    headStudy: signal<HeadStudyAnswer | null>(null),

    goTo(change) {
      app.place.value = { ...app.place.value, ...change };
    },

    loadTensor(name) {
      const started = pending.get(name);
      if (started) return started;
      // A new trace replaces the maps: numbers that come late belong to the maps of their own trace.
      const [request, pendingNow, loadedNow] = [fetchTensor(name), pending, loaded];
      pendingNow.set(name, request);
      request.then(
        (tensor) => loadedNow.set(name, tensor),
        () => pendingNow.delete(name),
      );
      return request;
    },

    peekTensor: (name) => loaded.get(name),

    async loadParameter(name, first, end) {
      const row = manifest.value?.parameters.find((parameter) => parameter.name === name);
      if (!row) throw new Error(`This trace has no parameter named ${name}.`);
      if (!row.captured) throw new Error(`The numbers of ${name} are not in this file.`);
      const width = row.shape[1] ?? 1;
      const numbers: number[] = [];
      for (let block = Math.floor(first / BLOCK_ROWS); block * BLOCK_ROWS < end; block++) numbers.push(block);
      const parts = await Promise.all(numbers.map((number) => fetchBlock(row, number)));
      const values = new Float32Array((end - first) * width);
      parts.forEach((part, i) => {
        const start = (numbers[i] as number) * BLOCK_ROWS;
        const from = Math.max(first, start);
        const to = Math.min(end, start + BLOCK_ROWS);
        values.set(part.subarray((from - start) * width, (to - start) * width), (from - first) * width);
      });
      return { row, first, values };
    },

    async showTrace(id, wanted) {
      try {
        showManifest(await source.fetchManifest(id, wanted));
        app.problem.value = null;
        return true;
      } catch (error) {
        app.problem.value = describeError(error);
        return false;
      }
    },

    async askSource(verb, args, thenGoTo) {
      app.problem.value = null;
      const saved = findFileAnswer(manifest.value, verb, args);
      if (saved) return saved;
      if (!source.act) {
        app.problem.value = "A saved file cannot compute anything new; to do that, open the model with `pellucid serve`.";
        return null;
      }
      app.busy.value = BUSY_TEXTS[verb] ?? "Asking";
      try {
        const answer = await source.act(verb, args);
        if (verb === "trace" || verb === "edit")
          batch(() => {
            showManifest(answer as Manifest);
            if (thenGoTo) app.goTo(thenGoTo);
          });
        return answer;
      } catch (error) {
        app.problem.value = describeError(error);
        return null;
      } finally {
        app.busy.value = null;
      }
    },

    fetchAnswer(verb, args) {
      const key = `${verb} ${JSON.stringify(args)}`;
      const started = answers.get(key) as Promise<Acts[typeof verb]["gives"]> | undefined;
      if (started) return started;
      const [request, answersNow] = [requestAnswer(verb, args), answers];
      answersNow.set(key, request);
      request.catch(() => answersNow.delete(key));
      return request;
    },
  };

  async function requestAnswer<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): Promise<Acts[V]["gives"]> {
    const saved = findFileAnswer(manifest.value, verb, args);
    if (saved) return saved;
    if (!source.act) throw new Error("Not in this file; to compute it, run: pellucid serve MODEL");
    return source.act(verb, args);
  }

  return app;
}

const BUSY_TEXTS: Partial<Record<keyof Acts, string>> = {
  account: "Computing the parts of the logit",
  verdict: "Hiding one word at a time",
  trace: "Translating",
  edit: "Running again with the edit",
  identity: "Translating the other sentence",
  analogy: "Adding vectors",
};

/** Describes an error in one sentence. */
export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
