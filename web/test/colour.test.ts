// Laws of the colour tables: one way up, readable back, told apart by everyone; and of the tokens: contrast.
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
import { makeRow } from "./small_trace";

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
