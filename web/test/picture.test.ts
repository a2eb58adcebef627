// Laws of pictures: which number stands in which cell, which cells are masked, and how a cell is described.
import assert from "node:assert/strict";
import { test } from "node:test";
import { formatExact, formatShort } from "../src/format";
import { describeCell, findMask, makePicture } from "../src/picture";
import { findCell, findHeader, layOutSheet, type SheetView } from "../src/sheet_painting";
import { countCells, makeManifest, TENSORS } from "./small_trace";

const findTensor = (name: string) => {
  const row = TENSORS.find((row) => row.name === name);
  assert.ok(row);
  return row;
};

test("a head of a pattern shows queries as rows and keys as columns, each cell its own number", () => {
  const pattern = findTensor("decoder.0.cross.pattern");
  const picture = makePicture(makeManifest(), pattern, countCells(pattern.shape), null, { H: 1 });
  assert.deepEqual([picture.rows.dim, picture.cols.dim], ["T", "S"]);
  assert.equal(picture.rows.labels?.[3], "▁es");
  assert.equal(picture.cols.labels?.[2], "▁is");
  assert.deepEqual(picture.fixedNames, ["head 1"]);
  for (let t = 0; t < 7; t++)
    for (let s = 0; s < 5; s++) {
      assert.equal(picture.values[t * 5 + s], 100 + 10 * t + s);
      assert.deepEqual(picture.index(t, s), [1, t, s]);
    }
});

test("turned on its side, rows and columns change places and nothing else", () => {
  const pattern = findTensor("decoder.0.cross.pattern");
  const picture = makePicture(makeManifest(), pattern, countCells(pattern.shape), null, { H: 1 }, true);
  assert.deepEqual([picture.rows.dim, picture.cols.dim], ["S", "T"]);
  assert.equal(picture.values[2 * 7 + 6], 162);
  assert.deepEqual(picture.index(2, 6), [1, 6, 2]);
});

test("where two dimensions have one letter, the first is the one that is taken", () => {
  const pattern = findTensor("decoder.0.self.pattern");
  const picture = makePicture(makeManifest(), pattern, countCells(pattern.shape), null, { H: 1, T: 4 });
  assert.deepEqual([picture.rows.size, picture.cols.dim], [1, "T"]);
  assert.deepEqual([...picture.values], [140, 141, 142, 143, 144, 145, 146]);
});

test("what is not fixed and not drawn stands at 0 and is said", () => {
  const pattern = findTensor("decoder.0.cross.pattern");
  const picture = makePicture(makeManifest(), pattern, countCells(pattern.shape), null);
  assert.deepEqual(picture.fixedNames, ["head 0"]);
  assert.equal(picture.values[11], 21);
});

test("dimensions of size one are no dimensions", () => {
  const allowed = findTensor("decoder.0.cross.allowed");
  const picture = makePicture(makeManifest(), allowed, countCells(allowed.shape), null);
  assert.deepEqual([picture.rows.size, picture.cols.size, picture.fixedNames.length], [1, 5, 0]);
});

test("a mask is found for patterns, scores and products, and reaches every head and query", () => {
  for (const part of ["products", "scores", "pattern"])
    assert.equal(findMask(makeManifest(), `decoder.0.cross.${part}`)?.name, "decoder.0.cross.allowed");
  assert.equal(findMask(makeManifest(), "decoder.0.ffn.inner"), undefined);
  const pattern = findTensor("decoder.0.self.pattern");
  const allowed = { row: findTensor("decoder.0.self.allowed"), values: Float32Array.from({ length: 49 }, (_, i) => (i % 7 <= Math.floor(i / 7) ? 1 : 0)) };
  for (const head of [0, 1]) {
    const { masked } = makePicture(makeManifest(), pattern, countCells(pattern.shape), allowed, { H: head });
    for (let q = 0; q < 7; q++) for (let k = 0; k < 7; k++) assert.equal(masked?.(q, k), k > q);
  }
  const cross = findTensor("decoder.0.cross.pattern");
  const padded = { row: findTensor("decoder.0.cross.allowed"), values: Float32Array.from([1, 1, 1, 0, 0]) };
  const { masked } = makePicture(makeManifest(), cross, countCells(cross.shape), padded, { H: 1 });
  for (let q = 0; q < 7; q++) for (let k = 0; k < 5; k++) assert.equal(masked?.(q, k), k > 2);
});

test("a cell is said with its words, its value, its place in the row and what is masked", () => {
  const cells = { rows: { dim: "T", size: 1, labels: ["es"] }, cols: { dim: "S", size: 4, labels: ["The", "ball", "is", "."] } };
  const values = [0.1, 0.07, 0.83, 0];
  assert.equal(describeCell({ ...cells, values: Float32Array.from(values) }, 0, 2), "row es, column is, value 0.83, largest of 4, masked none");
  const masked = (_: number, col: number) => col === 3;
  assert.equal(describeCell({ ...cells, values: Float32Array.from(values), masked }, 0, 1), "row es, column ball, value 0.07, 3rd largest of 3, masked 1");
  assert.equal(describeCell({ ...cells, values, masked }, 0, 3), "row es, column ., masked");
});

test("the text of a number is the shortest that is this very float32", () => {
  let seed = 12345;
  const bits = new DataView(new ArrayBuffer(4));
  for (let i = 0; i < 20000; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; // Numerical Recipes' generator: the same numbers in every run
    bits.setUint32(0, seed);
    const value = bits.getFloat32(0);
    if (!Number.isFinite(value)) continue;
    const text = formatExact(value).replace(/−/g, "-");
    assert.equal(Math.fround(Number(text)), value);
    const digits = text.replace(/e.*/, "").replace(/[-.]/g, "").replace(/^0+/, "").replace(/0+$/, "").length;
    if (digits > 1) assert.notEqual(Math.fround(Number(value.toPrecision(digits - 1))), value);
  }
  assert.equal(formatExact(0.1), "0.1");
  assert.equal(formatExact(12345.678), "12345.678");
  assert.equal(formatExact(-2.5), "−2.5");
  assert.equal(formatExact(Number.NaN), "NaN");
});

test("a short number keeps its size and its sign", () => {
  assert.deepEqual([0, 0.126, -3.14159, 1234.5, 0.000021, 1e7].map((value) => formatShort(value)), ["0.00", "0.13", "−3.14", "1234.5", "2.1e−5", "1.0e7"]);
});

test("a point in the picture is the cell drawn there, also when scrolled", () => {
  const pattern = findTensor("decoder.0.cross.pattern");
  const cells = makePicture(makeManifest(), pattern, countCells(pattern.shape), null, { H: 1 });
  const layout = layOutSheet(cells, 900, 12, (text) => text.length * 7, { numbers: false });
  for (const [scrollLeft, scrollTop] of [[0, 0], [13, 29]] as [number, number][]) {
    const view: SheetView = { layout, scrollLeft, scrollTop, viewWidth: 900, viewHeight: 500, ratio: 2 };
    for (let r = 2; r < 7; r++)
      for (let c = 1; c < 5; c++) {
        const [x, y] = [layout.left + (c + 0.5) * layout.width - scrollLeft, layout.top + (r + 0.5) * layout.height - scrollTop];
        assert.deepEqual(findCell(cells, view, x, y), [r, c]);
        assert.equal(findHeader(cells, view, x, y), null);
        assert.deepEqual(findHeader(cells, view, 3, y), { axis: cells.rows, at: r });
      }
    assert.equal(findCell(cells, view, layout.left + 5 * layout.width + 1, layout.top + 5), null);
  }
});

test("cells are as large as the room allows, can be pointed at, and hold numbers when asked to", () => {
  const cells = { rows: { dim: "T", size: 7 }, cols: { dim: "S", size: 60, labels: Array(60).fill("word") as string[] }, values: [] };
  const measure = (text: string) => text.length * 7;
  const plain = layOutSheet(cells, 700, 12, measure, { numbers: false });
  assert.ok(plain.width >= 18);
  assert.ok(layOutSheet(cells, 700, 12, measure, { numbers: true }).width >= 34);
  assert.equal(layOutSheet(cells, 700, 12, measure, { numbers: false, cell: 9 }).width, 9);
  const wide = { rows: { dim: "T", size: 7 }, cols: { dim: "D", size: 512 }, values: [] };
  assert.ok(layOutSheet(wide, 300, 12, measure, { numbers: false }).width >= 2);
  const tall = { rows: { dim: "E", size: 64 }, cols: { dim: "S", size: 5, labels: ["a", "b", "c", "d", "e"] }, values: [] };
  const fitted = layOutSheet(tall, 700, 12, measure, { numbers: false, maxHeight: 300 });
  assert.ok(fitted.top + 64 * fitted.height <= 300 && fitted.height >= 2);
});
