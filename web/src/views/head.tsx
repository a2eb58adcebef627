// One head as the chain of its matrices: queries, keys, products, scores, mask, weights, values and output.
import { useEffect } from "preact/hooks";
import { formatExact, formatNumber, formatShort, type Ink, quotePiece } from "../format";
import { useApp, useArrival, useLoaded } from "../hooks";
import { chooseCellSize, chooseHeight, FlowStep, Matrix, MatrixProduct, type MatrixProps } from "../matrix";
import { computeContributionNorms, getHeadWeights, makePattern, type Pattern } from "../measures";
import { type AttentionParts, describeSection, findBlock, findTensorRow, listAttentions, listLabels } from "../network";
import { readNumber } from "../operands";
import { Missing, NotReady, Value } from "../parts";
import type { SheetPlay } from "../picture";
import type { PlaySpan } from "../play";
import type { App } from "../state";
import type { Tensor } from "../trace_cache";
import type { Manifest } from "../types";
import { HeadRole, HeadsRow } from "./head_roles";
import { Projection } from "./projection";

export function HeadView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const { section, head: requestedHead, row } = app.place.value;
  const heading = useArrival<HTMLHeadingElement>(`${section} ${requestedHead}`);
  const block = manifest ? findBlock(manifest, section) : undefined;
  const isDecoder = block?.attention?.queryDim === "T";
  useEffect(() => {
    if (!isDecoder || row === undefined || !manifest) return;
    app.step.value = Math.min(row, manifest.steps.length - 1); // rows of the decoder are the steps
    app.pointAt({ row: undefined });
  }, [isDecoder, row]);
  if (!manifest) return null;
  const parts = section === undefined ? listAttentions(manifest)[0] : block?.attention;
  if (!parts) return <Missing message={`This model has no attention ${section ?? ""} whose head could be shown.`} />;
  const head = Math.min(requestedHead ?? 0, parts.heads - 1);
  const pointed = findPointedPair(app, manifest, parts);
  const moveBy = (by: number) => app.goTo({ section: parts.section, head: (head + by + parts.heads) % parts.heads });
  return (
    <article class="head-body">
      <header class="row view-title">
        <h2 ref={heading} tabIndex={-1}>
          {describeSection(parts.section)} — head {head + 1} of {parts.heads}
        </h2>
        <button type="button" class="button" onClick={() => moveBy(-1)} aria-keyshortcuts="[">
          previous head <kbd>[</kbd>
        </button>
        <button type="button" class="button" onClick={() => moveBy(1)} aria-keyshortcuts="]">
          next head <kbd>]</kbd>
        </button>
        <HeadsRow parts={parts} current={head} />
      </header>
      <HeadRole section={parts.section} head={head} />
      <MatrixChain key={`${parts.section} ${head}`} manifest={manifest} parts={parts} head={head} pointed={pointed} />
      <RowWeights manifest={manifest} parts={parts} head={head} query={pointed.query ?? 0} />
    </article>
  );
}

/** The query and the key that are looked at; undefined where none was chosen. */
interface PointedPair {
  query: number | undefined;
  key: number | undefined;
}

/**
 * Finds the query and the key that are looked at. Queries of the decoder are the steps of decoding; of the encoder, the row of the
 * place, else the followed piece. In teach mode the key stays hidden with the values: it may be what is to be guessed.
 */
function findPointedPair(app: App, manifest: Manifest, parts: AttentionParts): PointedPair {
  const { row, col } = app.place.value;
  const follow = app.followed.value;
  const followed = follow?.dim === parts.queryDim ? follow.index : undefined;
  const isTold = app.story.value !== null;
  const query = parts.queryDim === "T" ? ((isTold ? undefined : followed) ?? app.step.value) : (row ?? followed);
  const limit = (position: number | undefined, dim: string) =>
    position === undefined ? undefined : Math.min(position, listLabels(manifest, dim).length - 1);
  return { query: limit(query, parts.queryDim), key: app.hidden.value ? undefined : limit(col, parts.keyDim) };
}

function MatrixChain(props: { manifest: Manifest; parts: AttentionParts; head: number; pointed: PointedPair }) {
  const app = useApp();
  const { manifest, parts, head, pointed } = props;
  const [queries = 0, width = 0] = findTensorRow(manifest, parts.q)?.shape.slice(1) ?? [];
  const keys = findTensorRow(manifest, parts.k)?.shape[1] ?? 0;
  const height = chooseHeight(Math.max(queries, keys));
  const isCausal = findTensorRow(manifest, parts.allowed)?.op.kind === "causal";
  const cell = chooseCellSize(app, keys);
  const point = (pair: { query?: number; key?: number }) => {
    if (pair.query !== undefined && parts.queryDim === "T") app.step.value = pair.query;
    else if (pair.query !== undefined) app.pointAt({ row: pair.query });
    if (pair.key !== undefined) app.pointAt({ col: pair.key });
  };
  const plays = makeHeadPlay(app, parts, head, width, keys);
  const describeVectors = (tensor: string, label: string, side: "query" | "key", ink?: Ink): MatrixProps => ({
    tensor,
    fixed: { H: head },
    label,
    ink,
    framed: { row: pointed[side] },
    play: plays.get(tensor),
    onPin: (position) => point({ [side]: position }),
  });
  const describePairs = (tensor: string, label: string): MatrixProps => ({
    tensor,
    fixed: { H: head, "1": 0 },
    label,
    framed: { row: pointed.query, col: pointed.key },
    play: plays.get(tensor),
    onPin: (query, key) => point({ query, key }),
  });
  const ofPairs = (tensor: string, label: string) => <Matrix {...describePairs(tensor, label)} cell={cell} maxHeight={height} />;
  const makeAxis = (dim: string, size: number) => ({ dim, size, labels: manifest.axes[dim]?.labels });
  const [queryAxis, keyAxis, numberAxis] = [makeAxis(parts.queryDim, queries), makeAxis(parts.keyDim, keys), makeAxis("E", width)];
  return (
    <>
      <Projection manifest={manifest} parts={parts} head={head} pointed={pointed} fills={PROJECTED} onPoint={point} />
      <section class="panel">
        <h3>How well each query fits each key</h3>
        <div class="flow">
          <MatrixProduct
            rows={queryAxis}
            cols={keyAxis}
            inner={numberAxis}
            left={describeVectors(parts.q, "q", "query", "q")}
            above={{
              ...describeVectors(parts.k, "kᵀ", "key", "k"),
              transposed: true,
              framed: { col: pointed.key },
              onPin: (_, position) => point({ key: position }),
            }}
            result={describePairs(parts.products, "products")}
          >
            <p>
              A row of <b class="ink-q">q</b>, the query, is what a position looks for. A column of <b class="ink-k">kᵀ</b>, the key, is what a
              position can be found by.
            </p>
            <p>Where a row and a column meet stands their product: the {width} numbers of each are multiplied in pairs and added up.</p>
          </MatrixProduct>
          <FlowStep sign={`÷ √${width} =`} words={keys} caption={`the products made smaller; ${width} is the width of a head`}>
            {ofPairs(parts.scores, "scores")}
          </FlowStep>
        </div>
      </section>
      <section class="panel">
        <h3>What is read, and the result</h3>
        <div class="flow">
          {isCausal ? (
            <FlowStep words={keys} caption="the mask: a position may read itself and earlier positions">
              {ofPairs(parts.allowed, "may be read")}
            </FlowStep>
          ) : (
            <p class="flow-note">No mask: every position holds a piece, and all may be read.</p>
          )}
          <MatrixProduct
            rows={queryAxis}
            cols={numberAxis}
            inner={keyAxis}
            left={describePairs(parts.pattern, "pattern")}
            above={describeVectors(parts.v, "v", "key", "v")}
            result={describeVectors(parts.headOutput, "head output", "query")}
          >
            <p>
              Softmax turns each row of scores into weights, the <b>pattern</b>: e to each score, divided by the sum of its row. A row of{" "}
              <b class="ink-v">v</b>, the value, is what a position passes on.
            </p>
            <p>
              A row of the output is the sum of the rows of <b class="ink-v">v</b>, each times its weight. The outputs of all heads side by side, times
              W_O, are{" "}
              <button type="button" class="link" onClick={() => app.goTo({ view: "block", section: parts.section })}>
                what the attention adds
              </button>
              .
            </p>
          </MatrixProduct>
        </div>
      </section>
    </>
  );
}

const PROJECTED: PlaySpan = { from: 0, to: 0.12 };
const MULTIPLIED: PlaySpan = { from: 0.12, to: 0.5 };
const SCALED: PlaySpan = { from: 0.5, to: 0.6 };
const SOFTENED: PlaySpan = { from: 0.6, to: 0.7 };
const MIXED: PlaySpan = { from: 0.7, to: 0.95 };

/** Makes the parts that the matrices of a head take in the play: each row fills in the order of the computation. */
function makeHeadPlay(app: App, parts: AttentionParts, head: number, width: number, keys: number): Map<string, SheetPlay> {
  const read = (tensor: string, row: number, col: number) => {
    const loaded = app.peekTensor(tensor);
    return loaded ? formatShort(readCell(loaded, [head, row, col])) : "?";
  };
  return new Map<string, SheetPlay>([
    [parts.q, { fills: PROJECTED }],
    [parts.k, { fills: PROJECTED, isTransposed: true, reads: { ...MULTIPLIED, axis: "col" } }],
    [parts.v, { fills: PROJECTED, reads: { ...MIXED, axis: "col" } }],
    [
      parts.products,
      {
        fills: MULTIPLIED,
        writeSum: (row, col) => `${read(parts.q, row, 0)} × ${read(parts.k, col, 0)} + … = ${read(parts.products, row, col)}`,
      },
    ],
    [parts.scores, { fills: SCALED, writeSum: (row, col) => `${read(parts.products, row, col)} ÷ √${width} = ${read(parts.scores, row, col)}` }],
    [parts.pattern, { fills: SOFTENED, writeSum: (row, col) => `e^${read(parts.scores, row, col)} ÷ sum of ${keys} = ${read(parts.pattern, row, col)}` }],
    [
      parts.headOutput,
      {
        fills: MIXED,
        writeSum: (row, col) => `${read(parts.pattern, row, 0)} × ${read(parts.v, 0, col)} + … = ${read(parts.headOutput, row, col)}`,
      },
    ],
  ]);
}

interface WeightsAndNorms {
  weights: Float32Array;
  /** Length of the vector that each key adds to each query through this head; null where values or W_O are missing. */
  norms: Float32Array | null;
  allowed: Tensor | null;
  keys: number;
}

function RowWeights(props: { manifest: Manifest; parts: AttentionParts; head: number; query: number }) {
  const app = useApp();
  const { manifest, parts, head, query } = props;
  const loaded = useLoaded(() => loadWeightsAndNorms(app, manifest, parts, head), `${manifest.id} ${parts.section} ${head}`);
  const names = listLabels(manifest, parts.queryDim);
  return (
    <section class="panel">
      <h3>
        What {quotePiece(names[query])} (row {query}) reads, and what that adds
      </h3>
      <NotReady loaded={loaded} />
      {loaded.state === "ready" ? (
        <WeightsTable manifest={manifest} parts={parts} loaded={loaded.value} query={query} head={head} />
      ) : null}
      <p class="quiet reading-width">
        A weight says how much is read; the length of weight · v · W<sub>O</sub> says how much of it reaches the output.
        Much weight on EOS, the end token, usually means that there is nothing relevant to read: look at what it adds. Follow
        another piece, or pick a cell above, to see its row.
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
