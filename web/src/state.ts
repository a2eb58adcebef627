// The state of one page: the trace it shows, the current place, and the switches of the reader. One object per mount.
import { batch, signal } from "@preact/signals";
import { describeError, type Spot } from "./format";
import { listPieces } from "./network";
import { makeStage } from "./navigation";
import { Player } from "./play";
import { findFileAnswer, TraceCache } from "./trace_cache";
import type { Acts, Drawing, Examples, HeadStudyAnswer, Manifest, TraceSource } from "./types";

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
  | "training"
  | "debug"
  | "export";

/** The current place; a permalink is made of it. */
export interface Place {
  view: View;
  section?: string; // "decoder.3.cross"
  tensor?: string;
  head?: number;
  row?: number; // the query looked at, where queries are source pieces; those of the decoder are its steps
  col?: number; // the key looked at
  index?: number[]; // of the cell opened, one number for each dimension of `tensor`
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

export interface Baseline {
  manifest: Manifest;
  /** Weights and masks of all captured attentions, by name of the tensor. */
  tensors: Map<string, Float32Array>;
}

const STUDY_PAUSE = 5000; // milliseconds until a server is asked again whether it has studied its model

/** Draws by the probabilities as they are. */
export const PLAIN_DRAWING: Drawing = { temperature: 1, top_k: 0, top_p: 1, seed: 1 };

/** One page over a source of traces: signals that its components read, and functions that fetch numbers. */
export class App {
  readonly manifest = signal<Manifest | null>(null);
  readonly place = signal<Place>({ view: "map" });
  readonly followed = signal<FollowedPiece | null>(null); // the pinned piece, outlined everywhere
  readonly step = signal(0); // the row of T looked at
  readonly story = signal<number | null>(null); // stop 1 to 14
  readonly mode = signal<Mode>("learn");
  readonly theme = signal<Theme>("auto");
  readonly numbers = signal(false); // N: numbers in the cells
  readonly table = signal(false); // T: a table instead of a canvas
  readonly code = signal(true); // M: formula and code
  readonly hidden = signal(false); // teach mode: values wait for the space bar
  readonly busy = signal<string | null>(null);
  readonly problem = signal<string | null>(null);
  readonly notice = signal<string | null>(null); // how the shown trace differs from what a link named, until another comes
  readonly baseline = signal<Baseline | null>(null); // a trace that is kept, to compare another with it
  readonly subjects = signal<readonly string[]>([]); // what the story speaks of, the most important first
  readonly spoken = signal<Spot | null>(null); // the number of its text that is looked for in the picture
  readonly examples = signal<Examples | null>(null); // of a server, before anything is typed
  readonly drawing = signal(PLAIN_DRAWING); // as it is tried in Output
  trail: readonly Place[] = []; // the places on the way in, so that Esc finds the way out
  readonly headStudy = signal<HeadStudyAnswer | null>(null); // of the model's heads on other sentences; null until it has come
  readonly stage = makeStage(this); // what is played
  readonly player = new Player(this.stage);
  private cache: TraceCache;

  constructor(
    readonly source: TraceSource,
    readonly host: Host,
  ) {
    this.cache = new TraceCache(source, null);
  }

  /** Shows the source's trace (the one with this id where it has several) if it is `wanted`; resolves to whether it did. */
  async showTrace(id?: string | null, wanted?: (manifest: Manifest) => boolean): Promise<boolean> {
    try {
      this.showManifest(await this.source.fetchManifest(id, wanted));
      this.problem.value = null;
      return true;
    } catch (error) {
      this.problem.value = describeError(error);
      return false;
    }
  }

  private showManifest(given: Manifest): void {
    const { S } = given.axes;
    const next = given.source.context && S ? { ...given, axes: { ...given.axes, S: { ...S, labels: listPieces(given.source) } } } : given;
    this.step.value = Math.min(this.step.value, Math.max(0, next.steps.length - 1));
    const follow = this.followed.value;
    if (follow && follow.index >= (next.axes[follow.dim]?.size ?? 0)) this.followed.value = null;
    const { tensor } = this.place.value;
    const isKnown = [...next.tensors, ...next.parameters].some((row) => row.name === tensor);
    if (tensor && !isKnown) this.place.value = { view: "map" };
    const isOtherModel = this.manifest.value?.model.sha256 !== next.model.sha256;
    this.cache = this.cache.makeNext(next);
    this.player.stop();
    this.manifest.value = next;
    this.notice.value = null;
    if (isOtherModel || !this.headStudy.value) void this.loadHeadStudy(next.model.sha256);
  }

  /** Loads what is known of the model's heads; while a server still studies them, asks again from time to time. */
  private async loadHeadStudy(model: string): Promise<void> {
    const answer = await this.fetchAnswer("heads", {}).catch((error): HeadStudyAnswer => ({ study: null, says: describeError(error) }));
    if (this.manifest.value?.model.sha256 !== model) return;
    this.headStudy.value = answer;
    if (!answer.pending) return;
    this.cache.forgetAnswer("heads", {});
    setTimeout(() => this.manifest.value?.model.sha256 === model && void this.loadHeadStudy(model), STUDY_PAUSE);
  }

  /** Translates the first of the server's examples, so that the page is never empty; stays empty where there is none. */
  async openExample(): Promise<void> {
    const examples = await this.loadExamples();
    const first = examples?.sentences[0];
    // What a link could not show is said, and not covered by another sentence.
    if (first === undefined || this.manifest.value || this.busy.value || this.problem.value || this.notice.value) return;
    await this.askSource("trace", { sentence: first });
  }

  /** Loads sentences to try; a page without them works as well. */
  async loadExamples(): Promise<Examples | null> {
    const examples = (await this.source.fetchExamples?.().catch(() => null)) ?? null;
    this.examples.value = examples;
    if (examples?.pending) setTimeout(() => void this.loadExamples(), STUDY_PAUSE);
    return examples;
  }

  /** Moves to a place that differs from the current one by `change`, and adds it to the history. */
  goTo(change: Partial<Place>): void {
    this.place.value = { ...this.place.value, ...change };
  }

  /** Points at a row or a column of the current place, which is no new place: nothing is added to the history. */
  pointAt(change: Pick<Partial<Place>, "row" | "col">): void {
    const { row, col } = { ...this.place.value, ...change };
    if (row !== this.place.value.row || col !== this.place.value.col) this.place.value = { ...this.place.value, row, col };
  }

  /** Asks the source; null where it could not answer, with the reason in `problem`. A new trace is shown at once, at `then`. */
  async askSource<V extends keyof Acts>(verb: V, args: Acts[V]["args"], then?: Partial<Place>): Promise<Acts[V]["gives"] | null> {
    this.problem.value = null;
    const saved = findFileAnswer(this.manifest.value, verb, args);
    if (saved) return saved;
    if (!this.source.act) {
      this.problem.value = "A saved file cannot compute anything new; to do that, open the model with `pellucid serve`.";
      return null;
    }
    this.busy.value = BUSY_TEXTS[verb] ?? "Asking";
    try {
      const answer = await this.source.act(verb, args);
      if (verb === "trace" || verb === "edit")
        batch(() => {
          this.showManifest(answer as Manifest);
          if (then) this.goTo(then);
        });
      return answer;
    } catch (error) {
      this.problem.value = describeError(error);
      return null;
    } finally {
      this.busy.value = null;
    }
  }

  // Numbers and answers for pictures come from the cache of the trace shown, and leave `busy` and `problem` alone.
  readonly loadTensor = (name: string) => this.cache.loadTensor(name);
  readonly peekTensor = (name: string) => this.cache.peekTensor(name);
  readonly loadParameter = (name: string, first: number, end: number) => this.cache.loadParameter(name, first, end);
  readonly fetchAnswer = <V extends keyof Acts>(verb: V, args: Acts[V]["args"]) => this.cache.fetchAnswer(verb, args);
}

const BUSY_TEXTS: Partial<Record<keyof Acts, string>> = {
  account: "Computing the parts of the logit",
  verdict: "Hiding one word at a time",
  trace: "Translating",
  edit: "Running again with the edit",
  identity: "Translating the other sentence",
  analogy: "Adding vectors",
};
