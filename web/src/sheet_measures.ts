// Measures on the page: the room that a sheet has, and the width of its texts.
import { useEffect, useState } from "preact/hooks";
import type { SheetLayout } from "./sheet_geometry";

/** Scrolls the frame until a cell is neither under a header nor beyond the edge. */
export function scrollToCell(frame: HTMLDivElement | null, layout: SheetLayout, visible: { width: number; height: number }, row: number, col: number): void {
  if (!frame) return;
  const [x, y] = [col * layout.width, row * layout.height];
  frame.scrollLeft = Math.min(x, Math.max(frame.scrollLeft, x + layout.width + layout.left - visible.width));
  frame.scrollTop = Math.min(y, Math.max(frame.scrollTop, y + layout.height + layout.top - visible.height));
}

/** Measures the width available for a sheet and its font size, again whenever the page changes. */
export function useAvailableSize(frame: { current: HTMLDivElement | null }): [number, number] {
  const [room, setRoom] = useState<[number, number]>([0, 12]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = () => {
      const font = Math.round(Number.parseFloat(getComputedStyle(element).fontSize) || 12);
      const width = Math.floor(element.parentElement?.clientWidth ?? 0);
      setRoom((now) => (now[0] === width && now[1] === font ? now : [width, font]));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element.parentElement ?? element);
    measure();
    return () => observer.disconnect();
  });
  return room;
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
