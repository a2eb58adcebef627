// A sheet of numbers: a canvas with the words beside it, a legend, the value under the pointer, and the keys.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, followCell } from "./followed_piece";
import { useApp } from "./hooks";
import { Legend } from "./legend";
import { cellSentence, positionName, type SheetProps } from "./picture";
import { exact } from "./readout";
import { cellAt, headerAt, type Layout, layoutOf, type View } from "./sheet_geometry";
import { measurer, scrollTo, useRoom } from "./sheet_measures";
import { paint } from "./sheet_painting";
import { SheetTable } from "./sheet_table";
import { inksOf, useDark } from "./theme";
import { Thumbnail } from "./thumbnail";

type Cell = readonly [number, number];

export function Sheet(props: SheetProps) {
  return props.bare ? <Thumbnail {...props} /> : <FullSheet {...props} />;
}

function FullSheet(props: SheetProps) {
  const app = useApp();
  const dark = useDark();
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const focus = useRef<HTMLDivElement>(null);
  const [room, font] = useRoom(frame);
  const [pinned, setPinned] = useState<Cell | null>(null);
  const [hover, setHover] = useState<Cell | null>(null);
  const numbers = app.numbers.value;
  const layout = useMemo(
    () => layoutOf(props, room, font, measurer(font), { cell: props.cell, maxHeight: props.maxHeight, numbers }),
    [room, font, numbers, props.rows, props.cols, props.cell, props.maxHeight],
  );
  const [whole, seen] = sizes(props, layout, room, props.maxHeight ?? 520);
  const view = (): View => ({
    layout,
    scrollLeft: frame.current?.scrollLeft ?? 0,
    scrollTop: frame.current?.scrollTop ?? 0,
    viewWidth: seen.width,
    viewHeight: seen.height,
    ratio: globalThis.devicePixelRatio || 1,
  });
  const marks = { follow: app.follow.value, pinned, hover, numbers, hidden: app.hidden.value };
  const draw = () => {
    const context = canvas.current?.getContext("2d");
    if (context && room > 0) paint(context, props, props.scale, view(), marks, inksOf(dark));
  };
  useLayoutEffect(() => {
    if (!canvas.current) return;
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.current.width = Math.round(seen.width * ratio);
    canvas.current.height = Math.round(seen.height * ratio);
    draw();
  });
  if (app.table.value) return <SheetTable {...props} />;

  const at: Cell = pinned ?? [0, 0];
  const pin = (cell: Cell) => {
    const [row, col] = [within(cell[0], props.rows.size), within(cell[1], props.cols.size)];
    setPinned([row, col]);
    scrollTo(frame.current, layout, seen, row, col);
    focus.current?.focus({ preventScroll: true });
  };
  const pointer = (event: MouseEvent): [number, number] => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const click = (event: MouseEvent) => {
    const cell = cellAt(props, view(), ...pointer(event));
    if (cell) return pin(cell);
    const header = headerAt(props, view(), ...pointer(event));
    if (header) follow(app, header.axis, header.at);
  };
  const keys = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (move) pin(pinned ? [at[0] + move[0], at[1] + move[1]] : at);
    else if (event.key === "Home") pin([at[0], 0]);
    else if (event.key === "End") pin([at[0], props.cols.size - 1]);
    else if (event.key === "Enter" && props.onOpen) props.onOpen(at[0], at[1]);
    else if (event.key === "f" || event.key === "F") followCell(app, props, at);
    else if (event.key === "Escape" && pinned) setPinned(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const told = hover ?? pinned;
  const sentence = marks.hidden ? "The values are hidden; press Space to show them." : cellSentence(props, at[0], at[1]);
  return (
    <figure class="sheet">
      <figcaption class="sheet-caption">
        <span class="sheet-label">{props.label}</span>
        {props.note ? <span class="quiet">{props.note}</span> : null}
        <Legend scale={props.scale} masked={props.masked !== undefined} />
      </figcaption>
      <div ref={frame} class="sheet-frame" style={{ maxHeight: `${props.maxHeight ?? 520}px` }} onScroll={draw}>
        <div class="sheet-space" style={{ width: `${whole.width}px`, height: `${whole.height}px` }}>
          <canvas
            ref={canvas}
            class="sheet-canvas"
            style={{ width: `${seen.width}px`, height: `${seen.height}px` }}
            aria-hidden="true"
            onClick={click}
            onDblClick={(event) => {
              const cell = cellAt(props, view(), ...pointer(event));
              if (cell) props.onOpen?.(...cell);
            }}
            onMouseMove={(event) => setHover(cellAt(props, view(), ...pointer(event)))}
            onMouseLeave={() => setHover(null)}
          />
          <div role="grid" aria-label={props.label} aria-rowcount={props.rows.size} aria-colcount={props.cols.size}>
            <div role="row" aria-rowindex={at[0] + 1}>
              <div
                ref={focus}
                role="gridcell"
                aria-colindex={at[1] + 1}
                aria-selected={pinned !== null}
                aria-label={sentence}
                tabIndex={0}
                class="sheet-cell"
                style={{
                  left: `${layout.left + at[1] * layout.width}px`,
                  top: `${layout.top + at[0] * layout.height}px`,
                  width: `${layout.width}px`,
                  height: `${layout.height}px`,
                }}
                onKeyDown={keys}
                onFocus={() => pinned ?? setPinned([0, 0])}
              />
            </div>
          </div>
        </div>
      </div>
      <p class="sheet-readout">
        {told && !marks.hidden ? <CellText {...props} told={told} /> : <span class="quiet">{marks.hidden ? "hidden · Space shows the values" : " "}</span>}
        {pinned && props.onOpen ? (
          <button type="button" class="link" onClick={() => props.onOpen?.(pinned[0], pinned[1])}>
            how this number is made
          </button>
        ) : null}
      </p>
      <p class="unseen" aria-live="polite">
        {pinned ? sentence : ""}
      </p>
    </figure>
  );
}

function CellText(props: SheetProps & { told: Cell }) {
  const { rows, cols, told, masked } = props;
  const [row, col] = told;
  return (
    <span>
      {rows.size > 1 || rows.labels ? <b>{positionName(rows, row)}</b> : null}
      {rows.size > 1 || rows.labels ? " · " : null}
      <b>{positionName(cols, col)}</b>{" "}
      {masked?.(row, col) ? "masked" : <output class="mono">{exact(props.values[row * cols.size + col] as number)}</output>}
    </span>
  );
}

const MOVES: Record<string, Cell> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function within(at: number, size: number): number {
  return Math.min(size - 1, Math.max(0, at));
}

function sizes(props: SheetProps, layout: Layout, room: number, maxHeight: number) {
  const width = layout.left + props.cols.size * layout.width + layout.right;
  const height = layout.top + props.rows.size * layout.height + 2;
  return [
    { width, height },
    { width: Math.min(width, Math.max(room, 40)), height: Math.min(height, maxHeight) },
  ] as const;
}
