// One captured tensor as a sheet, and matrices side by side with the operations between them.
import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { makeTensorScale } from "./colour";
import { useApp, useAvailableSize, useDark, useLoaded, useTensor } from "./hooks";
import { findTensorRow } from "./network";
import type { Ink } from "./format";
import { type FramedCells, findMask, makeMergedPicture, makePicture, type SheetAxis, type SheetPlay } from "./picture";
import { fitWhole, makeTextMeasurer, SCROLL_BAR, Sheet } from "./sheet";
import { CAPTION_WIDTH, layOutProduct, type SheetLayout } from "./sheet_painting";
import type { App } from "./state";

export interface MatrixProps {
  tensor: string;
  /** Fixed dimensions, by letter: {H: 2}. The last two of the others are drawn, or the only one. */
  fixed?: Record<string, number>;
  /** Draws the transpose: the first of the two dimensions runs across, the second down. */
  transposed?: boolean;
  /** Title of the picture; by default the tensor's name. */
  label?: string;
  cell?: number;
  layout?: SheetLayout;
  maxHeight?: number;
  /** Draws all heads side by side. */
  merged?: boolean;
  /** Colour of the label: that of queries, keys or values. */
  ink?: Ink;
  /** Draws a thumbnail without words and keys. */
  bare?: boolean;
  /** The row, the column or the cell that is pointed at. */
  framed?: FramedCells;
  play?: SheetPlay;
  /** Called with the row and the column of a cell that is picked. */
  onPin?: (row: number, col: number) => void;
  /** Called with the cell under the pointer; null when it has gone. */
  onHover?: (cell: readonly [number, number] | null) => void;
  /** Called with the whole index of a cell, instead of opening the cell view. */
  onOpen?: (index: number[]) => void;
}

export function Matrix(props: MatrixProps) {
  const app = useApp();
  const dark = useDark();
  const manifest = app.manifest.value;
  const row = findTensorRow(manifest, props.tensor);
  const label = props.label ?? props.tensor;
  const maskName = (manifest && findMask(manifest, props.tensor)?.name) ?? "";
  const loaded = useTensor(props.tensor);
  const mask = useLoaded(
    async () => (maskName ? app.loadTensor(maskName) : null),
    `${manifest?.id} ${maskName}`,
    maskName ? app.peekTensor(maskName) : null,
  );
  const tensor = loaded.state === "ready" ? loaded.value : null;
  const allowed = mask.state === "ready" ? mask.value : null;
  const picture = useMemo(
    () =>
      manifest && tensor && mask.state !== "loading"
        ? props.merged
          ? makeMergedPicture(manifest, tensor.row, tensor.values)
          : makePicture(manifest, tensor.row, tensor.values, allowed, props.fixed, props.transposed)
        : null,
    [manifest, tensor, allowed, mask.state, JSON.stringify(props.fixed), props.transposed, props.merged],
  );
  if (!row || (loaded.state === "missing" && row.captured) || !row.captured)
    return <NotCaptured label={label} reason={loaded.state === "missing" ? loaded.message : undefined} bare={props.bare} />;
  if (!picture) return props.bare ? <span class="thumbnail waiting" /> : <div class="sheet waiting">{label}</div>;
  const openCell = (row: number, col: number) => {
    const index = picture.index(row, col);
    if (props.onOpen) props.onOpen(index);
    else app.goTo({ view: "cell", tensor: props.tensor, index });
  };
  const sizes = [picture.rows, picture.cols].filter((axis) => axis.dim !== "1").map((axis) => axis.size);
  return (
    <Sheet
      values={picture.values}
      rows={picture.rows}
      cols={picture.cols}
      masked={picture.masked}
      scale={makeTensorScale(row, dark)}
      label={label}
      note={[sizes.join(" × "), ...(row.edited ? ["replaced by an edit"] : [])].join(" · ")}
      cell={props.cell}
      layout={props.layout}
      maxHeight={props.maxHeight}
      bare={props.bare}
      subject={props.tensor}
      locate={picture.locate}
      ink={props.ink}
      framed={props.framed}
      play={props.play}
      onPin={props.onPin}
      onHover={props.onHover}
      onOpen={openCell}
    />
  );
}

/** Shows hatching where numbers would stand. */
export function NotCaptured(props: { label: string; reason?: string; bare?: boolean }) {
  if (props.bare) return <span class="thumbnail hatched" role="img" aria-label={`${props.label}: ${props.reason ?? "not captured"}`} />;
  return (
    <div class="sheet missing hatched" role="note">
      <span class="plate">
        <b>{props.label}</b> {props.reason ?? "not captured"}
      </span>
    </div>
  );
}

interface FlowStepProps {
  /** Operation that leads here from the matrix before. */
  sign?: string;
  /** Number of columns with words above them, and with numbers: they decide how much room is needed. */
  words?: number;
  numbers?: number;
  caption?: string;
  children: ComponentChildren;
}

export function FlowStep(props: FlowStepProps) {
  const app = useApp();
  const { sign, words = 0, numbers = 0, caption } = props;
  const letterScale = getLetterScale(app);
  const before = sign ? 22 + 9 * Math.min(sign.length, 14) : 0;
  const column = app.numbers.value ? 46 : (chooseCellSize(app, words) ?? 22 * letterScale) / letterScale;
  const narrow = Math.min(512, Math.max(2 * numbers, Math.min(5 * numbers, 160)));
  const room = Math.round(letterScale * (before + Math.max(190, (words ? 125 : 80) + words * column + narrow)));
  const maxWidth = words ? `${Math.round(room * (words > 10 ? 1.05 : 1.25))}px` : undefined;
  return (
    <div class="flow-step" style={{ flexBasis: `${room}px`, maxWidth }}>
      {sign ? <span class="flow-sign">{sign}</span> : null}
      <div class="flow-matrix">
        {props.children}
        {caption ? <p class="quiet">{caption}</p> : null}
      </div>
    </div>
  );
}

/** Chooses the height of a matrix with this many rows of words; a longer one scrolls. */
export function chooseHeight(rows: number): number {
  return Math.min(760, 140 + 40 * rows);
}

/** Chooses smaller cells for long sentences, so that two matrices fit side by side; otherwise leaves it to the matrix. */
export function chooseCellSize(app: App, words: number): number | undefined {
  return words > MANY_WORDS && !app.numbers.value ? 15 * getLetterScale(app) : undefined;
}

const MANY_WORDS = 16;

/** Gets how much larger letters are in teach mode. */
function getLetterScale(app: App): number {
  return app.mode.value === "teach" ? 1.35 : 1;
}

/** A matrix of a product: one of a trace, or one that draws itself, such as trained weights. */
export type Factor = MatrixProps | DrawnFactor;

interface DrawnFactor {
  label: string;
  framed?: FramedCells;
  draw(shared: Pick<MatrixProps, "layout" | "maxHeight" | "framed">): ComponentChildren;
}

function drawFactor(factor: Factor, shared: Pick<MatrixProps, "layout" | "maxHeight" | "framed">): ComponentChildren {
  return "draw" in factor ? factor.draw(shared) : <Matrix {...factor} {...shared} />;
}

interface MatrixProductProps {
  /** The axes of the product, and the one that is summed over: the columns of the left factor, and the rows of the right one. */
  rows: SheetAxis;
  cols: SheetAxis;
  inner: SheetAxis;
  left: MatrixProps;
  above: Factor;
  result: MatrixProps;
  /** What stands in the free corner. */
  children: ComponentChildren;
}

/** A product of two matrices, drawn so that they meet: the left factor stands left of the product, the right factor above it. */
export function MatrixProduct(props: MatrixProductProps) {
  const app = useApp();
  const { rows, cols, inner, left, above, result } = props;
  const box = useRef<HTMLDivElement>(null);
  const [room, font] = useAvailableSize(box);
  const [hover, setHover] = useState<readonly [number, number] | null>(null);
  const numbers = app.numbers.value;
  const layouts = layOutProduct({ rows, cols, inner }, room || 800, font, makeTextMeasurer(font), numbers);
  const measureWidth = (layout: typeof layouts.left, size: number) => layout.left + size * layout.width + layout.right;
  const wholeLeft = measureWidth(layouts.left, inner.size);
  const leftWidth = numbers ? fitWhole(wholeLeft, 0.5 * room, layouts.left.left, layouts.left.width) : wholeLeft;
  const rightWidth = Math.max(measureWidth(layouts.above, cols.size), layouts.above.left + Math.max(measureWidth(layouts.result, cols.size), CAPTION_WIDTH)) + (numbers ? SCROLL_BAR : 0);
  const isWider = leftWidth + rightWidth > room;
  const header = leftWidth + layouts.above.left;
  const [row, col] = hover ?? [];
  const label = `${left.label} times ${above.label} gives ${result.label}`;
  return (
    <div ref={box} class="product" role="group" aria-label={label} tabIndex={isWider ? 0 : undefined} style={{ maxWidth: isWider ? `${fitWhole(leftWidth + rightWidth, room, header, layouts.above.width)}px` : undefined }}>
      <div class="product-grid" style={{ gridTemplateColumns: `${leftWidth}px ${rightWidth}px` }}>
        <div class="product-corner">{props.children}</div>
        <div class="product-above">
          {drawFactor(above, {
            layout: layouts.above,
            maxHeight: numbers ? 300 : Number.POSITIVE_INFINITY,
            framed: hover ? { col } : above.framed,
          })}
        </div>
        <div class="product-left">
          <Matrix {...left} layout={layouts.left} maxHeight={Number.POSITIVE_INFINITY} framed={hover ? { row } : left.framed} />
        </div>
        <div class="product-result" style={{ paddingLeft: `${layouts.above.left}px`, paddingTop: `${layouts.left.top}px` }}>
          <Matrix {...result} layout={layouts.result} maxHeight={Number.POSITIVE_INFINITY} framed={hover ? { row, col } : result.framed} onHover={setHover} />
        </div>
      </div>
    </div>
  );
}
