// The weights of one query of a head, and beside each the length of the vector that this key adds to the output.

import { readNumber } from "../cell_terms";
import { formatNumber, quotePiece } from "../format";
import { useApp, useLoaded } from "../hooks";
import { computeContributionNorms, getHeadWeights, makePattern, type Pattern } from "../patterns";
import { formatExact } from "../readout";
import type { App, Tensor } from "../state";
import { type AttentionParts, findTensorRow, listLabels } from "../tensor_graph";
import type { Manifest } from "../types";
import { Loading, Missing, Value } from "./values";

interface WeightsAndNorms {
  weights: Float32Array;
  /** Length of the vector that each key adds to each query through this head; null where values or W_O are missing. */
  norms: Float32Array | null;
  allowed: Tensor | null;
  keys: number;
}

export function RowWeights(props: { manifest: Manifest; parts: AttentionParts; head: number }) {
  const app = useApp();
  const { manifest, parts, head } = props;
  const loaded = useLoaded(() => loadWeightsAndNorms(app, manifest, parts, head), `${manifest.id} ${parts.section} ${head}`);
  const names = listLabels(manifest, parts.queryDim);
  const follow = app.followed.value;
  const chosen = follow?.dim === parts.queryDim ? follow.index : parts.queryDim === "T" ? app.step.value : 0;
  const query = Math.min(chosen, names.length - 1);
  return (
    <section class="panel">
      <h3>
        What {quotePiece(names[query])} (row {query}) reads, and what that adds
      </h3>
      {loaded.state === "loading" ? <Loading /> : null}
      {loaded.state === "missing" ? <Missing message={loaded.message} /> : null}
      {loaded.state === "ready" ? (
        <WeightsTable manifest={manifest} parts={parts} loaded={loaded.value} query={query} head={head} />
      ) : null}
      <p class="quiet reading-width">
        A weight says how much is read; the length of weight · v · W<sub>O</sub> says how much of it reaches the output.
        Much weight on an end mark usually means that there is nothing relevant to read: look at what it adds. Follow
        another piece to see its row.
      </p>
    </section>
  );
}

function WeightsTable(props: { manifest: Manifest; parts: AttentionParts; loaded: WeightsAndNorms; query: number; head: number }) {
  const app = useApp();
  const { loaded, query, parts } = props;
  const first = query * loaded.keys;
  const weights = loaded.weights.subarray(first, first + loaded.keys);
  const norms = loaded.norms?.subarray(first, first + loaded.keys) ?? null;
  const largestNorm = norms ? Math.max(...norms) || 1 : 0;
  const labels = listLabels(props.manifest, parts.keyDim);
  const follow = app.followed.value;
  const isMasked = (key: number) => loaded.allowed !== null && readCell(loaded.allowed, [0, query, key]) === 0;
  const openWeight = (key: number) => app.goTo({ view: "cell", tensor: parts.pattern, index: [props.head, query, key] });
  return (
    <table class="weights-table" aria-label="the weights of one row">
      <thead>
        <tr>
          <th scope="col">key</th>
          <th scope="col" colSpan={2}>
            weight, 0 to 1
          </th>
          <th scope="col" colSpan={2}>
            {norms ? `length of what it adds, 0 to ${formatNumber(largestNorm)}` : "what it adds: values or W_O not captured"}
          </th>
        </tr>
      </thead>
      <tbody>
        {labels.slice(0, loaded.keys).map((label, key) => (
          <tr class={follow?.dim === parts.keyDim && follow.index === key ? "picked-row" : ""}>
            <th scope="row">
              {quotePiece(label)}
              {isMasked(key) ? <span class="quiet"> masked</span> : null}
            </th>
            <td class="weights-number">
              <button type="button" class="operand" onClick={() => openWeight(key)}>
                <Value shown={formatNumber(weights[key] ?? 0)} exact={formatExact(weights[key] ?? 0)} />
              </button>
            </td>
            <Bar share={weights[key] ?? 0} kind="weight" />
            <td class="weights-number">
              {norms ? <Value shown={formatNumber(norms[key] ?? 0)} exact={formatExact(norms[key] ?? 0)} /> : null}
            </td>
            {norms ? <Bar share={(norms[key] ?? 0) / largestNorm} kind="norm" /> : <td class="hatched" />}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function readCell({ row, values }: Tensor, index: number[]): number {
  return readNumber(values, row.shape, index);
}

async function loadWeightsAndNorms(app: App, manifest: Manifest, parts: AttentionParts, head: number): Promise<WeightsAndNorms> {
  const weights = await app.loadTensor(parts.pattern);
  const pattern = makePattern(weights.values, weights.row.shape);
  const allowed = findTensorRow(manifest, parts.allowed)?.captured ? await app.loadTensor(parts.allowed) : null;
  const norms = await loadNorms(app, manifest, parts, pattern, head);
  return { weights: getHeadWeights(pattern, head), norms, keys: pattern.keys, allowed };
}

async function loadNorms(app: App, manifest: Manifest, parts: AttentionParts, pattern: Pattern, head: number) {
  const out = findTensorRow(manifest, parts.output);
  if (out?.op.kind !== "linear") return null;
  const { weight, first } = out.op;
  const isCaptured = manifest.parameters.find((parameter) => parameter.name === weight)?.captured;
  if (!isCaptured || !findTensorRow(manifest, parts.v)?.captured) return null;
  const v = await app.loadTensor(parts.v);
  const rows = await app.loadParameter(weight, first, first + (out.shape.at(-1) ?? 0));
  return computeContributionNorms(pattern, head, v.values, v.row.shape[2] ?? 0, rows.values);
}

function Bar(props: { share: number; kind: "weight" | "norm" }) {
  const hidden = useApp().hidden.value;
  return (
    <td class="weights-bar" aria-hidden="true">
      <span class={`bar-${props.kind}`} style={{ width: hidden ? "0" : `${100 * props.share}%` }} />
    </td>
  );
}
