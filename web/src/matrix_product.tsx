// A product of two matrices, drawn so that they meet: the left factor stands left of the product, the right factor above it.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { useApp, useAvailableSize } from "./hooks";
import { Matrix, type MatrixProps } from "./matrix";
import type { SheetAxis } from "./picture";
import { fitWhole, makeTextMeasurer, SCROLL_BAR } from "./sheet";
import { layOutProduct } from "./sheet_painting";

interface MatrixProductProps {
  /** The axes of the product, and the one that is summed over: the columns of the left factor, and the rows of the right one. */
  rows: SheetAxis;
  cols: SheetAxis;
  inner: SheetAxis;
  left: MatrixProps;
  above: MatrixProps;
  result: MatrixProps;
  /** What stands in the free corner. */
  children: ComponentChildren;
}

const CAPTION_WIDTH = 170; // CSS pixels: with fewer, the line below a narrow product would take four

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
          <Matrix {...above} layout={layouts.above} maxHeight={numbers ? 300 : Number.POSITIVE_INFINITY} framed={hover ? { col } : above.framed} />
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
