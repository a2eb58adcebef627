// Values and texts that teach mode can hide, and notes for numbers that are missing or loading.
import { formatNumber, type RichText } from "../format";
import { useApp } from "../hooks";

export function RichTextSpan(props: { text: RichText }) {
  return (
    <span>
      {props.text.map((part) => {
        if (typeof part === "string") return part;
        return <Value shown={typeof part === "number" ? formatNumber(part) : part.guess} />;
      })}
    </span>
  );
}

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

/** Shows a hatched note where something was not captured or does not exist. */
export function Missing(props: { message: string }) {
  return <p class="missing-note">{props.message}</p>;
}

export function Loading() {
  return <p class="quiet">Fetching the numbers…</p>;
}
