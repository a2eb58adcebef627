// Many numbers as bars or as a curve on a canvas, with one of them picked; colours as in a matrix.

import { useEffect, useRef } from "preact/hooks";
import { makeSymmetricScale, toRgb } from "../colour";
import { useApp } from "../hooks";
import { useDark } from "../theme";

interface StripProps {
  values: number[];
  /** "sum": a curve of steps instead of bars. */
  kind: "bars" | "sum";
  label: string;
  picked: number;
  /** Drawn hatched: left out of the sum. */
  masked?: boolean[];
  onPick(place: number): void;
  onOpen?: (place: number) => void;
}

export function Strip(props: StripProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useDark();
  const hidden = useApp().hidden.value;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const draw = () => paintStrip(element, hidden ? { ...props, values: [] } : props, dark);
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    draw();
    return () => observer.disconnect();
  }, [props.values, props.picked, props.kind, dark, hidden]);
  const locatePointer = (event: MouseEvent): number => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * props.values.length);
    return Math.min(props.values.length - 1, Math.max(0, place));
  };
  return (
    <div class="strip">
      <span class="strip-name">{props.label}</span>
      <canvas
        ref={canvas}
        aria-hidden="true"
        onPointerMove={(event) => props.onPick(locatePointer(event))}
        onClick={(event) => props.onOpen?.(locatePointer(event))}
        class={props.onOpen ? "strip-open" : undefined}
      />
    </div>
  );
}

function paintStrip(canvas: HTMLCanvasElement, { values, kind, picked, masked }: StripProps, dark: boolean): void {
  const pixels = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * pixels);
  canvas.height = Math.round(height * pixels);
  const context = canvas.getContext("2d");
  if (!context || width === 0 || values.length === 0) return;
  context.scale(pixels, pixels);
  const ink = getComputedStyle(canvas).color;
  const finite = values.filter(Number.isFinite);
  const largest = Math.max(0, ...finite);
  const smallest = Math.min(0, ...finite);
  const y = (value: number) => 3 + ((largest - value) / (largest - smallest || 1)) * (height - 6);
  const step = width / values.length;
  context.fillStyle = ink;
  context.globalAlpha = 0.12;
  context.fillRect(picked * step, 0, Math.max(step, 1), height);
  context.globalAlpha = 0.5;
  context.fillRect(0, Math.round(y(0)), width, 1);
  context.globalAlpha = 1;
  if (kind === "sum") return paintCurve(context, values, step, y, ink);
  const scale = makeSymmetricScale(1, dark);
  values.forEach((value, i) => {
    const [r, g, b] = toRgb(Number.isFinite(value) ? 0.8 * Math.sign(value) : value, scale);
    context.fillStyle = `rgb(${r},${g},${b})`;
    const gap = step > 4 ? 1 : 0;
    const [top, bottom] = [Math.min(y(value), y(0)), Math.max(y(value), y(0))];
    if (masked?.[i]) paintHatching(context, i * step, step - gap, height, ink);
    else context.fillRect(i * step, top, Math.max(step - gap, 0.7), Math.max(bottom - top, value ? 1 : 0));
  });
}

type Pen = CanvasRenderingContext2D;

function paintCurve(context: Pen, values: number[], step: number, y: (value: number) => number, ink: string): void {
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(0, y(0));
  values.forEach((value, i) => {
    context.lineTo(i * step, y(value));
    context.lineTo((i + 1) * step, y(value));
  });
  context.stroke();
}

function paintHatching(context: Pen, x: number, width: number, height: number, ink: string): void {
  context.save();
  context.beginPath();
  context.rect(x, 0, width, height);
  context.clip();
  context.strokeStyle = ink;
  context.globalAlpha = 0.3;
  context.lineWidth = 1;
  for (let from = x - height; from < x + width; from += 6) {
    context.beginPath();
    context.moveTo(from, height);
    context.lineTo(from + height, 0);
    context.stroke();
  }
  context.restore();
}
