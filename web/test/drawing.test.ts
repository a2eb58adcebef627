// Laws of saved pictures: cells in their colours, hatching where masked, texts that cannot break out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { getInks, makeUnitScale, toCssColour } from "../src/colour";
import { escapeXml, makeDrawing, type Panel, VECTOR_CELLS, writeSvg } from "../src/drawing";

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
