// Numbers and answers about the trace that is shown, each fetched once.
import { findTensorRow } from "./network";
import type { Acts, LogitAccount, Manifest, ParameterRow, TensorRow, TraceSource } from "./types";

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

type Answer<V extends keyof Acts> = Promise<Acts[V]["gives"]>;

const BLOCK_ROWS = 64; // rows of a parameter fetched together

/** What has been fetched of one trace. Each trace has a cache of its own, so numbers that come late never reach the next. */
export class TraceCache {
  private readonly requests = new Map<string, Promise<Tensor>>();
  private readonly tensors = new Map<string, Tensor>();
  private readonly blocks = new Map<string, Promise<Float32Array>>();

  constructor(
    private readonly source: TraceSource,
    private readonly manifest: Manifest | null,
    private readonly answers = new Map<string, Promise<unknown>>(),
  ) {}

  /** Makes the cache of the next trace, with the answers about the model if it is by the same one. */
  makeNext(next: Manifest): TraceCache {
    const isSameModel = this.manifest?.model.sha256 === next.model.sha256;
    const kept = [...this.answers].filter(([key]) => isSameModel && OF_MODEL.has(key.slice(0, key.indexOf(" "))));
    return new TraceCache(this.source, next, new Map(kept));
  }

  /** Loads all numbers of a captured tensor; rejects with one sentence where it was not captured. */
  loadTensor(name: string): Promise<Tensor> {
    const started = this.requests.get(name);
    if (started) return started;
    const request = this.fetchTensor(name);
    this.requests.set(name, request);
    request.then(
      (tensor) => this.tensors.set(name, tensor),
      () => this.requests.delete(name),
    );
    return request;
  }

  private async fetchTensor(name: string): Promise<Tensor> {
    const row = findTensorRow(this.manifest, name);
    if (!row) throw new Error(`This trace has no tensor named ${name}.`);
    if (!row.captured) throw new Error(`${name} was not captured.`);
    const values = await this.source.fetchTensor(name);
    const count = row.shape.reduce((product, size) => product * size, 1);
    if (values.length !== count) throw new Error(`${name} came with ${values.length} numbers; its shape has ${count}.`);
    return { row, values };
  }

  /** Gives a tensor that has already been loaded. */
  peekTensor(name: string): Tensor | undefined {
    const loaded = this.tensors.get(name);
    if (loaded || !this.manifest) return loaded;
    const values = this.source.peekTensor?.(this.manifest.id, name);
    const row = values && findTensorRow(this.manifest, name);
    return row && { row, values };
  }

  /** Loads rows `first`, included, to `end`, excluded, of a parameter; of a vector, its numbers. */
  async loadParameter(name: string, first: number, end: number): Promise<Parameter> {
    const row = this.manifest?.parameters.find((parameter) => parameter.name === name);
    if (!row) throw new Error(`This trace has no parameter named ${name}.`);
    if (!row.captured) throw new Error(`The numbers of ${name} are not in this file.`);
    const width = row.shape[1] ?? 1;
    const numbers: number[] = [];
    for (let block = Math.floor(first / BLOCK_ROWS); block * BLOCK_ROWS < end; block++) numbers.push(block);
    const parts = await Promise.all(numbers.map((number) => this.fetchBlock(row, number)));
    const values = new Float32Array((end - first) * width);
    parts.forEach((part, i) => {
      const start = (numbers[i] as number) * BLOCK_ROWS;
      const from = Math.max(first, start);
      const to = Math.min(end, start + BLOCK_ROWS);
      values.set(part.subarray((from - start) * width, (to - start) * width), (from - first) * width);
    });
    return { row, first, values };
  }

  private fetchBlock(row: ParameterRow, number: number): Promise<Float32Array> {
    const key = `${row.name}:${number}`;
    const end = Math.min((number + 1) * BLOCK_ROWS, row.shape[0] ?? 0);
    const rows = this.blocks.get(key) ?? this.source.fetchParameter(row.name, number * BLOCK_ROWS, end);
    this.blocks.set(key, rows);
    rows.catch(() => this.blocks.delete(key));
    return rows;
  }

  /** Asks the source for what a picture needs: only once; rejects with a sentence. */
  fetchAnswer<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): Answer<V> {
    const key = `${verb} ${JSON.stringify(args)}`;
    const started = this.answers.get(key) as Answer<V> | undefined;
    if (started) return started;
    const request = this.requestAnswer(verb, args);
    this.answers.set(key, request);
    request.catch(() => this.answers.delete(key));
    return request;
  }

  /** Forgets an answer that will change. */
  forgetAnswer<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): void {
    this.answers.delete(`${verb} ${JSON.stringify(args)}`);
  }

  private async requestAnswer<V extends keyof Acts>(verb: V, args: Acts[V]["args"]): Answer<V> {
    const saved = findFileAnswer(this.manifest, verb, args);
    if (saved) return saved;
    if (!this.source.act) throw new Error("Not in this file; to compute it, run: pellucid serve MODEL");
    return this.source.act(verb, args);
  }
}

/** Questions about the model, not about the sentence; their answers outlive a trace. */
export const OF_MODEL: ReadonlySet<string> = new Set(["words", "neighbours", "similar", "analogy", "heads"]);

type FileAnswers = { [V in keyof Acts]?: (manifest: Manifest, args: Acts[V]["args"]) => Acts[V]["gives"] | null | undefined };

const ANSWERS: FileAnswers = {
  verdict: (manifest, { reference }) => (reference ? null : manifest.verdict),
  account(manifest, { step, piece, other }) {
    const accounts: (LogitAccount | null)[] = [...(manifest.accounts?.chosen ?? []), ...(manifest.accounts?.against ?? [])];
    return accounts.find((account) => account && account.step === step && account.id === piece && account.other?.id === other);
  },
  words: (manifest, { side }) => manifest.words?.find((map) => map.side === side),
  neighbours(manifest, { side, piece }) {
    const neighbours = manifest.words?.find((map) => map.side === side)?.near?.[piece];
    return neighbours && { near: neighbours };
  },
  similar(manifest, { side, words }) {
    const similarities = manifest.words?.find((map) => map.side === side)?.similar;
    return similarities && words.every((word) => similarities.words.includes(word) || similarities.unknown.includes(word)) ? similarities : null;
  },
  masking: (manifest) => manifest.masking,
  heads: (manifest) => manifest.heads,
};

/** Finds the answer in the manifest of a file, if it is there. */
export function findFileAnswer<V extends keyof Acts>(manifest: Manifest | null, verb: V, args: Acts[V]["args"]): Acts[V]["gives"] | null {
  return (manifest && ANSWERS[verb]?.(manifest, args)) ?? null;
}
