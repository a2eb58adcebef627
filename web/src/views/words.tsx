// Map of the vocabulary: every piece of an embedding table, with the sentence's pieces and the neighbours of one marked.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { getInks, type Inks } from "../colour";
import { formatCount, formatNumber, quotePiece } from "../format";
import { useApp, useAvailableSize, useDark, useLoaded } from "../hooks";
import { Menu, NotReady, NumberValue, Piece } from "../parts";
import type { Manifest, Neighbour, WordMap } from "../types";
import { AnalogyForm, NeighbourTable } from "./cards_words";

const MAP_HEIGHT = 460;
const MOST_OPTIONS = 200;

export function WordsView() {
  const app = useApp();
  const [side, setSide] = useState("source");
  const manifest = app.manifest.value;
  const loaded = useLoaded(() => app.fetchAnswer("words", { side }), `${manifest?.model.sha256} ${side}`);
  if (!manifest) return null;
  const sides = loaded.state === "ready" ? loaded.value.sides : {};
  return (
    <div class="stack words-body">
      <header class="row">
        <h2>Words on a map</h2>
        {Object.keys(sides).length > 1 && <Menu label="Table" value={side} options={Object.entries(sides)} onPick={setSide} />}
      </header>
      <NotReady loaded={loaded} />
      {loaded.state === "ready" && <WordsMap map={loaded.value} manifest={manifest} key={loaded.value.side} />}
    </div>
  );
}

/** Lists the ids of the sentence's pieces that this table has vectors for, each once. */
function listSentenceIds(map: WordMap, manifest: Manifest): number[] {
  const shared = Object.keys(map.sides).length === 1;
  const ids = [...(shared || map.side === "source" ? manifest.source.ids : []), ...(shared || map.side !== "source" ? manifest.target.ids : [])];
  return [...new Set(ids)];
}

function WordsMap({ map, manifest }: { map: WordMap; manifest: Manifest }) {
  const places = useMemo(() => Float32Array.from(map.places), [map]);
  const pointOf = useMemo(() => new Map(map.ids?.map((id, point) => [id, point])), [map]);
  const idOf = (point: number) => map.ids?.[point] ?? point;
  const pointAt = (id: number) => (map.ids ? pointOf.get(id) : id < map.pieces.length ? id : undefined);
  const sentencePoints = listSentenceIds(map, manifest).flatMap((id) => pointAt(id) ?? []);
  const [point, setPoint] = useState(sentencePoints[Math.min(1, sentencePoints.length - 1)] ?? 0);
  const neighbours = useNeighbours(map, idOf(point));
  const neighbourPoints = neighbours.state === "ready" ? neighbours.value.flatMap((neighbour) => pointAt(neighbour.id) ?? []) : [];
  const [first = 0, second = 0] = map.shares;
  return (
    <>
      <p>
        The embedding table of: {map.sides[map.side]}, {formatCount(map.count)} pieces of {map.width} numbers. The map shows the two directions in which they vary most (principal components), <NumberValue value={100 * first} />% and <NumberValue value={100 * second} />% of the
        variance: pieces that are close on it may be far apart in other directions, so the list compares whole vectors. A small cloud apart holds pieces that the training text hardly ever has, such as bytes.
        {map.pieces.length < map.count ? ` This file has the positions of ${formatCount(map.pieces.length)} pieces.` : ""}
      </p>
      <PieceSearch points={sentencePoints} map={map} picked={point} onPick={setPoint} />
      <div class="word-map">
        <ScatterPlot map={map} places={places} sentencePoints={sentencePoints} neighbourPoints={neighbourPoints} picked={point} onPick={setPoint} />
        <aside class="panel stack" aria-label="The piece picked">
          <h3>
            <Piece text={map.pieces[point] ?? ""} /> <span class="quiet">id {idOf(point)}</span>
          </h3>
          <NotReady loaded={neighbours} />
          {neighbours.state === "ready" && <NeighbourTable name="nearest by cosine" neighbours={neighbours.value} />}
          <p class="quiet">
            Two pieces of this table have a cosine of <NumberValue value={map.chance.mean} /> on average, ± <NumberValue value={map.chance.deviation} />.
          </p>
        </aside>
      </div>
      <SumsOfWords side={map.side} />
    </>
  );
}

function SumsOfWords({ side }: { side: string }) {
  const app = useApp();
  return (
    <section class="panel stack" aria-label="Sums of words">
      <h3>Sums and differences of words</h3>
      <AnalogyForm app={app} side={side} />
    </section>
  );
}

function useNeighbours(map: WordMap, id: number) {
  const app = useApp();
  const fetchNeighbours = async (): Promise<Neighbour[]> => (await app.fetchAnswer("neighbours", { side: map.side, piece: id })).near;
  return useLoaded(fetchNeighbours, `${app.manifest.value?.model.sha256} ${map.side} ${id}`);
}

function PieceSearch(props: { points: number[]; map: WordMap; picked: number; onPick: (point: number) => void }) {
  const { points, map, picked, onPick } = props;
  const [text, setText] = useState("");
  const options = useMemo(() => findPieces(map.pieces, text), [map, text]);
  const search = (event: Event) => {
    event.preventDefault();
    const [best] = options;
    if (best !== undefined) onPick(best);
  };
  return (
    <form class="row word-map-find" onSubmit={search}>
      {points.map((point) => (
        <button type="button" class="chip piece-chip" aria-pressed={point === picked} aria-label={`show ${quotePiece(map.pieces[point])}`} onClick={() => onPick(point)}>
          <Piece text={map.pieces[point] ?? ""} />
        </button>
      ))}
      <label>
        Find a piece <input type="text" value={text} size={14} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="button" disabled={options.length === 0}>
        Show
      </button>
      {text && <span class="quiet">{options.length ? `${options.length === MOST_OPTIONS ? `${MOST_OPTIONS} or more` : options.length} match, ${quotePiece(map.pieces[options[0] ?? 0])} first` : "no piece begins like this"}</span>}
    </form>
  );
}

/** Finds pieces that begin with a text, shortest first; the mark of a space before a piece is ignored. */
export function findPieces(pieces: string[], text: string): number[] {
  const prefix = text.trim().toLowerCase();
  if (!prefix) return [];
  const points: number[] = [];
  const bare = (piece: string) => piece.replace(/^\u2581/, "").toLowerCase();
  for (let i = 0; i < pieces.length && points.length < MOST_OPTIONS; i++) if (bare(pieces[i] as string).startsWith(prefix) || pieces[i] === text.trim()) points.push(i);
  return points.sort((one, other) => bare(pieces[one] as string).length - bare(pieces[other] as string).length || one - other);
}

interface ScatterProps {
  map: WordMap;
  places: Float32Array;
  sentencePoints: number[];
  neighbourPoints: number[];
  picked: number;
  onPick: (point: number) => void;
}

function ScatterPlot({ map, places, sentencePoints, neighbourPoints, picked, onPick }: ScatterProps) {
  const dark = useDark();
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [room] = useAvailableSize(box);
  const [zoom, setZoom] = useState(1);
  const [hover, setHover] = useState<number | null>(null);
  const frame = useMemo(() => makeFrame(places, Math.max(room, 40), MAP_HEIGHT, zoom, picked), [places, room, zoom, picked]);
  useLayoutEffect(() => {
    if (canvas.current && room > 0) paintScatter(canvas.current, frame, { map, places, sentencePoints, neighbourPoints, picked, onPick }, hover, getInks(dark));
  });
  const locatePointer = (event: MouseEvent) => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    return findNearest(frame, places, event.clientX - box.left, event.clientY - box.top);
  };
  const [x, y] = locatePoint(frame, places, picked);
  const describePoint = (point: number) => `${quotePiece(map.pieces[point])}, ${formatNumber(places[2 * point] as number)} across, ${formatNumber(places[2 * point + 1] as number)} up`;
  const onKeyDown = (event: KeyboardEvent) => {
    const move = KEY_MOVES[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    onPick(findNext(frame, places, picked, ...move));
  };
  return (
    <figure class="word-map-scatter">
      <div class="row">
        <label class="slider">
          zoom <input type="range" min={1} max={32} step={1} value={zoom} onInput={(event) => setZoom(Number(event.currentTarget.value))} />
        </label>
        <span class="quiet">Arrow keys go from piece to piece.</span>
      </div>
      <div class="word-map-canvas">
        <div ref={box}>
          <canvas
            ref={canvas}
            style={{ width: `${frame.width}px`, height: `${MAP_HEIGHT}px` }}
            aria-hidden="true"
            onMouseMove={(event) => setHover(locatePointer(event))}
            onMouseLeave={() => setHover(null)}
            onClick={(event) => {
              const point = locatePointer(event);
              if (point !== null) onPick(point);
            }}
          />
          <button type="button" class="word-map-here" style={{ left: `${x}px`, top: `${y}px` }} aria-label={`On the map: ${describePoint(picked)}`} onKeyDown={onKeyDown} />
        </div>
      </div>
      <figcaption aria-live="polite" class="word-map-readout">
        {describePoint(hover ?? picked)}
      </figcaption>
    </figure>
  );
}

const KEY_MOVES: Record<string, [number, number]> = {
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
};

function paintScatter(canvas: HTMLCanvasElement, frame: MapFrame, props: ScatterProps, hover: number | null, inks: Inks): void {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(frame.width * ratio);
  canvas.height = Math.round(frame.height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const { map, places, sentencePoints, neighbourPoints, picked } = props;
  pen.fillStyle = inks.hatch;
  for (let point = 0; point < map.pieces.length; point++) {
    const [x, y] = locatePoint(frame, places, point);
    if (x > -2 && y > -2 && x < frame.width + 2 && y < frame.height + 2) pen.fillRect(x - 1, y - 1, 2, 2);
  }
  const inkByPoint = new Map<number, string>([...neighbourPoints.map((point) => [point, inks.accent] as const), ...sentencePoints.map((point) => [point, inks.follow] as const)]);
  for (const [point, ink] of hover === null ? [[picked, inks.follow] as const] : ([[picked, inks.follow], [hover, inkByPoint.get(hover) ?? inks.ink]] as const)) {
    inkByPoint.delete(point); // so that it is drawn last, above the others
    inkByPoint.set(point, ink);
  }
  pen.font = "13px ui-sans-serif, system-ui, sans-serif";
  pen.lineJoin = "round";
  const marked = [...inkByPoint].map(([point, ink]) => {
    const [x, y] = locatePoint(frame, places, point);
    const text = (map.pieces[point] ?? "").replace(/^\u2581/, "");
    return { ink, text, x, y, width: pen.measureText(text).width };
  });
  for (const { ink, x, y } of marked) {
    pen.fillStyle = ink;
    pen.beginPath();
    if (ink === inks.accent) pen.arc(x, y, 4, 0, 2 * Math.PI);
    else pen.rect(x - 4, y - 4, 8, 8); // told apart by shape as well as by colour
    pen.fill();
  }
  const labels = [...marked].reverse(); // the last, above the others, is the first to get a place
  placeLabels(labels, frame.width).forEach((place, i) => {
    if (!place) return;
    const { ink, text } = labels[i]!;
    pen.fillStyle = ink;
    pen.strokeStyle = inks.panel;
    pen.lineWidth = 3;
    pen.strokeText(text, place.x, place.y);
    pen.fillText(text, place.x, place.y);
  });
}

interface LabelPlace {
  x: number;
  y: number;
  width: number;
}

/**
 * Places labels of these widths right or left of their points, where they are inside the frame and cover no
 * label before them. Gives the left end of each base line; null where there is no room, for the readout names any point.
 */
export function placeLabels(points: readonly LabelPlace[], frameWidth: number): (LabelPlace | null)[] {
  const placed: LabelPlace[] = [];
  return points.map(({ x, y, width }) => {
    const options = [x + 8, x - 8 - width].map((left) => ({ x: left, y: y + 4, width }));
    const isFree = (label: LabelPlace) => placed.every((other) => label.x >= other.x + other.width || other.x >= label.x + width || Math.abs(label.y - other.y) >= 15);
    const place = options.find((label) => label.x >= 0 && label.x + width <= frameWidth && isFree(label));
    if (place) placed.push(place);
    return place ?? null;
  });
}

interface MapFrame {
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
