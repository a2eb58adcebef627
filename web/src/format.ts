// Numbers, pieces and sizes as text, in the same few ways everywhere on the page.

/** A word that a class may guess first. */
interface Guess {
  guess: string;
}

/** Where a picture shows a number: a tensor, a parameter or a part of a view, and the index there; with fewer indices, a row. */
export interface Spot {
  name: string;
  index: readonly number[];
}

/** A number of a text with the place where the picture shows it. */
export interface PlacedNumber {
  value: number;
  spot: Spot;
}

/** What a name has its colour from: queries, keys or values. */
export type Ink = "q" | "k" | "v";

/** A name in the colour of what it names. */
interface InkedName {
  name: string;
  ink: Ink;
}

type RichPart = string | number | Guess | PlacedNumber | InkedName;

/** A text whose numbers and guesses are separate parts, so that teach mode can hide them and the picture can show them. */
export type RichText = RichPart[];

/**
 * Makes rich text of a template: numbers, guesses and coloured names stay separate, everything else is text. The end of a line
 * is a space.
 */
export function richText(texts: TemplateStringsArray, ...values: (RichPart | RichText)[]): RichText {
  const parts = texts.flatMap((text, i) => [text.replace(/\n\s*/g, " "), ...[values[i] ?? ""].flat()]);
  return parts.filter((part) => part !== "");
}

/** Makes a number of a text that the picture shows at an index of a tensor, a parameter or a part of a view. */
export function placeNumber(value: number | undefined, name: string, ...index: number[]): PlacedNumber {
  return { value: value ?? Number.NaN, spot: { name, index } };
}

/** The names of the three vectors of a head, in their colours. */
export const INKED = { q: { name: "q", ink: "q" }, k: { name: "k", ink: "k" }, v: { name: "v", ink: "v" } } as const;

/** Formats a number with three significant digits and a real minus sign; the exact number is one click away. */
export function formatNumber(value: number): string {
  if (Number.isNaN(value)) return "not a number";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e6) ? value.toExponential(2) : roundDigits(value, size);
  return text.replace(/-/g, "−");
}

function roundDigits(value: number, size: number): string {
  return String(Number(size >= 100 ? value.toFixed(size >= 1000 ? 0 : 1) : value.toPrecision(3)));
}

/** Formats a number with its sign: +0.31, −1.2, 0. */
export function formatSigned(value: number): string {
  return value > 0 ? `+${formatNumber(value)}` : formatNumber(value);
}

/** Formats a number with two decimals and its sign, for a column. */
export function formatFixed(value: number): string {
  return `${value > 0 ? "+" : ""}${value.toFixed(2)}`.replace("-", "−").replace("−0.00", "0.00");
}

/** Rounds up to two significant digits, a good end for a scale. */
export function roundUp(value: number): number {
  if (!(value > 0) || !Number.isFinite(value)) return 1;
  const unit = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Number((Math.ceil(value / unit - 1e-9) * unit).toPrecision(2));
}

/** Formats a probability with two decimals, a small one with two digits, and with more where two would read as 1. */
export function formatProbability(p: number): string {
  if (p > 0 && p < 0.0995) return formatNumber(Number(p.toPrecision(2)));
  return p < 1 && p >= 0.995 ? (p < 0.99995 ? p.toFixed(4) : `1 − ${formatNumber(Number((1 - p).toPrecision(1)))}`) : p.toFixed(2);
}

/** Formats an integer with thin spaces between thousands: 44 000. */
export function formatCount(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Formats a number of things, in the singular or plural: "1 piece", "5 pieces". */
export function formatQuantity(n: number, singular: string, plural = `${singular}s`): string {
  return `${formatCount(n)} ${n === 1 ? singular : plural}`;
}

/** Puts a piece in quotation marks, without the mark of its space. */
export function quotePiece(piece: string | undefined): string {
  const bare = (piece ?? "").replace(/^(\(?)\u2581/, "$1"); // a bracket marks the sentence before
  return `“${bare === "" ? "\u2581" : bare}”`;
}

/** Formats a number of bytes: 1.4 MB. */
export function formatBytes(n: number): string {
  if (n < 1000) return `${n} bytes`;
  return n < 1e6 ? `${formatNumber(Number((n / 1e3).toPrecision(2)))} kB` : `${formatNumber(Number((n / 1e6).toPrecision(3)))} MB`;
}

/** Formats a number as the shortest decimal that reads as the same float32. */
export function formatExact(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const single = Math.fround(value);
  for (let digits = 1; digits <= 9; digits++) {
    const text = single.toPrecision(digits);
    if (Math.fround(Number(text)) === single) return writeMinus(text);
  }
  return writeMinus(String(single));
}

/** Formats a number with a few digits, for a cell or a bar whose exact value stands elsewhere. */
export function formatShort(value: number, digits = 2): string {
  if (!Number.isFinite(value)) return formatExact(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 10 ** -digits / 2)) return writeMinus(value.toExponential(1));
  return writeMinus(value.toFixed(size >= 100 ? Math.max(0, digits - 1) : digits));
}

function writeMinus(text: string): string {
  return text.replace("e+", "e").replace("-", "−").replace("e-", "e−");
}

/** Describes an error in one sentence. */
export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
