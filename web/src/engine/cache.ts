// The KV cache of one search, a tree of tokens as in src/pellucid/model/cache.py: a hypothesis is a path from the root to its
// newest token. Keys and values stay where they were written; when a beam goes on in another way, only the paths change.
import { makeTensor, type Tensor } from "./tensor";

/** Keys and values of one decoder layer: of all tokens so far (self-attention), and of the source (cross-attention). */
export class LayerCache {
  k: Tensor | null = null;
  v: Tensor | null = null;
  source: { k: Tensor; v: Tensor } | null = null;
}

export class Cache {
  private readonly layers = new Map<number, LayerCache>();
  private paths: number[][] = [[]]; // for each hypothesis the numbers of its tokens
  private tokens = 0;

  /** Gives the keys and values of a layer, made empty. */
  layer(number: number): LayerCache {
    const layer = this.layers.get(number) ?? new LayerCache();
    this.layers.set(number, layer);
    return layer;
  }

  /** Adds a token to each hypothesis; gives the position of each, and which of all tokens each may read (1 Q K). */
  grow(): { positions: number[]; allowed: Tensor } {
    const positions = this.paths.map((path) => path.length);
    this.paths = this.paths.map((path, row) => [...path, this.tokens + row]);
    this.tokens += this.paths.length;
    const allowed = makeTensor(1, this.paths.length, this.tokens);
    this.paths.forEach((path, row) => {
      for (const token of path) allowed.values[row * this.tokens + token] = 1;
    });
    return { positions, allowed };
  }

  /** Keeps these hypotheses, in this order; one may repeat. */
  select(rows: number[]): void {
    this.paths = rows.map((row) => this.paths[row]!);
  }
}
