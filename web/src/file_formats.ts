// File formats: CSV for a spreadsheet, NPZ for NumPy, numbers packed in a trace's file; and saving a file from the browser.

import type { Axis, TensorRow } from "./types";

interface NamedArray {
  name: string;
  shape: number[];
  values: Float32Array;
  /** Written as booleans, one byte each. */
  flags?: boolean;
}

/** Makes an array of a tensor, under the name of the tensor. */
export function makeNamedArray(row: TensorRow, values: Float32Array): NamedArray {
  return { name: row.name, shape: row.shape, values, flags: row.dtype === "bool" };
}

/**
 * Writes one line for each row of the last dimension: its index in the other dimensions, then its numbers. Positions carry their
 * pieces. Every text has its number before it, so that no spreadsheet takes a piece for a formula.
 */
export function writeCsv(row: TensorRow, values: Float32Array, axes: Record<string, Axis>): string {
  const labelPosition = (dim: string, i: number) => {
    const label = axes[dim]?.labels?.[i];
    return quoteCsv(label === undefined ? String(i) : `${i} ${label}`);
  };
  const width = row.shape.at(-1) ?? 1;
  const outer = row.dims.slice(0, -1);
  const last = row.dims.at(-1) ?? "";
  const lines = [[...outer.map(quoteCsv), ...Array.from({ length: width }, (_, i) => labelPosition(last, i))].join(",")];
  for (let start = 0; start < values.length; start += width) {
    const index = unflattenIndex(start / width, row.shape.slice(0, -1));
    const numbers = Array.from(values.subarray(start, start + width), (value) => formatCsvNumber(value));
    lines.push([...index.map((i, d) => labelPosition(outer[d] ?? "", i)), ...numbers].join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}

/** Formats a number with enough digits to read the same float32 again. */
function formatCsvNumber(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(9))) : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

function quoteCsv(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function unflattenIndex(flat: number, shape: number[]): number[] {
  const index: number[] = [];
  for (let d = shape.length - 1, rest = flat; d >= 0; d--) {
    index.unshift(rest % (shape[d] ?? 1));
    rest = Math.floor(rest / (shape[d] ?? 1));
  }
  return index;
}

/** Writes one array in NumPy's format (version 1.0 of numpy.lib.format), little-endian. */
function writeNpy({ shape, values, flags }: NamedArray): Uint8Array {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const description = `{'descr': '${flags ? "|b1" : "<f4"}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const padding = 64 - ((10 + description.length + 1) % 64);
  const header = `${description}${" ".repeat(padding % 64)}\n`;
  const bytes = new Uint8Array(10 + header.length + values.length * (flags ? 1 : 4));
  bytes.set([0x93, ...toAscii("NUMPY"), 1, 0, header.length & 0xff, header.length >> 8, ...toAscii(header)]);
  const view = new DataView(bytes.buffer, 10 + header.length);
  values.forEach((value, i) => (flags ? view.setUint8(i, value === 0 ? 0 : 1) : view.setFloat32(4 * i, value, true)));
  return bytes;
}

/** Writes arrays in the format of numpy.savez: an uncompressed zip in which array `name` is the file `name`.npy. */
export function writeNpz(arrays: NamedArray[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  const entries: Uint8Array[] = [];
  let offset = 0;
  for (const array of arrays) {
    const [name, data] = [new TextEncoder().encode(`${array.name}.npy`), writeNpy(array)];
    const fields = makeZipFields(name, data);
    parts.push(makeZipRecord(0x04034b50, [[20, 2], ...fields, [name.length, 2], [0, 2]], name), data);
    const place: Field[] = [[name.length, 2], [0, 2], [0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]];
    entries.push(makeZipRecord(0x02014b50, [[20, 2], [20, 2], ...fields, ...place], name));
    offset = parts.reduce((sum, part) => sum + part.length, 0);
  }
  const size = entries.reduce((sum, part) => sum + part.length, 0);
  const end = makeZipRecord(0x06054b50, [[0, 2], [0, 2], [arrays.length, 2], [arrays.length, 2], [size, 4], [offset, 4], [0, 2]]);
  return joinBytes([...parts, ...entries, end]);
}

type Field = [value: number, bytes: number];

/** Makes the fields that the local and the central record of a zip share: flags (UTF-8 names), method, time, date, checksum, sizes. */
function makeZipFields(name: Uint8Array, data: Uint8Array): Field[] {
  const utf8 = name.some((byte) => byte > 127) ? 0x0800 : 0;
  return [[utf8, 2], [0, 2], [0, 2], [0x21, 2], [computeCrc32(data), 4], [data.length, 4], [data.length, 4]];
}

function makeZipRecord(signature: number, fields: Field[], name = new Uint8Array()): Uint8Array {
  const length = 4 + fields.reduce((sum, [, bytes]) => sum + bytes, 0);
  const record = new Uint8Array(length + name.length);
  const view = new DataView(record.buffer);
  view.setUint32(0, signature, true);
  let position = 4;
  for (const [value, bytes] of fields) {
    if (bytes === 2) view.setUint16(position, value, true);
    else view.setUint32(position, value, true);
    position += bytes;
  }
  record.set(name, position);
  return record;
}

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let remainder = n;
  for (let bit = 0; bit < 8; bit++) remainder = remainder & 1 ? 0xedb88320 ^ (remainder >>> 1) : remainder >>> 1;
  return remainder;
});

function computeCrc32(data: Uint8Array): number {
  let remainder = 0xffffffff;
  for (const byte of data) remainder = (CRC[(remainder ^ byte) & 0xff] ?? 0) ^ (remainder >>> 8);
  return (remainder ^ 0xffffffff) >>> 0;
}

function toAscii(text: string): number[] {
  return Array.from(text, (letter) => letter.charCodeAt(0));
}

function joinBytes(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let position = 0;
  for (const part of parts) {
    whole.set(part, position);
    position += part.length;
  }
  return whole;
}

/** Makes the browser save a file. */
export function saveFile(name: string, data: BlobPart, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([data], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Joins the names of a model, a tensor and a head to a file name that every file system accepts. */
export function makeFileName(...parts: (string | number | undefined)[]): string {
  const name = parts.filter((part) => part !== undefined && part !== "").join("-");
  return name.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 120) || "pellucid";
}

/** Decompresses gzip that is encoded as base64. */
export async function inflate(text: string): Promise<ArrayBuffer> {
  const letters = atob(text.trim());
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** Converts bytes to float32 numbers. */
export function toFloats(bytes: ArrayBuffer): Float32Array {
  if (bytes.byteLength % 4) throw new Error(`The numbers were cut off, ${bytes.byteLength} bytes arrived.`);
  return new Float32Array(bytes);
}

/** Converts little-endian bytes to numbers. */
export function toNumbers(bytes: ArrayBuffer, dtype: TensorRow["dtype"]): Float32Array {
  if (dtype === "float32") return toFloats(bytes);
  if (dtype === "bool") return Float32Array.from(new Uint8Array(bytes));
  const halves = new Uint16Array(bytes);
  const numbers = new Float32Array(halves.length);
  // Many numbers are looked up: there are only so many halves, and a power takes long.
  decodedHalves ??= Float32Array.from({ length: 65536 }, (_, bits) => decodeHalf(bits));
  for (let i = 0; i < halves.length; i++) numbers[i] = decodedHalves[halves[i]!]!;
  return numbers;
}

let decodedHalves: Float32Array | null = null;

/** Decodes a half-precision number from its 16 bits (IEEE 754, binary16). */
export function decodeHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}
