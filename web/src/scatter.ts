// Points of a scatter plot: their pixels, the nearest to a place, and the next in a direction.

export interface MapFrame {
  width: number;
  height: number;
  /** Coordinates of the centre, and pixels of one unit. */
  x: number;
  y: number;
  scale: number;
}

const EDGE = 24; // pixels that stay free around all points

/** Makes the frame that shows all points, or one `zoom` times larger around the point `centre`. */
export function makeFrame(places: ArrayLike<number>, width: number, height: number, zoom: number, centre: number | null): MapFrame {
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < places.length; i += 2) {
    const [x, y] = [places[i] as number, places[i + 1] as number];
    [left, right, low, high] = [Math.min(left, x), Math.max(right, x), Math.min(low, y), Math.max(high, y)];
  }
  const fittingScale = Math.min((width - 2 * EDGE) / (right - left || 1), (height - 2 * EDGE) / (high - low || 1));
  const whole = { width, height, x: (left + right) / 2, y: (low + high) / 2, scale: fittingScale };
  if (centre === null || zoom <= 1) return { ...whole, scale: fittingScale * zoom };
  return { ...whole, x: places[2 * centre] as number, y: places[2 * centre + 1] as number, scale: fittingScale * zoom };
}

/** Locates a point in pixels from the upper left corner; larger y is higher. */
export function locatePoint(frame: MapFrame, places: ArrayLike<number>, point: number): [number, number] {
  const [x, y] = [places[2 * point] as number, places[2 * point + 1] as number];
  return [frame.width / 2 + (x - frame.x) * frame.scale, frame.height / 2 - (y - frame.y) * frame.scale];
}

/** Finds the point nearest to a place in the frame, within `reach` pixels. */
export function findNearest(frame: MapFrame, places: ArrayLike<number>, x: number, y: number, reach = 14): number | null {
  let [best, least]: [number | null, number] = [null, reach * reach];
  for (let point = 0; 2 * point < places.length; point++) {
    const [px, py] = locatePoint(frame, places, point);
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) [best, least] = [point, distance];
  }
  return best;
}

/** Finds the next point in a direction (dx to the right, dy down), near and close to that line; `from` where there is none. */
export function findNext(frame: MapFrame, places: ArrayLike<number>, from: number, dx: number, dy: number): number {
  const [x, y] = locatePoint(frame, places, from);
  let [best, least] = [from, Infinity];
  for (let point = 0; 2 * point < places.length; point++) {
    const [px, py] = locatePoint(frame, places, point);
    const along = (px - x) * dx + (py - y) * dy;
    const off = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (point !== from && along > 1e-6 && along + 2 * off < least) [best, least] = [point, along + 2 * off];
  }
  return best;
}
