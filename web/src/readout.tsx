// Numbers as text: exact to their 32 bits, or shortened.

/** Formats a number as the shortest decimal that reads as the same float32. */
export function formatExact(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const single = Math.fround(value);
  for (let digits = 1; digits <= 9; digits++) {
    const text = single.toPrecision(digits);
    if (Math.fround(Number(text)) === single) return writeMinus(text);
  }
  return writeMinus(String(single));
}

/** Formats a number with a few digits, for a cell or a bar whose exact value stands elsewhere. */
export function formatShort(value: number, digits = 2): string {
  if (!Number.isFinite(value)) return formatExact(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 10 ** -digits / 2)) return writeMinus(value.toExponential(1));
  return writeMinus(value.toFixed(size >= 100 ? Math.max(0, digits - 1) : digits));
}

function writeMinus(text: string): string {
  return text.replace("e+", "e").replace("-", "−").replace("e-", "e−");
}

/** Shows an unrounded value after an optional label. */
export function Readout(props: { value: number; label?: string }) {
  return (
    <span class="readout">
      {props.label ? <span class="quiet">{props.label} </span> : null}
      <output class="mono">{formatExact(props.value)}</output>
    </span>
  );
}
