// What one page knows: the trace it shows, the place one looks at, and how to fetch numbers. One object per mount.
import { batch, type Signal, signal } from "@preact/signals";
import { fromFile, OF_MODEL } from "./file_answers";
import type { Acts, Manifest, ParameterRow, Studied, TensorRow, TraceSource } from "./types";

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

/** Where we are; a permalink is made of it. */
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
export interface Parameter {
  row: ParameterRow;
  first: number;
  values: Float32Array;
}

export type Mode = "learn" | "teach" | "debug";
/** What is on or off, by its letter in a link. */
export const SWITCHES = { n: "numbers", t: "table", m: "code", h: "hidden" } as const;
export type Theme = "auto" | "light" | "dark";
export type Host = "page" | "file" | "widget";
export interface Follow {
  dim: "S" | "T";
  index: number;
}

export interface App {
  source: TraceSource;
  host: Host;
  manifest: Signal<Manifest | null>;
  place: Signal<Place>;
  follow: Signal<Follow | null>; // the pinned piece, outlined everywhere
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
  notice: Signal<string | null>; // what a link wanted otherwise than it is shown: until another trace comes
  /** What is known of the model's heads beside this sentence; null until it came. */
  studied: Signal<Studied | null>;
  /** Shows the trace that the source holds, of this id where it holds several, if it is the one `wanted`; whether it did. */
  begin(id?: string | null, wanted?: (manifest: Manifest) => boolean): Promise<boolean>;
  /** Moves to a place that differs from this one by `change`, and leaves a mark in the history. */
  go(change: Partial<Place>): void;
  /** All numbers of a captured tensor; rejects with one sentence where it was not captured. */
  tensor(name: string): Promise<Tensor>;
  /** The same where it has come already. */
  peek(name: string): Tensor | undefined;
  parameter(name: string, first: number, end: number): Promise<Parameter>;
  /** Asks the source; null where it could not answer, and `problem` then says why. A new trace is shown at once, at `then`. */
  ask<V extends keyof Acts>(verb: V, args: Acts[V]["args"], then?: Partial<Place>): Promise<Acts[V]["gives"] | null>;
  /** The same where a picture needs it to be drawn: asked once, told nobody; rejects with a sentence. */
  find<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): Promise<Acts[V]["gives"]>;
}

const BLOCK = 64; // rows of a parameter fetched together

/** The state of one page over `source`, at its beginning. */
export function makeApp(source: TraceSource, host: Host): App {
  let tensors = new Map<string, Promise<Tensor>>();
  let ready = new Map<string, Tensor>();
  let blocks = new Map<string, Promise<Float32Array>>();
  let answers = new Map<string, Promise<unknown>>();
  const manifest = signal<Manifest | null>(null);

  function show(next: Manifest): void {
    tensors = new Map();
    ready = new Map();
    blocks = new Map();
    app.step.value = Math.min(app.step.value, Math.max(0, next.steps.length - 1));
    const follow = app.follow.value;
    if (follow && follow.index >= (next.axes[follow.dim]?.size ?? 0)) app.follow.value = null;
    const { tensor } = app.place.value;
    const known = [...next.tensors, ...next.parameters].some((row) => row.name === tensor);
    if (tensor && !known) app.place.value = { view: "map" };
    const other = manifest.value?.model.sha256 !== next.model.sha256;
    answers = new Map([...answers].filter(([key]) => !other && OF_MODEL.has(key.slice(0, key.indexOf(" ")))));
    manifest.value = next;
    app.notice.value = null;
    if (other || !app.studied.value)
      app.find("heads", {}).then(
        (found) => (app.studied.value = found),
        (error) => (app.studied.value = { study: null, says: sentence(error) }),
      );
  }

  async function fetchTensor(name: string): Promise<Tensor> {
    const row = tensorRow(manifest.value, name);
    if (!row) throw new Error(`This trace has no tensor named ${name}.`);
    if (!row.captured) throw new Error(`${name} was not captured.`);
    const values = await source.tensor(name);
    const size = row.shape.reduce((a, b) => a * b, 1);
    if (values.length !== size) throw new Error(`${name} came with ${values.length} numbers; its shape has ${size}.`);
    return { row, values };
  }

  async function block(row: ParameterRow, number: number): Promise<Float32Array> {
    const key = `${row.name}:${number}`;
    const end = Math.min((number + 1) * BLOCK, row.shape[0] ?? 0);
    const found = blocks.get(key) ?? source.parameter(row.name, number * BLOCK, end);
    blocks.set(key, found);
    found.catch(() => blocks.delete(key));
    return found;
  }

  const app: App = {
    source,
    host,
    manifest,
    place: signal<Place>({ view: "map" }),
    follow: signal<Follow | null>(null),
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
    studied: signal<Studied | null>(null),

    go(change) {
      app.place.value = { ...app.place.value, ...change };
    },

    tensor(name) {
      const known = tensors.get(name);
      if (known) return known;
      const [found, now] = [fetchTensor(name), tensors];
      const come = ready;
      now.set(name, found);
      found.then(
        (tensor) => come.set(name, tensor),
        () => now.delete(name),
      );
      return found;
    },

    peek: (name) => ready.get(name),

    async parameter(name, first, end) {
      const row = manifest.value?.parameters.find((each) => each.name === name);
      if (!row) throw new Error(`This trace has no parameter named ${name}.`);
      if (!row.captured) throw new Error(`The numbers of ${name} are not in this file.`);
      const width = row.shape[1] ?? 1;
      const numbers: number[] = [];
      for (let b = Math.floor(first / BLOCK); b * BLOCK < end; b++) numbers.push(b);
      const parts = await Promise.all(numbers.map((number) => block(row, number)));
      const values = new Float32Array((end - first) * width);
      parts.forEach((part, i) => {
        const start = (numbers[i] as number) * BLOCK;
        const from = Math.max(first, start);
        const to = Math.min(end, start + BLOCK);
        values.set(part.subarray((from - start) * width, (to - start) * width), (from - first) * width);
      });
      return { row, first, values };
    },

    async begin(id, wanted) {
      try {
        show(await source.manifest(id, wanted));
        app.problem.value = null;
        return true;
      } catch (error) {
        app.problem.value = sentence(error);
        return false;
      }
    },

    async ask(verb, args, then) {
      app.problem.value = null;
      const kept = fromFile(manifest.value, verb, args);
      if (kept) return kept;
      if (!source.act) {
        app.problem.value = "A file cannot be asked anything new: open this model with `pellucid serve` for that.";
        return null;
      }
      app.busy.value = BUSY[verb] ?? "Asking";
      try {
        const answer = await source.act(verb, args);
        if (verb === "trace" || verb === "edit")
          batch(() => {
            show(answer as Manifest);
            if (then) app.go(then);
          });
        return answer;
      } catch (error) {
        app.problem.value = sentence(error);
        return null;
      } finally {
        app.busy.value = null;
      }
    },

    find(verb, args) {
      const key = `${verb} ${JSON.stringify(args)}`;
      const known = answers.get(key) as Promise<Acts[typeof verb]["gives"]> | undefined;
      if (known) return known;
      const [found, now] = [look(verb, args), answers];
      now.set(key, found);
      found.catch(() => now.delete(key));
      return found;
    },
  };

  async function look<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): Promise<Acts[V]["gives"]> {
    const kept = fromFile(manifest.value, verb, args);
    if (kept) return kept;
    if (!source.act) throw new Error("Not in this file; ask the server: pellucid serve MODEL");
    return source.act(verb, args);
  }

  return app;
}

const BUSY: Partial<Record<keyof Acts, string>> = {
  account: "Taking the logit apart",
  verdict: "Hiding one word after another",
  trace: "Translating and looking",
  edit: "Running again with the edit",
  identity: "Translating the other sentence",
  analogy: "Adding vectors",
};

/** The row of the manifest that describes a tensor. */
export function tensorRow(manifest: Manifest | null, name: string): TensorRow | undefined {
  return manifest?.tensors.find((row) => row.name === name);
}

/** What went wrong, as one sentence. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
