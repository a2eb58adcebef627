// The same numbers as a real table, for those who read tables.
import { useApp } from "./hooks";
import { positionName, type SheetProps } from "./picture";
import { exact } from "./readout";

const MOST = 4000; // cells of one table: a browser stays quick

export function SheetTable(props: SheetProps) {
  const { rows, cols, values, masked } = props;
  const hidden = useApp().hidden.value;
  const wide = Math.max(1, Math.min(cols.size, Math.floor(MOST / Math.min(rows.size, MOST))));
  const high = Math.min(rows.size, MOST);
  const cut = wide < cols.size || high < rows.size;
  const number = (length: number) => Array.from({ length }, (_, i) => i);
  return (
    <div class="sheet sheet-table scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <caption>
          {props.label}
          {cut ? ` — the first ${high} of ${rows.size} rows, ${wide} of ${cols.size} columns` : ""}
        </caption>
        <thead>
          <tr>
            <td />
            {number(wide).map((c) => (
              <th scope="col" key={c}>
                {cols.labels?.[c] ?? c}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {number(high).map((r) => (
            <tr key={r}>
              <th scope="row">{rows.labels?.[r] ?? (rows.dim === "1" ? "" : positionName(rows, r))}</th>
              {number(wide).map((c) => (
                <td key={c} class={masked?.(r, c) ? "hatched" : "mono"}>
                  {masked?.(r, c) ? <span class="unseen">masked</span> : hidden ? "?" : exact(values[r * cols.size + c] as number)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
