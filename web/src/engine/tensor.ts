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
  const y = makeTensor(...x.shape);
  for (let place = 0; place < y.values.length; place++) y.values[place] = change(x.values[place]!, place);
  return y;
}

/** a + b; b has the shape of a, or lacks its leading dimensions. */
export function add(a: Tensor, b: Tensor): Tensor {
  const sum = { shape: a.shape, values: a.values.slice() };
  const size = b.values.length;
  for (let start = 0; start < sum.values.length; start += size) for (let i = 0; i < size; i++) sum.values[start + i]! += b.values[i]!;
  return sum;
}

/** x W^T + b (Q count), for rows `first` to `first + count` of W: weights are stored (out, in), as in torch. */
export function linear(x: Tensor, weight: Tensor, bias: Tensor | null, first = 0, count = weight.shape[0]! - first): Tensor {
  const width = weight.shape[1]!;
  const rows = x.values.length / width;
  const y = makeTensor(rows, count);
  const inputs = new Float64Array(x.values); // sums are added up in 64 bits
  const w = weight.values.subarray(first * width, (first + count) * width);
  // Two rows and four columns at a time, so that each weight is read once for both rows.
  for (let column = 0; column < count; column += 4) {
    let row = 0;
    for (; row + 1 < rows; row += 2) multiplyTwoRows(inputs, row, w, column, width, y);
    if (row < rows) multiplyOneRow(inputs, row, w, column, width, y);
  }
  return bias ? add(y, { shape: [count], values: bias.values.subarray(first, first + count) }) : y;
}

/** The products of a row with four columns of weights, or as many as there are. */
function multiplyOneRow(inputs: Float64Array, row: number, w: Float32Array, column: number, width: number, y: Tensor): void {
  const count = y.shape[1]!;
  const last = count - column - 1;
  const a = row * width;
  const w0 = column * width;
  const [w1, w2, w3] = [w0 + Math.min(1, last) * width, w0 + Math.min(2, last) * width, w0 + Math.min(3, last) * width] as const;
  let [a0, a1, a2, a3] = [0, 0, 0, 0];
  for (let i = 0; i < width; i++) {
    const xa = inputs[a + i]!;
    a0 += xa * w[w0 + i]!;
    a1 += xa * w[w1 + i]!;
    a2 += xa * w[w2 + i]!;
    a3 += xa * w[w3 + i]!;
  }
  writeFour(y.values, row * count + column, last, a0, a1, a2, a3);
}

/** The products of a row and the next one. */
function multiplyTwoRows(inputs: Float64Array, row: number, w: Float32Array, column: number, width: number, y: Tensor): void {
  const count = y.shape[1]!;
  const last = count - column - 1;
  const a = row * width;
  const b = a + width;
  const w0 = column * width;
  const [w1, w2, w3] = [w0 + Math.min(1, last) * width, w0 + Math.min(2, last) * width, w0 + Math.min(3, last) * width] as const;
  let [a0, a1, a2, a3, b0, b1, b2, b3] = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let i = 0; i < width; i++) {
    // Each in a statement of its own: an array here, taken apart at once, makes this several times as slow.
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
  writeFour(y.values, row * count + column, last, a0, a1, a2, a3);
  writeFour(y.values, (row + 1) * count + column, last, b0, b1, b2, b3);
}

/** Writes four numbers from a place on, or as many of them as the row has columns left. */
function writeFour(values: Float32Array, place: number, last: number, n0: number, n1: number, n2: number, n3: number): void {
  values[place] = n0;
  if (last > 0) values[place + 1] = n1;
  if (last > 1) values[place + 2] = n2;
  if (last > 2) values[place + 3] = n3;
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
