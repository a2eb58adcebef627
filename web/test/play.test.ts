// Tests of the play: where the playhead goes, what a frame shows of it, and that a sheet fills in order.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { makeUnitScale } from "../src/colour";
import { countFilled, easeWithin, type PlayFrame, Player, paintWritten } from "../src/play";
import { findPlayedCells } from "../src/sheet_painting";

let callbacks: ((time: number) => void)[] = [];
let inView: ((entries: { target: unknown; isIntersecting: boolean }[]) => void)[] = [];

beforeEach(() => {
  callbacks = [];
  inView = [];
  Object.assign(globalThis, {
    requestAnimationFrame: (callback: (time: number) => void) => callbacks.push(callback),
    cancelAnimationFrame: () => (callbacks = []),
    IntersectionObserver: class {
      constructor(report: (entries: { target: unknown; isIntersecting: boolean }[]) => void) {
        inView.push(report);
      }
      observe() {}
      disconnect() {}
      unobserve() {}
    },
  });
});

let time = 1000;

function showFrames(seconds: number): void {
  for (let i = 0; i < seconds * 60; i++) {
    const [callback] = callbacks.splice(0);
    callback?.((time += 1000 / 60));
  }
}

function makePlayer(rows: number) {
  const shown = { row: 0 };
  const player = new Player({ getDim: () => "T", countRows: () => rows, getRow: () => shown.row, showRow: (row) => (shown.row = row) });
  return { player, shown };
}

test("a play goes through all rows in order and pauses at the end, from where it begins again", () => {
  const { player, shown } = makePlayer(3);
  const rows: number[] = [];
  player.toggle();
  for (let i = 0; i < 10; i++) {
    showFrames(1);
    rows.push(shown.row);
  }
  assert.deepEqual(rows, [...rows].sort());
  assert.equal(shown.row, 2);
  assert.equal(player.state.value, "paused");
  assert.deepEqual(player.getFrame(), { dim: "T", row: 2, share: 1 });
  player.toggle();
  assert.equal(player.getPlayhead(), 0);
  assert.equal(shown.row, 0);
});

test("a playhead that is moved stands still there, and a row chosen by key is shown whole", () => {
  const { player, shown } = makePlayer(5);
  player.toggle();
  player.seek(2.25);
  assert.equal(player.state.value, "paused");
  assert.deepEqual(player.getFrame(), { dim: "T", row: 2, share: 0.25 });
  shown.row = 3;
  const frame = player.getFrame() as PlayFrame;
  assert.equal(frame.row, 3);
  assert.ok(frame.share > 0.99);
  player.stop();
  assert.equal(player.getFrame(), null);
});

test("only what is in view is painted", () => {
  const { player } = makePlayer(2);
  const painted: string[] = [];
  const [seen, unseen] = [{} as Element, {} as Element];
  player.addPainter(seen, () => painted.push("seen"));
  player.addPainter(unseen, () => painted.push("unseen"));
  player.toggle();
  inView[0]?.([
    { target: seen, isIntersecting: true },
    { target: unseen, isIntersecting: false },
  ]);
  showFrames(0.5);
  assert.ok(painted.length > 20);
  assert.deepEqual([...new Set(painted)], ["seen"]);
});

test("movements begin at 0 and end at 1, and the cells of a row fill one by one", () => {
  const span = { from: 0.25, to: 0.75 };
  assert.deepEqual([0, 0.25, 0.5, 0.75, 1].map((share) => easeWithin(span, share)), [0, 0, 0.5, 1, 1]);
  const counts = Array.from({ length: 101 }, (_, i) => countFilled(span, i / 100, 7));
  assert.deepEqual([...new Set(counts)], [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(counts, [...counts].sort());
});

test("a sheet shows the rows before whole, its own row as far as it is filled, and writes how the newest cell is computed", () => {
  const sheet = {
    values: new Float32Array(12),
    rows: { dim: "T", size: 3 },
    cols: { dim: "S", size: 4 },
    scale: makeUnitScale(false),
    label: "products",
    play: { fills: { from: 0, to: 1 }, writeSum: (row: number, col: number) => `${row},${col}` },
  };
  assert.deepEqual(findPlayedCells(sheet, { dim: "T", row: 1, share: 0.5 }), { row: 1, filled: 2, isTransposed: false, sum: "1,1", read: null });
  assert.equal(findPlayedCells(sheet, { dim: "T", row: 1, share: 1 })?.sum, "");
  assert.equal(findPlayedCells(sheet, { dim: "S", row: 1, share: 0.5 })?.row, null);
  assert.equal(findPlayedCells(sheet, null), null);
  const transposed = { ...sheet, rows: sheet.cols, cols: sheet.rows, play: { ...sheet.play, isTransposed: true } };
  assert.deepEqual(findPlayedCells(transposed, { dim: "T", row: 1, share: 0.5 }), { row: 1, filled: 2, isTransposed: true, sum: "", read: null });
  const masked = { ...sheet, masked: (_: number, col: number) => col > 0 };
  assert.equal(findPlayedCells(masked, { dim: "T", row: 1, share: 0.5 })?.sum, "masked");
});

test("pieces appear in the order in which they are written", () => {
  const pieces = Array.from({ length: 4 }, () => ({ style: { opacity: "" } }) as unknown as HTMLElement);
  const listOpacities = () => pieces.map((piece) => Number(piece.style.opacity));
  paintWritten(pieces, { dim: "T", row: 2, share: 0.5 });
  assert.deepEqual(listOpacities(), [1, 1, 0, 0]);
  paintWritten(pieces, { dim: "T", row: 2, share: 1 });
  assert.deepEqual(listOpacities(), [1, 1, 1, 0]);
  paintWritten(pieces, null);
  assert.deepEqual(listOpacities(), [1, 1, 1, 1]);
});
