// One head as the chain of its matrices: queries, keys, products, scores, mask, weights, values, and what it has read.

import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import { blockAt } from "../network";
import { type AttentionParts, attentions, rowOf, sectionInWords } from "../tensor_graph";
import type { Manifest } from "../types";
import { useArrival } from "./arrival_focus";
import { RoleOf } from "./head_roles";
import { HeadsRow } from "./heads_row";
import { cellFor, Figure, heightFor } from "./matrix_flow";
import { Weights } from "./row_weights";
import { Missing } from "./values";

export function HeadView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const { section, head: wanted } = app.place.value;
  const heading = useArrival<HTMLHeadingElement>(`${section} ${wanted}`);
  if (!manifest) return null;
  const block = blockAt(manifest, section);
  const parts = section === undefined ? attentions(manifest).find((each) => each.heads > 0) : block?.attention;
  if (!parts) return <Missing says={`This model has no attention ${section ?? ""} whose head could be shown.`} />;
  if (parts.heads === 0) return <Missing says={`No heads left here: ${sectionInWords(parts.section)} reads nothing, and adds the bias of its output alone.`} />;
  const head = Math.min(wanted ?? 0, parts.heads - 1);
  const move = (by: number) => app.go({ section: parts.section, head: (head + by + parts.heads) % parts.heads });
  return (
    <article class="head-body">
      <header class="row view-title">
        <h2 ref={heading} tabIndex={-1}>
          {sectionInWords(parts.section)} — head {head + 1} of {parts.heads}
        </h2>
        <button type="button" class="button" onClick={() => move(-1)} aria-keyshortcuts="[">
          previous head <kbd>[</kbd>
        </button>
        <button type="button" class="button" onClick={() => move(1)} aria-keyshortcuts="]">
          next head <kbd>]</kbd>
        </button>
        <HeadsRow parts={parts} current={head} />
      </header>
      <RoleOf section={parts.section} head={head} />
      <Chain key={`${parts.section} ${head}`} manifest={manifest} parts={parts} head={head} />
      <Weights manifest={manifest} parts={parts} head={head} />
    </article>
  );
}

function Chain(props: { manifest: Manifest; parts: AttentionParts; head: number }) {
  const { manifest, parts, head } = props;
  const [queries = 0, width = 0] = rowOf(manifest, parts.q)?.shape.slice(1) ?? [];
  const keys = rowOf(manifest, parts.k)?.shape[1] ?? 0;
  const fits = `${queries} × ${width} times ${width} × ${keys} gives ${queries} × ${keys}`;
  const height = heightFor(Math.max(queries, keys));
  const causal = rowOf(manifest, parts.allowed)?.op.kind === "causal";
  const cell = cellFor(useApp(), keys);
  const matrix = (tensor: string, label: string, turned = false) => (
    <Matrix tensor={tensor} take={{ H: head }} label={label} turned={turned} cell={cell} maxHeight={height} />
  );
  const words = (tensor: string, label: string) => (
    <Matrix tensor={tensor} take={{ H: head, "1": 0 }} label={label} cell={cell} maxHeight={height} />
  );
  return (
    <>
      <section class="panel">
        <h3>How well each query fits each key</h3>
        <div class="flow">
          <Figure numbers={width} says="queries: what each position looks for">
            {matrix(parts.q, "q")}
          </Figure>
          <Figure sign="×" words={keys} says="keys, on their side: what each position offers to be found by">
            {matrix(parts.k, "k turned", true)}
          </Figure>
          <Figure sign="=" words={keys} says={fits}>
            {words(parts.products, "products")}
          </Figure>
          <Figure sign={`÷ √${width}`} words={keys} says={`the same, smaller: ${width} is the width of a head`}>
            {words(parts.scores, "scores")}
          </Figure>
        </div>
      </section>
      <section class="panel">
        <h3>What is read, and what that gives</h3>
        <div class="flow">
          {causal ? (
            <Figure words={keys} says="the mask: itself and the past, never the future">
              {words(parts.allowed, "may be read")}
            </Figure>
          ) : (
            <p class="flow-note">No mask: every position holds a piece, and all may be read.</p>
          )}
          <Figure sign="softmax →" words={keys} says="weights: e to each score, divided by the sum of its row">
            {words(parts.pattern, "pattern")}
          </Figure>
          <Figure sign="×" numbers={width} says="values: what each position gives when it is read">
            {matrix(parts.v, "v")}
          </Figure>
          <Figure sign="=" numbers={width} says="what the head has read">
            {matrix(parts.mixed, "head output")}
          </Figure>
        </div>
      </section>
    </>
  );
}
