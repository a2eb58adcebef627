// Laws of pictures: which number stands in which cell, its colour, which cells are masked, and what a saved drawing holds.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  chooseInk,
  type Colour,
  getColourTable,
  getInks,
  makeSymmetricScale,
  makeTensorScale,
  makeUnitScale,
  measureContrast,
  readValue,
  type Scale,
  toCssColour,
  toRgb,
} from "../src/colour";
import { escapeXml, makeDrawing, type Panel, VECTOR_CELLS, writeSvg } from "../src/drawing";
import { formatExact, formatShort } from "../src/format";
import { describeCell, findMask, makeMergedPicture, makePicture } from "../src/picture";
import { fitWhole } from "../src/sheet";
import { findCell, findHeader, layOutProduct, layOutSheet, type SheetView } from "../src/sheet_painting";
import { countCells, makeManifest, makeRow, TENSORS } from "./small_trace";

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

test("in a product, rows of the left factor and columns of the right one go on in the product", () => {
  const [rows, cols, inner] = [{ dim: "T", size: 3, labels: ["a", "b", "c"] }, { dim: "S", size: 5, labels: Array(5).fill("word") as string[] }, { dim: "E", size: 32 }];
  const measure = (text: string) => text.length * 7;
  for (const axes of [{ rows, cols, inner }, { rows, cols: inner, inner: cols }])
    for (const [room, numbers] of [[1200, false], [340, false], [1200, true]] as [number, boolean][]) {
      const { left, above, result } = layOutProduct(axes, room, 12, measure, numbers);
      assert.deepEqual([left.height, above.width], [result.height, result.width]);
      assert.deepEqual([result.left, result.top], [0, 0]);
      const width = left.left + axes.inner.size * left.width + above.left + axes.cols.size * above.width + above.right;
      if (!numbers) assert.ok(width <= Math.max(room, 400), `${width}`);
      if (numbers) assert.ok(Math.min(left.width, above.width) >= 34);
    }
});

test("a product with trained weights has no words above it, and fits into any room", () => {
  const [rows, cols, inner] = [{ dim: "T", size: 3, labels: ["a", "b", "c"] }, { dim: "E", size: 32 }, { dim: "D", size: 512 }];
  for (const room of [1200, 700, 330]) {
    const { left, above, result } = layOutProduct({ rows, cols, inner }, room, 12, (text) => text.length * 7, false);
    assert.deepEqual([left.height, above.width], [result.height, result.width]);
    const width = left.left + inner.size * left.width + above.left + cols.size * above.width;
    assert.ok(width <= room, `${width} of ${room}`);
    assert.ok(inner.size * above.height <= 200);
  }
});

test("the heads of a tensor stand side by side, and a cell is found by its index in either picture", () => {
  const row = makeRow("z", ["H", "T", "E"], { kind: "mix", inputs: ["a", "b"] });
  const values = countCells(row.shape);
  const merged = makeMergedPicture(makeManifest(), row, values);
  assert.deepEqual([merged.rows.size, merged.cols.size, merged.cols.group?.size], [7, 6, 3]);
  assert.equal(merged.values[2 * 6 + 4], 121); // head 1, position 2, number 1
  assert.deepEqual(merged.index(2, 4), [1, 2, 1]);
  assert.deepEqual(merged.locate([1, 2, 1]), { row: 2, col: 4 });
  assert.deepEqual(merged.locate([1, 2]), { row: 2, col: undefined });
  const picture = makePicture(makeManifest(), row, values, null, { H: 1 });
  assert.deepEqual(picture.locate([1, 2, 0]), { row: 2, col: 0 });
  assert.equal(picture.locate([0, 2, 0]), null); // another head
  const transposed = makePicture(makeManifest(), row, values, null, { H: 1 }, true);
  assert.deepEqual(transposed.locate([1, 2]), { row: undefined, col: 2 });
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

const SCALES: Scale[] = [makeUnitScale(false), makeUnitScale(true), makeSymmetricScale(3.7, false), makeSymmetricScale(3.7, true)];
const describeScale = (scale: Scale) => `${scale.kind}, ${scale.dark ? "dark" : "light"}`;

/** Measures the CIE 1976 lightness of an sRGB colour, 0 to 100, independently of the page's code. */
function measureLightness(colour: Colour): number {
  const [r, g, b] = colour.map((part) => {
    const share = part / 255;
    return share > 0.04045 ? Math.pow((share + 0.055) / 1.055, 2.4) : share / 12.92;
  }) as [number, number, number];
  const y = 0.2126729 * r + 0.7151522 * g + 0.072175 * b;
  return y > 216 / 24389 ? 116 * Math.cbrt(y) - 16 : (24389 / 27) * y;
}

/** A colour as seen without one kind of cone (Viénot, Brettel and Mollon 1999), in linear light. */
const SEEN_WITHOUT = {
  red: [0.11238, 0.88762, 0, 0.11238, 0.88762, 0, 0.00401, -0.00401, 1],
  green: [0.29275, 0.70725, 0, 0.29275, 0.70725, 0, -0.02234, 0.02234, 1],
};

test("lightness runs one way along every table", () => {
  for (const scale of SCALES) {
    const values = getColourTable(scale).map(measureLightness);
    const steps = values.slice(1).map((value, i) => value - (values[i] as number));
    const halves = scale.kind === "symmetric" ? [steps.slice(0, 127), steps.slice(127)] : [steps];
    for (const half of halves) {
      const way = Math.sign(half[0] as number);
      assert.ok(half.every((step) => Math.sign(step) === way), describeScale(scale));
    }
  }
});

test("dark paper has light for much, light paper dark", () => {
  for (const scale of SCALES) {
    const table = getColourTable(scale).map(measureLightness);
    const [none, most] = [table[scale.kind === "symmetric" ? 127 : 0] as number, table.at(-1) as number];
    assert.equal(most > none, scale.dark, describeScale(scale));
    assert.ok(Math.abs(most - none) > 60, describeScale(scale));
  }
});

test("values can be read back from colours within 1/255 of the range", () => {
  for (const scale of SCALES) {
    const range = scale.largest - scale.least;
    for (let i = 0; i <= 1000; i++) {
      const value = scale.least + (i / 1000) * range;
      assert.ok(Math.abs(readValue(toRgb(value, scale), scale) - value) <= range / 255, `${describeScale(scale)} ${value}`);
    }
    assert.equal(new Set(getColourTable(scale).map(String)).size, getColourTable(scale).length, describeScale(scale));
  }
});

test("what stands beyond the scale has the colour of its end, and what is no number has none of its colours", () => {
  const scale = makeSymmetricScale(2, false);
  assert.deepEqual(toRgb(99, scale), toRgb(2, scale));
  assert.deepEqual(toRgb(-99, scale), toRgb(-2, scale));
  for (const scale of SCALES) {
    assert.ok(Number.isNaN(readValue(toRgb(Number.NaN, scale), scale)), describeScale(scale));
    assert.ok(Number.isNaN(readValue(toRgb(Number.POSITIVE_INFINITY, scale), scale)), describeScale(scale));
  }
  assert.equal(toCssColour(Number.NaN, scale), "rgb(230,0,200)");
});

test("zero stands in the middle of a symmetric table and signs have different hues for every kind of eye", () => {
  for (const dark of [false, true]) {
    const scale = makeSymmetricScale(5, dark);
    assert.deepEqual(toRgb(0, scale), getColourTable(scale)[127]);
    for (const matrix of [[1, 0, 0, 0, 1, 0, 0, 0, 1], SEEN_WITHOUT.red, SEEN_WITHOUT.green])
      for (const value of [2, 5]) {
        const warmth = (colour: Colour) => {
          const light = colour.map((part) => (part / 255) ** 2.2);
          const [r, g, b] = [0, 3, 6].map((i) => [0, 1, 2].reduce((sum, j) => sum + (matrix[i + j] as number) * (light[j] as number), 0)) as [number, number, number];
          return (r + g) / 2 - b;
        };
        assert.ok(warmth(toRgb(value, scale)) - warmth(toRgb(-value, scale)) > 0.25, `${value} ${dark}`);
      }
  }
});

test("patterns and flags go from 0 to 1, everything else as far out as its largest number", () => {
  const pattern = makeRow("p", ["T", "S"], { kind: "softmax", inputs: ["a", "b"] });
  assert.deepEqual(makeTensorScale(pattern, false), makeUnitScale(false));
  const scores = makeRow("s", ["T", "S"], { kind: "same", inputs: ["a"] }, { least: -4, largest: 3 });
  assert.deepEqual(makeTensorScale(scores, true), makeSymmetricScale(4, true));
  assert.equal(makeSymmetricScale(0, false).largest, 1); // all zero still has a scale
});

test("numbers written in cells can be read on every colour", () => {
  for (const scale of SCALES)
    for (const colour of getColourTable(scale)) assert.ok(measureContrast(parseHex(chooseInk(colour)), colour) >= 4.5, `${describeScale(scale)} ${colour}`);
});

test("text of the page has the contrast of WCAG AA in both themes, and the canvas uses the same inks", () => {
  const style = readFileSync("src/theme.css", "utf8");
  for (const dark of [false, true]) {
    const block = style.split(dark ? '.pellucid[data-theme="dark"] {' : ".pellucid {\n  color-scheme: light")[1]?.split("}")[0] ?? "";
    const token = Object.fromEntries([...block.matchAll(/--([a-z-]+): (#[0-9a-f]{6});/g)].map((match) => [match[1], match[2] as string]));
    const pairs = [
      ...["ink", "quiet", "accent", "good", "bad", "warn"].flatMap((text) => ["paper", "panel", "sunk"].map((on) => [text, on])),
      ["accent-ink", "accent"],
      ["follow-ink", "follow"],
      ["ink", "accent-soft"],
      ["quiet", "accent-soft"],
      ["accent", "accent-soft"],
    ] as [string, string][];
    for (const [text, on] of pairs)
      assert.ok(measureContrast(parseHex(token[text] as string), parseHex(token[on] as string)) >= 4.5, `${text} on ${on}, dark ${dark}`);
    for (const edge of ["edge", "accent", "follow"])
      assert.ok(measureContrast(parseHex(token[edge] as string), parseHex(token.panel as string)) >= 3, `${edge}, dark ${dark}`);
    const inks = getInks(dark);
    for (const name of ["panel", "ink", "quiet", "line", "hatch", "accent", "follow"] as const) assert.equal(inks[name], token[name], name);
    assert.equal(inks.followInk, token["follow-ink"]);
  }
});

function parseHex(colour: string): Colour {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16)) as unknown as Colour;
}

function makePanel(rows: number, cols: number, more: Partial<Panel> = {}): Panel {
  return {
    title: "a & b <c>",
    subtitle: "",
    rows: { dim: "T", size: rows },
    cols: { dim: "S", size: cols },
    values: Array.from({ length: rows * cols }, (_, i) => i / (rows * cols)),
    scale: makeUnitScale(false),
    inks: getInks(false),
    numbers: false,
    ...more,
  };
}

const refuseBitmap = () => assert.fail("no bitmap is needed here");

test("each cell stands once in an SVG, in the colour of its value", () => {
  const svg = writeSvg(makeDrawing(makePanel(3, 5)), refuseBitmap);
  for (let i = 0; i < 15; i++) assert.ok(svg.includes(`fill="${toCssColour(i / 15, makeUnitScale(false))}"`));
  const side = /width="(\d+)" height="\1"/.exec(svg)?.[1];
  assert.equal(svg.split(`width="${side}" height="${side}"`).length - 1, 15);
});

test("a masked cell has hatching instead of a colour", () => {
  const all = writeSvg(makeDrawing(makePanel(2, 2, { values: [1, 1, 1, 1] })), refuseBitmap);
  const masked = writeSvg(makeDrawing(makePanel(2, 2, { values: [1, 1, 1, 1], masked: (row, col) => col > row })), refuseBitmap);
  const dark = `fill="${toCssColour(1, makeUnitScale(false))}"`;
  assert.equal(all.split(dark).length - masked.split(dark).length, 1);
  assert.ok(masked.includes(getInks(false).hatch));
});

test("more cells than a vector picture holds become one bitmap", () => {
  const side = Math.ceil(VECTOR_CELLS ** 0.5) + 1;
  const svg = writeSvg(makeDrawing(makePanel(side, side)), () => "data:image/png;base64,AA");
  assert.equal(svg.split("<image ").length, 2);
  assert.ok(svg.length < 50_000);
});

test("no text breaks out of a picture", () => {
  const labels = ['"/><script>alert(1)</script>', "</text>"];
  const svg = writeSvg(makeDrawing(makePanel(2, 2, { rows: { dim: "T", size: 2, labels }, cols: { dim: "S", size: 2, labels } })), refuseBitmap);
  assert.ok(!svg.includes("<script"));
  assert.equal(escapeXml("a\u0000\u0001b & <c>"), "ab &amp; &lt;c&gt;");
});

test("a sheet that is too large for its room ends with a whole row, and one that fits is whole", () => {
  assert.equal(fitWhole(500, 520, 20, 17), 500);
  assert.equal(fitWhole(900, 520, 20, 17), 20 + 29 * 17);
  assert.equal(fitWhole(900, 25, 20, 17), 37); // never less than one row
});
