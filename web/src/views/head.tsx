// One head as the chain of its matrices: queries, keys, products, scores, mask, weights, values and output.

import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import { findBlock } from "../network";
import { type AttentionParts, describeSection, findTensorRow, listAttentions } from "../tensor_graph";
import type { Manifest } from "../types";
import { useArrival } from "./arrival_focus";
import { HeadRole } from "./head_roles";
import { HeadsRow } from "./heads_row";
import { chooseCellSize, chooseHeight, FlowStep } from "./matrix_flow";
import { RowWeights } from "./row_weights";
import { Missing } from "./values";

export function HeadView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const { section, head: requestedHead } = app.place.value;
  const heading = useArrival<HTMLHeadingElement>(`${section} ${requestedHead}`);
  if (!manifest) return null;
  const block = findBlock(manifest, section);
  const parts = section === undefined ? listAttentions(manifest).find((parts) => parts.heads > 0) : block?.attention;
  if (!parts) return <Missing message={`This model has no attention ${section ?? ""} whose head could be shown.`} />;
  if (parts.heads === 0) return <Missing message={`No heads left here: ${describeSection(parts.section)} reads nothing, and adds the bias of its output alone.`} />;
  const head = Math.min(requestedHead ?? 0, parts.heads - 1);
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
      <MatrixChain key={`${parts.section} ${head}`} manifest={manifest} parts={parts} head={head} />
      <RowWeights manifest={manifest} parts={parts} head={head} />
    </article>
  );
}

function MatrixChain(props: { manifest: Manifest; parts: AttentionParts; head: number }) {
  const { manifest, parts, head } = props;
  const [queries = 0, width = 0] = findTensorRow(manifest, parts.q)?.shape.slice(1) ?? [];
  const keys = findTensorRow(manifest, parts.k)?.shape[1] ?? 0;
  const shapes = `${queries} × ${width} times ${width} × ${keys} gives ${queries} × ${keys}`;
  const height = chooseHeight(Math.max(queries, keys));
  const isCausal = findTensorRow(manifest, parts.allowed)?.op.kind === "causal";
  const cell = chooseCellSize(useApp(), keys);
  const plainMatrix = (tensor: string, label: string, turned = false) => (
    <Matrix tensor={tensor} fixed={{ H: head }} label={label} transposed={turned} cell={cell} maxHeight={height} />
  );
  const labelledMatrix = (tensor: string, label: string) => (
    <Matrix tensor={tensor} fixed={{ H: head, "1": 0 }} label={label} cell={cell} maxHeight={height} />
  );
  return (
    <>
      <section class="panel">
        <h3>How well each query fits each key</h3>
        <div class="flow">
          <FlowStep numbers={width} caption="queries: what each position looks for">
            {plainMatrix(parts.q, "q")}
          </FlowStep>
          <FlowStep sign="×" words={keys} caption="keys, transposed: what each position can be found by">
            {plainMatrix(parts.k, "k transposed", true)}
          </FlowStep>
          <FlowStep sign="=" words={keys} caption={shapes}>
            {labelledMatrix(parts.products, "products")}
          </FlowStep>
          <FlowStep sign={`÷ √${width}`} words={keys} caption={`the same, scaled down: ${width} is the width of a head`}>
            {labelledMatrix(parts.scores, "scores")}
          </FlowStep>
        </div>
      </section>
      <section class="panel">
        <h3>What is read, and the result</h3>
        <div class="flow">
          {isCausal ? (
            <FlowStep words={keys} caption="the mask: itself and the past, never the future">
              {labelledMatrix(parts.allowed, "may be read")}
            </FlowStep>
          ) : (
            <p class="flow-note">No mask: every position holds a piece, and all may be read.</p>
          )}
          <FlowStep sign="softmax →" words={keys} caption="weights: e to each score, divided by the sum of its row">
            {labelledMatrix(parts.pattern, "pattern")}
          </FlowStep>
          <FlowStep sign="×" numbers={width} caption="values: what each position gives when it is read">
            {plainMatrix(parts.v, "v")}
          </FlowStep>
          <FlowStep sign="=" numbers={width} caption="the output of the head">
            {plainMatrix(parts.headOutput, "head output")}
          </FlowStep>
        </div>
      </section>
    </>
  );
}
