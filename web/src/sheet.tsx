// A sheet of numbers: a canvas with its headers, a legend, the value under the pointer, and its keys; or a table, or a thumbnail.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { getInks } from "./colour";
import { formatExact } from "./format";
import { useApp, useAvailableSize, useDark, usePainter } from "./hooks";
import { toggleFollow, toggleFollowCell } from "./navigation";
import { Legend } from "./parts";
import { describeCell, type FramedCells, namePosition, type SheetProps } from "./picture";
import {
  findCell,
  findHeader,
  findPlayedCells,
  layOutSheet,
  paintPlayedSheet,
  paintSheet,
  paintThumbnail,
  type SheetLayout,
  type SheetView,
} from "./sheet_painting";
import type { PlayFrame } from "./play";
import { writeSpot } from "./spots";
import type { App } from "./state";

type Cell = readonly [number, number];
type Size = { width: number; height: number };

export function Sheet(props: SheetProps) {
  return props.bare ? <Thumbnail {...props} /> : <FullSheet {...props} />;
}

function FullSheet(props: SheetProps) {
  const app = useApp();
  const dark = useDark();
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const focus = useRef<HTMLDivElement>(null);
  const [room, font] = useAvailableSize(frame);
  const [pinned, setPinned] = useState<Cell | null>(null);
  const [hover, setHover] = useState<Cell | null>(null);
  const numbers = app.numbers.value;
  const layout = useMemo(
    () => props.layout ?? layOutSheet(props, room, font, makeTextMeasurer(font), { cell: props.cell, maxHeight: props.maxHeight, numbers }),
    [room, font, numbers, props.rows, props.cols, props.cell, props.maxHeight, JSON.stringify(props.layout)],
  );
  const [wholeSize, visibleSize] = computeSizes(props, layout, room, props.maxHeight ?? 520);
  const view = (): SheetView => ({
    layout,
    scrollLeft: frame.current?.scrollLeft ?? 0,
    scrollTop: frame.current?.scrollTop ?? 0,
    viewWidth: visibleSize.width,
    viewHeight: visibleSize.height,
    ratio: globalThis.devicePixelRatio || 1,
  });
  const framed = props.framed ?? {};
  const marks = {
    follow: app.followed.value,
    framed,
    dimmed: app.story.value !== null,
    pinned,
    hover,
    numbers,
    hidden: app.hidden.value,
  };
  const whole = useRef<HTMLCanvasElement | null>(null); // the sheet as it is without the play, while it is played
  const painted = useRef(""); // what is drawn of the play
  const isPlayed = props.play !== undefined && app.player.state.value !== "off";
  const draw = () => {
    whole.current = isPlayed ? (whole.current ?? document.createElement("canvas")) : null;
    const target = whole.current ?? canvas.current;
    if (!canvas.current || !target) return;
    const ratio = globalThis.devicePixelRatio || 1;
    for (const sized of new Set([canvas.current, target])) {
      sized.width = Math.round(visibleSize.width * ratio);
      sized.height = Math.round(visibleSize.height * ratio);
    }
    const context = target.getContext("2d");
    if (context && room > 0) paintSheet(context, props, props.scale, view(), marks, getInks(dark));
    painted.current = "";
    drawPlayed(app.player.getFrame());
  };
  const drawPlayed = (frame: PlayFrame | null) => {
    const context = canvas.current?.getContext("2d");
    const played = findPlayedCells(props, frame);
    if (!context || !whole.current || !played || room === 0) return;
    const state = JSON.stringify(played);
    if (state === painted.current) return;
    painted.current = state;
    paintPlayedSheet(context, whole.current, props, view(), marks.hidden ? { ...played, sum: "" } : played, getInks(dark));
  };
  useLayoutEffect(draw);
  usePainter(canvas, drawPlayed);
  const spot = findSpoken(app, props);
  useLayoutEffect(() => {
    if (spot && room > 0) scrollToCell(frame.current, layout, visibleSize, spot.row ?? 0, spot.col ?? 0);
  }, [spot?.row, spot?.col, layout]);
  useLayoutEffect(() => {
    if (framed.row !== undefined && room > 0) scrollToCell(frame.current, layout, visibleSize, framed.row, framed.col ?? 0);
  }, [framed.row, framed.col, layout]);
  if (app.table.value) return <SheetTable {...props} />;

  const cursor: Cell = pinned ?? [0, 0];
  const pin = (cell: Cell) => {
    const [row, col] = [clamp(cell[0], props.rows.size), clamp(cell[1], props.cols.size)];
    setPinned([row, col]);
    props.onPin?.(row, col);
    scrollToCell(frame.current, layout, visibleSize, row, col);
    focus.current?.focus({ preventScroll: true }); // scrollToCell has scrolled already
  };
  const locatePointer = (event: MouseEvent): [number, number] => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const showHover = (cell: Cell | null) => {
    setHover(cell);
    props.onHover?.(cell);
  };
  const onClick = (event: MouseEvent) => {
    const cell = findCell(props, view(), ...locatePointer(event));
    if (cell) return pin(cell);
    const header = findHeader(props, view(), ...locatePointer(event));
    if (header) toggleFollow(app, header.axis, header.at);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = KEY_MOVES[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (move) pin(pinned ? [cursor[0] + move[0], cursor[1] + move[1]] : cursor);
    else if (event.key === "Home") pin([cursor[0], 0]);
    else if (event.key === "End") pin([cursor[0], props.cols.size - 1]);
    else if (event.key === "Enter" && props.onOpen) props.onOpen(cursor[0], cursor[1]);
    else if (event.key === "f" || event.key === "F") toggleFollowCell(app, props, cursor);
    else if (event.key === "Escape" && pinned) setPinned(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const shownCell = hover ?? pinned;
  const sentence = marks.hidden ? "The values are hidden; press Space to show them." : describeCell(props, cursor[0], cursor[1]);
  return (
    <figure class={isSubject(app, props) ? "sheet sheet-subject" : "sheet"} data-subject={props.subject}>
      <figcaption class="sheet-caption">
        <span class={props.ink ? `sheet-label ink-${props.ink}` : "sheet-label"}>{props.label}</span>
        {props.note ? <span class="quiet">{props.note}</span> : null}
        <Legend scale={props.scale} masked={props.masked !== undefined} />
        <span class="quiet">{describeRest(props, layout, visibleSize, wholeSize)}</span>
      </figcaption>
      <div ref={frame} class="sheet-frame" style={{ maxHeight: `${visibleSize.height + (visibleSize.width < wholeSize.width ? SCROLL_BAR : 0)}px` }} onScroll={draw}>
        <div class="sheet-space" style={{ width: `${wholeSize.width}px`, height: `${wholeSize.height}px` }}>
          <canvas
            ref={canvas}
            class="sheet-canvas"
            style={{ width: `${visibleSize.width}px`, height: `${visibleSize.height}px` }}
            aria-hidden="true"
            onClick={onClick}
            onDblClick={(event) => {
              const cell = findCell(props, view(), ...locatePointer(event));
              if (cell) props.onOpen?.(...cell);
            }}
            onMouseMove={(event) => showHover(findCell(props, view(), ...locatePointer(event)))}
            onMouseLeave={() => showHover(null)}
          />
          {spot && <SpokenFrame spot={spot} layout={layout} props={props} />}
          <div role="grid" aria-label={props.label} aria-rowcount={props.rows.size} aria-colcount={props.cols.size}>
            <div role="row" aria-rowindex={cursor[0] + 1}>
              <div
                ref={focus}
                role="gridcell"
                aria-colindex={cursor[1] + 1}
                aria-selected={pinned !== null}
                aria-label={sentence}
                tabIndex={0}
                class="sheet-cell"
                style={{
                  left: `${layout.left + cursor[1] * layout.width}px`,
                  top: `${layout.top + cursor[0] * layout.height}px`,
                  width: `${layout.width}px`,
                  height: `${layout.height}px`,
                }}
                onKeyDown={onKeyDown}
                onFocus={() => pinned ?? setPinned([0, 0])}
              />
            </div>
          </div>
        </div>
      </div>
      <p class="sheet-readout">
        {shownCell && !marks.hidden ? <CellText {...props} shown={shownCell} /> : <span class="quiet">{marks.hidden ? "hidden · press Space to show the values" : " "}</span>}
        {pinned && props.onOpen ? (
          <button type="button" class="link" onClick={() => props.onOpen?.(pinned[0], pinned[1])}>
            how this number is computed
          </button>
        ) : null}
      </p>
      <p class="unseen" aria-live="polite">
        {pinned ? sentence : ""}
      </p>
    </figure>
  );
}

/** Says that a sheet goes on beyond its frame, as scroll bars do not in every browser; nothing where it is whole. */
function describeRest({ rows, cols }: SheetProps, layout: SheetLayout, visible: Size, whole: Size): string {
  const isLonger = visible.height < whole.height;
  if (!isLonger && visible.width >= whole.width) return "";
  const [size, count] = isLonger
    ? [rows.size, (visible.height - layout.top) / layout.height]
    : [cols.size, (visible.width - layout.left) / layout.width];
  return `${Math.round(count)} of ${size} ${isLonger ? "rows" : "columns"} in view: scroll for more`;
}

/** Finds the cell, the row or the column of this sheet that the story speaks of; null where it speaks of none. */
function findSpoken(app: App, props: SheetProps): FramedCells | null {
  const spoken = app.spoken.value;
  return (spoken && spoken.name === props.subject && props.locate?.(spoken.index)) || null;
}

/** Frames the cells that the story speaks of. */
function SpokenFrame({ spot: { row, col }, layout, props }: { spot: FramedCells; layout: SheetLayout; props: SheetProps }) {
  const spoken = useApp().spoken.value;
  const box = {
    left: layout.left + (col ?? 0) * layout.width,
    top: layout.top + (row ?? 0) * layout.height,
    width: layout.width * (col === undefined ? props.cols.size : 1),
    height: layout.height * (row === undefined ? props.rows.size : 1),
  };
  const style = Object.fromEntries(Object.entries(box).map(([side, size]) => [side, `${size}px`]));
  return <span class="sheet-spoken" data-spoken={spoken ? writeSpot(spoken) : undefined} style={style} />;
}

/** Tells whether the story speaks of this sheet now. */
function isSubject(app: App, props: SheetProps): boolean {
  return app.story.value !== null && props.subject !== undefined && app.subjects.value[0] === props.subject;
}

function CellText(props: SheetProps & { shown: Cell }) {
  const { rows, cols, shown, masked } = props;
  const [row, col] = shown;
  return (
    <span>
      {rows.size > 1 || rows.labels ? <b>{namePosition(rows, row)}</b> : null}
      {rows.size > 1 || rows.labels ? " · " : null}
      <b>{namePosition(cols, col)}</b>{" "}
      {masked?.(row, col) ? "masked" : <output class="mono">{formatExact(props.values[row * cols.size + col] as number)}</output>}
    </span>
  );
}

const KEY_MOVES: Record<string, Cell> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function clamp(position: number, size: number): number {
  return Math.min(size - 1, Math.max(0, position));
}

function computeSizes(props: SheetProps, layout: SheetLayout, room: number, maxHeight: number) {
  const width = layout.left + props.cols.size * layout.width + layout.right;
  const height = layout.top + props.rows.size * layout.height + 2;
  return [
    { width, height },
    { width: fitWhole(width, Math.max(room, 40), layout.left, layout.width), height: fitWhole(height, maxHeight, layout.top + 2, layout.height) },
  ] as const;
}

export const SCROLL_BAR = 15; // pixels at most, beside the last whole row

/** Fits a length into the room: whole if it can be, else with as many whole cells behind its header as there is room for. */
export function fitWhole(length: number, room: number, header: number, cell: number): number {
  return length <= room ? length : header + Math.max(1, Math.floor((room - header) / cell)) * cell;
}

/** Scrolls the frame until a cell is neither under a header nor beyond the edge. */
function scrollToCell(frame: HTMLDivElement | null, layout: SheetLayout, visible: { width: number; height: number }, row: number, col: number): void {
  if (!frame) return;
  const [x, y] = [col * layout.width, row * layout.height];
  frame.scrollLeft = Math.min(x, Math.max(frame.scrollLeft, x + layout.width + layout.left - visible.width));
  frame.scrollTop = Math.min(y, Math.max(frame.scrollTop, y + layout.height + layout.top - visible.height));
}

let pen: CanvasRenderingContext2D | null = null;

export function makeTextMeasurer(font: number): (text: string) => number {
  pen ??= document.createElement("canvas").getContext("2d");
  return (text) => {
    if (!pen) return text.length * font * 0.6;
    pen.font = `bold ${font}px ui-sans-serif, system-ui, sans-serif`;
    return pen.measureText(text).width;
  };
}

const MAX_CELLS = 4000; // cells of one table: a browser stays quick

function SheetTable(props: SheetProps) {
  const { rows, cols, values, masked } = props;
  const app = useApp();
  const hidden = app.hidden.value;
  const spot = findSpoken(app, props);
  const isSpoken = (row: number, col: number) => spot !== null && (spot.row ?? row) === row && (spot.col ?? col) === col;
  const colCount = Math.max(1, Math.min(cols.size, Math.floor(MAX_CELLS / Math.min(rows.size, MAX_CELLS))));
  const rowCount = Math.min(rows.size, MAX_CELLS);
  const isCut = colCount < cols.size || rowCount < rows.size;
  const makeRange = (length: number) => Array.from({ length }, (_, i) => i);
  return (
    <div class="sheet sheet-table scroll" tabIndex={0} role="region" aria-label={props.label} data-subject={props.subject}>
      <table>
        <caption>
          {props.label}
          {isCut ? ` — the first ${rowCount} of ${rows.size} rows, ${colCount} of ${cols.size} columns` : ""}
        </caption>
        <thead>
          <tr>
            <td />
            {makeRange(colCount).map((col) => (
              <th scope="col" key={col}>
                {cols.labels?.[col] ?? col}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {makeRange(rowCount).map((row) => (
            <tr key={row} class={props.framed?.row === row ? "picked-row" : ""}>
              <th scope="row">{rows.labels?.[row] ?? (rows.dim === "1" ? "" : namePosition(rows, row))}</th>
              {makeRange(colCount).map((col) => (
                <td
                  key={col}
                  class={masked?.(row, col) ? "hatched" : "mono"}
                  data-spoken={isSpoken(row, col) && app.spoken.value ? writeSpot(app.spoken.value) : undefined}
                >
                  {masked?.(row, col) ? <span class="unseen">masked</span> : hidden ? "?" : formatExact(values[row * cols.size + col] as number)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Thumbnail(props: SheetProps) {
  const dark = useDark();
  const hidden = useApp().hidden.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const side = props.cell ?? Math.max(1, Math.ceil(96 / Math.max(props.rows.size, props.cols.size)));
    if (!canvas.current) return;
    if (hidden) canvas.current.width = canvas.current.width; // empties it
    else paintThumbnail(canvas.current, props, props.scale, Math.round(side), getInks(dark));
  }, [props.values, props.scale.largest, props.scale.kind, dark, hidden]);
  return <canvas ref={canvas} class="thumbnail" role="img" aria-label={props.label} />;
}
