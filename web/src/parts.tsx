// Parts that several screens share: values that teach mode can hide, pieces, legends, bar charts and strips of numbers.
import type { ComponentChild, JSX, RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { getColourTable, makeSymmetricScale, type Scale, toRgb } from "./colour";
import { formatNumber, formatShort } from "./format";
import { type Loaded, useApp, useDark } from "./hooks";
import { type AttentionParts, describeSection } from "./network";

/** Shows a value, or a gap of the same width while teach mode hides it. */
export function Value(props: { shown: string; exact?: string }) {
  const hidden = useApp().hidden.value;
  return hidden ? (
    <span class="value-hidden" role="img" aria-label="hidden until Space">
      {"?".padEnd(props.shown.length, "\u00a0")}
    </span>
  ) : (
    <span class="value-shown" title={props.exact}>
      {props.shown}
    </span>
  );
}

/** Shows a number with three digits, hidden in teach mode; its title has all digits. */
export function NumberValue({ value, shown }: { value: number; shown?: string }) {
  return <Value shown={shown ?? formatNumber(value)} exact={String(value)} />;
}

/** Shows a hatched note where something was not captured or does not exist. */
export function Missing(props: { message: string }) {
  return <p class="missing-note">{props.message}</p>;
}

export function Loading() {
  return <p class="quiet">Fetching the numbers…</p>;
}

/** Stands where numbers will be or should have been; nothing once they are there. */
export function NotReady({ loaded }: { loaded: Loaded<unknown> }) {
  if (loaded.state === "ready") return null;
  return loaded.state === "loading" ? <Loading /> : <Missing message={loaded.message} />;
}

export const SPACE = "▁";

export function Piece(props: { text: string }) {
  const { text } = props;
  const [, bracket = "", rest] = /^(\(?)\u2581(.*)$/su.exec(text) ?? []; // a bracket marks the sentence before
  if (rest === undefined) return <>{text}</>;
  return (
    <>
      {bracket}
      <span class="space-mark">{SPACE}</span>
      {rest}
    </>
  );
}

export function Legend(props: { scale: Scale; masked?: boolean }) {
  const { scale } = props;
  const table = getColourTable(scale);
  const stops = Array.from({ length: 17 }, (_, i) => `rgb(${table[Math.round((i / 16) * (table.length - 1))]?.join(",")})`);
  const [least, largest] = scale.kind === "sequential" ? [`${scale.least}`, `${scale.largest}`] : [formatShort(scale.least), formatShort(scale.largest)];
  const ends = `colours from ${least} to ${largest}`;
  return (
    <span class="legend" role="img" aria-label={props.masked ? `${ends}; masked cells are hatched` : ends}>
      <span class="mono">{least}</span>
      <span class="legend-bar" style={{ backgroundImage: `linear-gradient(to right, ${stops.join(", ")})` }} />
      <span class="mono">{largest}</span>
      {props.masked ? (
        <>
          <span class="legend-masked hatched" /> masked
        </>
      ) : null}
    </span>
  );
}

const LONG_LABEL = 16; // letters of a name that needs more room

interface Bar {
  label: string;
  value: number;
  shown: string;
  /** Stands out: the piece that was chosen. */
  mark?: string;
  /** Another number of the same thing, which has no length. */
  beside?: JSX.Element;
  /** By which the story finds the number. */
  spot?: { "data-spoken"?: string };
  onOpen?: () => void;
}

interface BarsProps {
  bars: Bar[];
  caption: string;
  reach?: number;
  /** Leaves room for negative bars though there are none, so that bars of several tables can be compared. */
  signed?: boolean;
  table?: RefObject<HTMLTableElement | null>;
}

/** Shows bars; one of full length has the value `reach`, by default the largest of the bars. */
export function Bars(props: BarsProps) {
  const reach = props.reach ?? Math.max(...props.bars.map((bar) => Math.abs(bar.value)), 1e-30); // never 0: lengths are divided by it
  const isExact = useApp().table.value; // unrounded, as in every table
  const signed = props.signed || props.bars.some((bar) => bar.value < 0);
  const isLong = signed || props.bars.some((bar) => bar.label.length > LONG_LABEL);
  return (
    <table ref={props.table} class={`bars${signed ? " bars-signed" : ""}${isLong ? " bars-long" : ""}${isExact ? " bars-exact" : ""}`}>
      <caption>{props.caption}</caption>
      <tbody>
        {props.bars.map((bar) => (
          <tr class={bar.mark ? "bars-marked" : undefined}>
            <th scope="row">
              {bar.onOpen ? (
                <button type="button" class="bars-link" onClick={bar.onOpen}>
                  {bar.label}
                </button>
              ) : (
                bar.label
              )}
              {bar.mark && <span class="bars-mark"> {bar.mark}</span>}
            </th>
            <td>
              <BarLength share={Math.min(1, Math.abs(bar.value) / reach)} negative={bar.value < 0} signed={signed} />
            </td>
            {props.bars.some((other) => other.beside) && <td class="mono bars-number">{bar.beside}</td>}
            <td class="mono bars-number" {...bar.spot}>
              <Value shown={isExact ? String(bar.value).replace("-", "−") : bar.shown} exact={String(bar.value)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function BarLength(props: { share: number; negative: boolean; signed: boolean }) {
  const hidden = useApp().hidden.value;
  const width = `${(props.share * (props.signed ? 50 : 100)).toFixed(2)}%`;
  const left = props.signed ? (props.negative ? `${(50 - props.share * 50).toFixed(2)}%` : "50%") : "0";
  return (
    <span class="bars-track" aria-hidden="true">
      {!hidden && <span class={props.negative ? "bars-bar bars-negative" : "bars-bar"} style={{ width, left }} />}
    </span>
  );
}

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

/** A slider for whole numbers. */
export function Slider(props: { name: string; value: number; max: number; min?: number; onChange: (value: number) => void }) {
  const onInput = (event: { currentTarget: HTMLInputElement }) => props.onChange(Math.round(Number(event.currentTarget.value)));
  return (
    <label class="slider">
      {props.name} <input type="range" min={props.min ?? 0} max={props.max} value={props.value} onInput={onInput} /> <output class="mono">{props.value}</output>
    </label>
  );
}

type Option = readonly [value: string, text: string];

/** A labelled menu of texts, each with the value that stands for it. */
export function Menu(props: { label: string; value: string; options: readonly Option[]; onPick: (value: string) => void }) {
  return (
    <label>
      {props.label}{" "}
      <select value={props.value} onChange={(event) => props.onPick(event.currentTarget.value)}>
        {props.options.map(([value, text]) => (
          <option value={value}>{text}</option>
        ))}
      </select>
    </label>
  );
}

/** A labelled menu of texts that are known by their number, from 0. */
export function NumberMenu(props: { label: string; value: number; texts: string[]; onPick: (number: number) => void }) {
  const options = props.texts.map((text, i): Option => [String(i), text]);
  return <Menu label={props.label} value={String(props.value)} options={options} onPick={(value) => props.onPick(Number(value))} />;
}

/** A menu of heads, which are counted from 1 on the page. */
export function HeadMenu(props: { label: string; heads: number; head: number; onHead: (head: number) => void }) {
  const texts = Array.from({ length: props.heads }, (_, h) => String(h + 1));
  return <NumberMenu label={props.label} value={props.head} texts={texts} onPick={props.onHead} />;
}

/** A menu of attentions, each by its section. */
export function AttentionMenu(props: { label: string; attentions: AttentionParts[]; section: string; onSection: (section: string) => void }) {
  const options = props.attentions.map(({ section }): Option => [section, describeSection(section)]);
  return <Menu label={props.label} value={props.section} options={options} onPick={props.onSection} />;
}

interface NumberTableProps {
  label: string;
  caption?: string;
  columns: string[]; // the first stands above the headings of the rows
  rows: (readonly [heading: ComponentChild, ...numbers: ComponentChild[]])[];
}

/** A table of numbers with a heading for each row and each column. */
export function NumberTable({ label, caption, columns, rows }: NumberTableProps) {
  return (
    <table class="plain-table" aria-label={label}>
      {caption && <caption class="quiet">{caption}</caption>}
      <thead>
        <tr>
          {columns.map((column) => (column ? <th scope="col">{column}</th> : <td />))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([heading, ...numbers]) => (
          <tr>
            <th scope="row">{heading}</th>
            {numbers.map((number) => (
              <td class="mono">{number}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
