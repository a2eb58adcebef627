// Play: a translation written piece by piece. All that moves is a function of one playhead, so that it can be paused and moved.
import { signal } from "@preact/signals";

/** The row that is being computed: a step of decoding (T) or, inside the encoder, a source position (S). */
export interface PlayFrame {
  dim: "S" | "T";
  row: number;
  share: number; // of the row, 0 to 1
}

/** The part of a row's time in which something happens; both are shares of it. */
export interface PlaySpan {
  from: number;
  to: number;
}

export const READING: PlaySpan = { from: 0, to: 0.3 }; // the frame moves on, and what is read lights up
export const GROWING: PlaySpan = { from: 0.55, to: 0.82 }; // probabilities
export const WRITING: PlaySpan = { from: 0.8, to: 0.92 }; // the chosen piece appears

const ROW_SECONDS = 2.4;
const STILL_SECONDS = 2; // for which a row stands without motion

/** Computes how far a movement has come at a share of the row: 0 before its span, 1 after it, smooth at both ends. */
export function easeWithin(span: PlaySpan, share: number): number {
  const passed = passWithin(span, share);
  return passed * passed * (3 - 2 * passed);
}

/** Counts the cells of a row that are filled, one after another, at a share of the row. */
export function countFilled(span: PlaySpan, share: number, cells: number): number {
  return Math.floor(passWithin(span, share) * cells + 1e-9);
}

function passWithin({ from, to }: PlaySpan, share: number): number {
  return Math.min(1, Math.max(0, (share - from) / (to - from)));
}

/** What a player plays: the rows of the picture that is shown. */
export interface Stage {
  getDim(): "S" | "T";
  countRows(): number;
  getRow(): number;
  showRow(row: number): void;
}

/** Draws what belongs to a frame; without one, everything as it is when nothing is played. */
export type Paint = (frame: PlayFrame | null) => void;
type PlayState = "off" | "playing" | "paused";

/** Moves the playhead and calls the painters of elements that are in view, once for each frame of the screen. */
export class Player {
  readonly state = signal<PlayState>("off");
  private playhead = 0; // rows that are done, and the share of the next
  private row = 0;
  private lastTime = 0;
  private request = 0;
  private readonly painters = new Map<Element, Paint>();
  private readonly visible = new Set<Element>();
  private observer: IntersectionObserver | null = null;

  constructor(private readonly stage: Stage) {}

  /** Plays on from the row that is shown, or from the first where the last is done; pauses where it plays. */
  toggle(): void {
    if (this.state.value === "playing") return this.pause();
    const rows = this.stage.countRows();
    if (rows === 0) return;
    this.observe();
    if (this.state.value === "off") this.playhead = this.stage.getRow() < rows - 1 ? this.stage.getRow() : 0;
    this.followRow();
    if (this.playhead >= rows) this.playhead = 0;
    this.state.value = "playing";
    this.lastTime = 0;
    this.move(this.playhead);
    this.paint();
    this.request = requestAnimationFrame(this.tick);
  }

  pause(): void {
    cancelAnimationFrame(this.request);
    this.state.value = "paused";
    this.paint();
  }

  /** Ends the play: everything is shown as it is without. */
  stop(): void {
    if (this.state.value === "off") return;
    cancelAnimationFrame(this.request);
    this.state.value = "off";
    this.observer?.disconnect();
    this.observer = null;
    this.visible.clear();
    for (const paint of this.painters.values()) paint(null);
  }

  /** Moves the playhead to a place, in rows: 2.5 is the middle of the third. */
  seek(playhead: number): void {
    if (this.state.value !== "paused") this.pause();
    this.move(playhead);
  }

  /** Gives the playhead in rows. */
  getPlayhead(): number {
    this.followRow();
    return this.playhead;
  }

  /** Gives what is shown now; null where nothing is played. */
  getFrame(): PlayFrame | null {
    if (this.state.value === "off") return null;
    this.followRow();
    const isStill = this.state.value === "playing" && !hasMotion();
    return { dim: this.stage.getDim(), row: this.row, share: isStill ? 1 : Math.min(1, this.playhead - this.row) };
  }

  /** Calls a function with each frame while its element is in view; gives back how to stop. */
  addPainter(element: Element, paint: Paint): () => void {
    this.painters.set(element, paint);
    this.observer?.observe(element);
    return () => {
      this.painters.delete(element);
      this.visible.delete(element);
      this.observer?.unobserve(element);
    };
  }

  /** Learns from now on which elements are in view, which costs nothing where nothing is ever played. */
  private observe(): void {
    if (this.observer) return;
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.visible.add(target);
        else this.visible.delete(target);
        if (isIntersecting) this.painters.get(target)?.(this.getFrame());
      }
    });
    for (const element of this.painters.keys()) this.observer.observe(element);
  }

  private readonly tick = (time: number) => {
    const seconds = this.lastTime ? Math.min(0.1, (time - this.lastTime) / 1000) : 0; // a hidden tab gets no frames
    this.lastTime = time;
    this.followRow();
    const end = this.stage.countRows();
    this.move(Math.min(end, this.playhead + seconds / (hasMotion() ? ROW_SECONDS : STILL_SECONDS)));
    if (this.playhead < end) this.request = requestAnimationFrame(this.tick);
    else this.pause();
  };

  private move(playhead: number): void {
    const last = this.stage.countRows() - 1;
    this.playhead = Math.min(last + 1, Math.max(0, playhead));
    const row = Math.min(last, Math.floor(this.playhead));
    const isNew = row !== this.row;
    this.row = row;
    if (row !== this.stage.getRow()) this.stage.showRow(row);
    if (isNew || hasMotion() || this.state.value === "paused") this.paint();
  }

  /** Follows the reader to a row that was chosen by key or by hand: a row that stands still is shown whole. */
  private followRow(): void {
    const row = this.stage.getRow();
    if (row === this.row || row >= this.stage.countRows()) return;
    this.row = row;
    this.playhead = this.state.value === "paused" ? row + 0.999 : row;
  }

  private paint(): void {
    const frame = this.getFrame();
    for (const element of this.visible) this.painters.get(element)?.(frame);
  }
}

const motionQuery = typeof matchMedia === "function" ? matchMedia("(prefers-reduced-motion: reduce)") : null;

function hasMotion(): boolean {
  return !motionQuery?.matches;
}

/** Shows the elements of the pieces that have been written, and the newest as far as it has appeared. */
export function paintWritten(elements: Element[], frame: PlayFrame | null): void {
  elements.forEach((element, step) => {
    const shown = !frame || frame.dim !== "T" || step < frame.row ? 1 : step > frame.row ? 0 : easeWithin(WRITING, frame.share);
    setStyle(element, "opacity", String(shown));
  });
}

/** Sets a style unless the element has it: what does not change need not be drawn again. */
export function setStyle(element: Element, name: "opacity" | "top" | "transform", value: string): void {
  const { style } = element as HTMLElement;
  if (style[name] !== value) style[name] = value;
}
