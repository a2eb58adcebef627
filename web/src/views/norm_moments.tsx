// Effect of a norm on each vector: mean and standard deviation before and after.

import { formatNumber, quotePiece } from "../format";
import { useApp, useTensor } from "../hooks";
import { getPositionDim } from "../network";
import { formatExact } from "../readout";
import type { Tensor } from "../state";
import { listLabels } from "../tensor_graph";
import type { Manifest, TensorRow } from "../types";
import { Loading, Missing, Value } from "./values";

export function MeansAndDeviations(props: { manifest: Manifest; row: TensorRow; before: string }) {
  const app = useApp();
  const before = useTensor(props.before);
  const after = useTensor(props.row.name);
  if (before.state === "missing") return <Missing message={before.message} />;
  if (after.state === "missing") return <Missing message={after.message} />;
  if (before.state === "loading" || after.state === "loading") return <Loading />;
  const dim = getPositionDim(props.row);
  const labels = dim ? listLabels(props.manifest, dim) : [];
  const [momentsBefore, momentsAfter] = [computeMoments(before.value), computeMoments(after.value)];
  const followed = app.followed.value?.dim === dim ? app.followed.value?.index : dim === "T" ? app.step.value : null;
  return (
    <details>
      <summary>mean and standard deviation of each vector, before and after</summary>
      <table class="moments-table" aria-label="Mean and standard deviation of each vector">
        <thead>
          <tr>
            <th scope="col">piece</th>
            <th scope="col">mean before</th>
            <th scope="col">deviation before</th>
            <th scope="col">mean after</th>
            <th scope="col">deviation after</th>
          </tr>
        </thead>
        <tbody>
          {momentsBefore.map((moments, position) => (
            <tr class={position === followed ? "picked-row" : ""}>
              <th scope="row">{quotePiece(labels[position])}</th>
              {[...moments, ...(momentsAfter[position] ?? [])].map((value) => (
                <td>
                  <Value shown={formatNumber(value)} exact={formatExact(value)} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="quiet">
        {props.row.op.kind === "norm" && props.row.op.rms
          ? "This norm subtracts no mean: it divides by the root of the mean square; then each dimension gets its own weight."
          : "Afterwards they are not exactly 0 and 1, because each dimension then gets its own weight and bias."}
      </p>
    </details>
  );
}

/** Computes the mean and standard deviation of each vector. */
export function computeMoments({ row, values }: Tensor): [number, number][] {
  const width = row.shape.at(-1) ?? 1;
  return Array.from({ length: values.length / width }, (_, position) => {
    const vector = values.subarray(position * width, (position + 1) * width);
    const mean = vector.reduce((sum, x) => sum + x, 0) / width;
    return [mean, Math.sqrt(vector.reduce((sum, x) => sum + (x - mean) ** 2, 0) / width)];
  });
}
