// A bar chart that is a real table: names, bars (to the left of zero where negative) and numbers.
import { useApp } from "../hooks";
import { Value } from "./values";

const LONG_LABEL = 16; // letters of a name that needs more room

export interface Bar {
  label: string;
  value: number;
  shown: string;
  /** Stands out: the piece that was chosen. */
  mark?: string;
  onOpen?: () => void;
}

/** Shows bars; one of full length has the value `reach`, by default the largest of the bars. */
export function Bars(props: { bars: Bar[]; caption: string; reach?: number }) {
  const reach = props.reach ?? Math.max(...props.bars.map((bar) => Math.abs(bar.value)), 1e-30); // never 0: lengths are divided by it
  const isExact = useApp().table.value; // unrounded, as in every table
  const signed = props.bars.some((bar) => bar.value < 0);
  const isLong = signed || props.bars.some((bar) => bar.label.length > LONG_LABEL);
  return (
    <table class={`bars${signed ? " bars-signed" : ""}${isLong ? " bars-long" : ""}${isExact ? " bars-exact" : ""}`}>
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
            <td class="mono bars-number">
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
