// The legend of a sheet: the colours from its least value to its largest.
import { getColourTable, type Scale } from "./colour";
import { formatShort } from "./readout";

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
