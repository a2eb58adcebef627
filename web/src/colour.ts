// Values as colours: one table from 0 up, one symmetric about 0, each for light and for dark paper. Lightness always runs
// one way as values grow in size, hues stay on the blue-yellow or blue-orange axis, and every entry can be told apart, so
// that a picture can be read back.
import type { TensorRow } from "./types";

export type Colour = readonly [number, number, number];

export interface Scale {
  kind: "sequential" | "symmetric";
  least: number;
  largest: number;
  dark: boolean;
}

/** [position 0 to 1, lightness, green-red, blue-yellow] in OKLab (Ottosson 2020), interpolated linearly. */
type Stop = readonly [number, number, number, number];

const SEQUENTIAL: Record<"light" | "dark", Stop[]> = {
  light: [
    [0, 0.985, -0.004, 0.022],
    [0.25, 0.87, -0.006, 0.105],
    [0.6, 0.6, 0, 0.02],
    [1, 0.26, -0.012, -0.095],
  ],
  dark: [
    [0, 0.21, 0, -0.03],
    [0.3, 0.42, -0.015, -0.085],
    [0.65, 0.665, 0, 0.035],
    [1, 0.955, -0.018, 0.11],
  ],
};

/** From 0 to the negative end, and from 0 to the positive end. */
const SYMMETRIC: Record<"light" | "dark", { below: Stop[]; above: Stop[] }> = {
  light: {
    below: [
      [0, 0.99, 0, 0],
      [0.5, 0.75, -0.03, -0.1],
      [1, 0.44, -0.015, -0.155],
    ],
    above: [
      [0, 0.99, 0, 0],
      [0.5, 0.75, 0.075, 0.11],
      [1, 0.44, 0.085, 0.09],
    ],
  },
  dark: {
    below: [
      [0, 0.235, 0, -0.008],
      [0.5, 0.53, -0.025, -0.13],
      [1, 0.86, -0.045, -0.075],
    ],
    above: [
      [0, 0.235, 0, -0.008],
      [0.5, 0.53, 0.075, 0.095],
      [1, 0.86, 0.04, 0.115],
    ],
  },
};

const TABLES = {
  sequential: { light: makeTable(256, SEQUENTIAL.light), dark: makeTable(256, SEQUENTIAL.dark) },
  symmetric: { light: makeSymmetricTable("light"), dark: makeSymmetricTable("dark") },
};

/** Colour of a value that is not a number; it is in neither table. */
const NOT_A_NUMBER: Colour = [230, 0, 200];

/** Makes the sequential scale from 0 to 1. */
export function makeUnitScale(dark: boolean): Scale {
  return { kind: "sequential", least: 0, largest: 1, dark };
}

/** Makes the scale of a tensor: 0 to 1 for patterns and flags, otherwise symmetric about 0 up to the largest absolute value. */
export function makeTensorScale(row: TensorRow, dark: boolean): Scale {
  if (row.op.kind === "softmax" || row.dtype === "bool") return makeUnitScale(dark);
  return makeSymmetricScale(Math.max(Math.abs(row.least ?? 0), Math.abs(row.largest ?? 0)), dark);
}

export function makeSymmetricScale(reach: number, dark: boolean): Scale {
  const end = reach > 0 && Number.isFinite(reach) ? reach : 1;
  return { kind: "symmetric", least: -end, largest: end, dark };
}

/** Gets the colours of a scale, from its least value to its largest. */
export function getColourTable(scale: Scale): Colour[] {
  return TABLES[scale.kind][scale.dark ? "dark" : "light"];
}

/** Converts a value to red, green and blue, 0 to 255; beyond the ends of the scale, to the colour of the end. */
export function toRgb(value: number, scale: Scale): Colour {
  if (!Number.isFinite(value)) return NOT_A_NUMBER;
  const colours = getColourTable(scale);
  const position = (value - scale.least) / (scale.largest - scale.least);
  return colours[Math.min(colours.length - 1, Math.max(0, Math.round(position * (colours.length - 1))))] as Colour;
}

/** Converts a value to a CSS colour. */
export function toCssColour(value: number, scale: Scale): string {
  return `rgb(${toRgb(value, scale).join(",")})`;
}

/** Reads the value of a pixel back through the colour table; NaN where the colour is not in it. */
export function readValue(colour: Colour, scale: Scale): number {
  const colours = getColourTable(scale);
  const entry = colours.findIndex((candidate) => candidate.every((part, i) => part === colour[i]));
  return entry < 0 ? Number.NaN : scale.least + (entry / (colours.length - 1)) * (scale.largest - scale.least);
}

/** Chooses black or white, whichever is easier to read on a colour. */
export function chooseInk(colour: Colour): string {
  return measureLuminance(colour) > 0.179 ? "#000000" : "#ffffff";
}

/** Measures the contrast of two colours, 1 to 21 (WCAG 2.2, relative luminance). */
export function measureContrast(first: Colour, second: Colour): number {
  const [low, high] = [measureLuminance(first), measureLuminance(second)].sort((one, other) => one - other) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function measureLuminance([red, green, blue]: Colour): number {
  return 0.2126 * toLinear(red) + 0.7152 * toLinear(green) + 0.0722 * toLinear(blue);
}

function toLinear(part: number): number {
  const share = part / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

function makeSymmetricTable(theme: "light" | "dark"): Colour[] {
  const { below, above } = SYMMETRIC[theme];
  return [...makeTable(128, below).reverse(), ...makeTable(128, above).slice(1)];
}

function makeTable(entries: number, stops: Stop[]): Colour[] {
  return Array.from({ length: entries }, (_, i) => fromOklab(...interpolate(stops, i / (entries - 1))));
}

function interpolate(stops: Stop[], position: number): [number, number, number] {
  const next = Math.max(1, stops.findIndex((stop) => stop[0] >= position));
  const [from, to] = [stops[next - 1], stops[next]] as [Stop, Stop];
  const share = (position - from[0]) / (to[0] - from[0]);
  return [1, 2, 3].map((i) => (from[i] as number) + share * ((to[i] as number) - (from[i] as number))) as [number, number, number];
}

function fromOklab(lightness: number, a: number, b: number): Colour {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    toSrgb(4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short),
    toSrgb(-1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short),
    toSrgb(-0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short),
  ];
}

function toSrgb(share: number): number {
  const clamped = Math.min(1, Math.max(0, share));
  return Math.round(255 * (clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * clamped ** (1 / 2.4) - 0.055));
}

export interface Inks {
  panel: string;
  ink: string;
  quiet: string;
  line: string;
  hatch: string;
  accent: string;
  follow: string;
  followInk: string;
}

const LIGHT: Inks = {
  panel: "#ffffff",
  ink: "#1c2230",
  quiet: "#565e6e",
  line: "#dcd9d0",
  hatch: "#a9a69c",
  accent: "#1f4e8c",
  follow: "#0b7055",
  followInk: "#ffffff",
};
const DARK: Inks = {
  panel: "#1c1f27",
  ink: "#e9e7e1",
  quiet: "#a6abb8",
  line: "#343945",
  hatch: "#5b6170",
  accent: "#8fb8f5",
  follow: "#4fd8b8",
  followInk: "#0c1a16",
};

export function getInks(dark: boolean): Inks {
  return dark ? DARK : LIGHT;
}
