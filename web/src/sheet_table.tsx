// A sheet of numbers as a real table, for screen readers and for those who prefer tables.
import { useApp } from "./hooks";
import { namePosition, type SheetProps } from "./picture";
import { formatExact } from "./readout";

const MAX_CELLS = 4000; // cells of one table: a browser stays quick

export function SheetTable(props: SheetProps) {
  const { rows, cols, values, masked } = props;
  const hidden = useApp().hidden.value;
  const colCount = Math.max(1, Math.min(cols.size, Math.floor(MAX_CELLS / Math.min(rows.size, MAX_CELLS))));
  const rowCount = Math.min(rows.size, MAX_CELLS);
  const isCut = colCount < cols.size || rowCount < rows.size;
  const makeRange = (length: number) => Array.from({ length }, (_, i) => i);
  return (
    <div class="sheet sheet-table scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <caption>
          {props.label}
          {isCut ? ` — the first ${rowCount} of ${rows.size} rows, ${colCount} of ${cols.size} columns` : ""}
        </caption>
        <thead>
          <tr>
            <td />
            {makeRange(colCount).map((c) => (
              <th scope="col" key={c}>
                {cols.labels?.[c] ?? c}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {makeRange(rowCount).map((r) => (
            <tr key={r}>
              <th scope="row">{rows.labels?.[r] ?? (rows.dim === "1" ? "" : namePosition(rows, r))}</th>
              {makeRange(colCount).map((c) => (
                <td key={c} class={masked?.(r, c) ? "hatched" : "mono"}>
                  {masked?.(r, c) ? <span class="unseen">masked</span> : hidden ? "?" : formatExact(values[r * cols.size + c] as number)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
