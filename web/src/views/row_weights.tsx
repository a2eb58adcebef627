// For one query of a head: how much it reads from each key, and beside it how much what it read there adds.

import { at } from "../cell_terms";
import { figure, quoted } from "../format";
import { useApp, useLoaded } from "../hooks";
import { carried, type Pattern, patternOf, weightsOf } from "../patterns";
import { exact } from "../readout";
import type { App, Tensor } from "../state";
import { type AttentionParts, labelsOf, rowOf } from "../tensor_graph";
import type { Manifest } from "../types";
import { Loading, Missing, Value } from "./values";

interface Both {
  weights: Float32Array;
  /** Length of the vector that each key adds to each query's output by this head; null where that cannot be said. */
  lengths: Float32Array | null;
  allowed: Tensor | null;
  keys: number;
}

export function Weights(props: { manifest: Manifest; parts: AttentionParts; head: number }) {
  const app = useApp();
  const { manifest, parts, head } = props;
  const loaded = useLoaded(() => readAndAdded(app, manifest, parts, head), `${manifest.id} ${parts.section} ${head}`);
  const names = labelsOf(manifest, parts.reader);
  const follow = app.follow.value;
  const chosen = follow?.dim === parts.reader ? follow.index : parts.reader === "T" ? app.step.value : 0;
  const query = Math.min(chosen, names.length - 1);
  return (
    <section class="panel">
      <h3>
        What {quoted(names[query])} (row {query}) reads, and what that adds
      </h3>
      {loaded.state === "loading" ? <Loading /> : null}
      {loaded.state === "missing" ? <Missing says={loaded.says} /> : null}
      {loaded.state === "ready" ? (
        <Row manifest={manifest} parts={parts} found={loaded.value} query={query} head={head} />
      ) : null}
      <p class="quiet reading-width">
        A weight says how much is read; the length of weight · v · W<sub>O</sub> says how much of it reaches the output.
        Much weight on an end mark usually means that there is nothing to fetch: look at what it adds. Follow another
        piece to see its row.
      </p>
    </section>
  );
}

function Row(props: { manifest: Manifest; parts: AttentionParts; found: Both; query: number; head: number }) {
  const app = useApp();
  const { found, query, parts } = props;
  const first = query * found.keys;
  const weights = found.weights.subarray(first, first + found.keys);
  const lengths = found.lengths?.subarray(first, first + found.keys) ?? null;
  const most = lengths ? Math.max(...lengths) || 1 : 0;
  const labels = labelsOf(props.manifest, parts.read);
  const follow = app.follow.value;
  const masked = (key: number) => found.allowed !== null && cellAt(found.allowed, [0, query, key]) === 0;
  const open = (key: number) => app.go({ view: "cell", tensor: parts.pattern, index: [props.head, query, key] });
  return (
    <table class="weights-table" aria-label="the weights of one row">
      <thead>
        <tr>
          <th scope="col">key</th>
          <th scope="col" colSpan={2}>
            weight, 0 to 1
          </th>
          <th scope="col" colSpan={2}>
            {lengths ? `length of what it adds, 0 to ${figure(most)}` : "what it adds: values or W_O not captured"}
          </th>
        </tr>
      </thead>
      <tbody>
        {labels.slice(0, found.keys).map((label, key) => (
          <tr class={follow?.dim === parts.read && follow.index === key ? "picked-row" : ""}>
            <th scope="row">
              {quoted(label)}
              {masked(key) ? <span class="quiet"> masked</span> : null}
            </th>
            <td class="weights-number">
              <button type="button" class="operand" onClick={() => open(key)}>
                <Value shown={figure(weights[key] ?? 0)} exact={exact(weights[key] ?? 0)} />
              </button>
            </td>
            <Bar share={weights[key] ?? 0} kind="weight" />
            <td class="weights-number">
              {lengths ? <Value shown={figure(lengths[key] ?? 0)} exact={exact(lengths[key] ?? 0)} /> : null}
            </td>
            {lengths ? <Bar share={(lengths[key] ?? 0) / most} kind="norm" /> : <td class="hatched" />}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function cellAt({ row, values }: Tensor, index: number[]): number {
  return at(values, row.shape, index);
}

async function readAndAdded(app: App, manifest: Manifest, parts: AttentionParts, head: number): Promise<Both> {
  const weights = await app.tensor(parts.pattern);
  const pattern = patternOf(weights.values, weights.row.shape);
  const allowed = rowOf(manifest, parts.allowed)?.captured ? await app.tensor(parts.allowed) : null;
  const lengths = await lengthsOf(app, manifest, parts, pattern, head);
  return { weights: weightsOf(pattern, head), lengths, keys: pattern.keys, allowed };
}

async function lengthsOf(app: App, manifest: Manifest, parts: AttentionParts, pattern: Pattern, head: number) {
  const out = rowOf(manifest, parts.output);
  if (out?.op.kind !== "linear") return null;
  const { weight, first } = out.op;
  const known = manifest.parameters.find((each) => each.name === weight)?.captured;
  if (!known || !rowOf(manifest, parts.v)?.captured) return null;
  const v = await app.tensor(parts.v);
  const rows = await app.parameter(weight, first, first + (out.shape.at(-1) ?? 0));
  return carried(pattern, head, v.values, v.row.shape[2] ?? 0, rows.values);
}

function Bar(props: { share: number; kind: "weight" | "norm" }) {
  const hidden = useApp().hidden.value;
  return (
    <td class="weights-bar" aria-hidden="true">
      <span class={`bar-${props.kind}`} style={{ width: hidden ? "0" : `${100 * props.share}%` }} />
    </td>
  );
}
