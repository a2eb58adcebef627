// Numbers as a file holds them: base64 of gzip of little-endian bytes.
import type { TensorRow } from "./types";

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
