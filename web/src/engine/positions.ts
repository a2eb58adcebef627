// Where order enters the model (paper, 3.5), as in src/pellucid/model/positions.py.
import type { Model } from "./model";
import { makeTensor, type Tensor } from "./tensor";

/** The vectors of the positions (Q D) that are added to the embeddings of a side; null where none are. */
export function positionVectors(model: Model, side: "source" | "target", positions: number[]): Tensor | null {
  const { d_model, positions: kind } = model.config;
  if (kind !== "sinusoidal" && kind !== "learned") return null;
  const vectors = makeTensor(positions.length, d_model);
  positions.forEach((position, row) => {
    if (kind === "sinusoidal") vectors.values.set(sinusoid(position, d_model), row * d_model);
    else vectors.values.set(model.row(`${side}_positions.table`, position), row * d_model);
  });
  return vectors;
}

/** sin(p / 10000^(2i / width)) at 2i, and its cosine at 2i + 1. */
function sinusoid(position: number, width: number): Float32Array {
  return Float32Array.from({ length: width }, (_, i) => {
    const angle = position / 10000 ** ((i - (i % 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** Rotates each pair (2i, 2i + 1) of x (H Q E) by the angle p / 10000^(2i / E) (Su et al. 2021, 3.2.2). */
export function rotate(x: Tensor, positions: number[], direction: 1 | -1 = 1): Tensor {
  const [heads, queries, width] = x.shape as [number, number, number];
  const turned = makeTensor(heads, queries, width);
  const angles = positions.map((position) => sinusoid(position, width));
  for (let h = 0; h < heads; h++)
    for (let q = 0; q < queries; q++)
      for (let i = 0; i < width; i += 2) {
        const place = (h * queries + q) * width + i;
        const [even, odd] = [x.values[place]!, x.values[place + 1]!];
        const [sine, cosine] = [direction * angles[q]![i]!, angles[q]![i + 1]!];
        turned.values[place] = even * cosine - odd * sine;
        turned.values[place + 1] = even * sine + odd * cosine;
      }
  return turned;
}
