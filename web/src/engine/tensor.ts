// Tensors as the model computes with them: a shape and its numbers, the last dimension running fastest. Letters of shapes:
// Q query positions, K key positions, D the width of the model, H heads, E the width of one head, V the vocabulary.

export interface Tensor {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** Makes a tensor of zeros. */
export function makeTensor(...shape: number[]): Tensor {
  return { shape, values: new Float32Array(shape.reduce((product, size) => product * size, 1)) };
}

/** Computes a tensor of the same shape, number by number. */
export function mapNumbers(x: Tensor, change: (value: number, place: number) => number): Tensor {
  return { shape: x.shape, values: x.values.map(change) };
}

/** a + b; b has the shape of a, or lacks its leading dimensions. */
export function add(a: Tensor, b: Tensor): Tensor {
  return mapNumbers(a, (value, place) => value + b.values[place % b.values.length]!);
}

/** x W^T + b (Q count), for rows `first` to `first + count` of W: weights are stored (out, in), as in torch. */
export function linear(x: Tensor, weight: Tensor, bias: Tensor | null, first = 0, count = weight.shape[0]! - first): Tensor {
  const width = weight.shape[1]!;
  const rows = x.values.length / width;
  const y = makeTensor(rows, count);
  // Sums are added up in 64 bits, two rows and four columns at a time: each weight is read once for both rows.
  const inputs = Float64Array.from(x.values);
  const w = weight.values;
  for (let row = 0; row < rows; row += 2) {
    const a = row * width;
    const b = Math.min(row + 1, rows - 1) * width;
    for (let column = 0; column < count; column += 4) {
      const last = count - column - 1;
      const w0 = (first + column) * width;
      const w1 = w0 + Math.min(1, last) * width;
      const w2 = w0 + Math.min(2, last) * width;
      const w3 = w0 + Math.min(3, last) * width;
      let [a0, a1, a2, a3, b0, b1, b2, b3] = [0, 0, 0, 0, 0, 0, 0, 0];
      for (let i = 0; i < width; i++) {
        const xa = inputs[a + i]!;
        const xb = inputs[b + i]!;
        const v0 = w[w0 + i]!;
        const v1 = w[w1 + i]!;
        const v2 = w[w2 + i]!;
        const v3 = w[w3 + i]!;
        a0 += xa * v0;
        a1 += xa * v1;
        a2 += xa * v2;
        a3 += xa * v3;
        b0 += xb * v0;
        b1 += xb * v1;
        b2 += xb * v2;
        b3 += xb * v3;
      }
      const sums = [a0, a1, a2, a3, b0, b1, b2, b3];
      for (let n = 0; n <= Math.min(3, last); n++) {
        y.values[row * count + column + n] = sums[n]!;
        if (row + 1 < rows) y.values[(row + 1) * count + column + n] = sums[4 + n]!;
      }
    }
  }
  return bias ? add(y, { shape: [count], values: bias.values.subarray(first, first + count) }) : y;
}

/** Cuts (Q, H * E) into heads: (H Q E). */
export function splitHeads(x: Tensor, heads: number): Tensor {
  const [positions, width] = x.shape as [number, number];
  const size = width / heads;
  const split = makeTensor(heads, positions, size);
  for (let h = 0; h < heads; h++)
    for (let p = 0; p < positions; p++)
      split.values.set(x.values.subarray(p * width + h * size, p * width + (h + 1) * size), (h * positions + p) * size);
  return split;
}

/** Puts the heads (H Q E) side by side again: (Q, H * E). */
export function mergeHeads(x: Tensor): Tensor {
  const [heads, positions, size] = x.shape as [number, number, number];
  const merged = makeTensor(positions, heads * size);
  for (let h = 0; h < heads; h++)
    for (let p = 0; p < positions; p++)
      merged.values.set(x.values.subarray((h * positions + p) * size, (h * positions + p + 1) * size), (p * heads + h) * size);
  return merged;
}

/** a b^T of each head: (H Q E) and (H K E) give (H Q K). */
export function multiplyTransposed(a: Tensor, b: Tensor): Tensor {
  const [heads, queries, width] = a.shape as [number, number, number];
  const keys = b.shape[1]!;
  const products = makeTensor(heads, queries, keys);
  for (let h = 0, place = 0; h < heads; h++)
    for (let q = 0; q < queries; q++)
      for (let k = 0; k < keys; k++) {
        const [from, to] = [(h * queries + q) * width, (h * keys + k) * width];
        let sum = 0;
        for (let e = 0; e < width; e++) sum += a.values[from + e]! * b.values[to + e]!;
        products.values[place++] = sum;
      }
  return products;
}

/** a b of each head: (H Q K) and (H K E) give (H Q E). */
export function multiply(a: Tensor, b: Tensor): Tensor {
  const [heads, queries, keys] = a.shape as [number, number, number];
  const width = b.shape[2]!;
  const products = makeTensor(heads, queries, width);
  for (let h = 0, place = 0; h < heads; h++)
    for (let q = 0; q < queries; q++)
      for (let e = 0; e < width; e++) {
        let sum = 0;
        for (let k = 0; k < keys; k++) sum += a.values[(h * queries + q) * keys + k]! * b.values[(h * keys + k) * width + e]!;
        products.values[place++] = sum;
      }
  return products;
}

/** Puts the positions of b (H K E) behind those of a, or gives b where there is no a. */
export function joinPositions(a: Tensor | null, b: Tensor): Tensor {
  if (!a) return b;
  const [heads, before, width] = a.shape as [number, number, number];
  const after = b.shape[1]!;
  const joined = makeTensor(heads, before + after, width);
  for (let h = 0; h < heads; h++) {
    const start = h * (before + after) * width;
    joined.values.set(a.values.subarray(h * before * width, (h + 1) * before * width), start);
    joined.values.set(b.values.subarray(h * after * width, (h + 1) * after * width), start + before * width);
  }
  return joined;
}
