// Cards that need no other run: the softmax of given scores, the vectors of positions, shapes, names.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { nearlyConstant, numbersIn, sineCosine, sinusoid, sinusoids, softmax } from "../claim_measures";
import { count, figure, many, probability, quoted } from "../format";
import { useApp, useTensor } from "../hooks";
import { attentions, positionsOf, rowOf, sectionInWords } from "../tensor_graph";
import type { Manifest } from "../types";
import { Card, Num, Says } from "./claim_card";
import { cosines } from "./positions";
import { Loading, Missing } from "./values";

const GIVEN = "40, 51, 43, 38";
const PRINTED = [0.005, 0.973, 0.015, 0.007]; // what article A prints beside those scores

export function SoftmaxCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const [text, setText] = useState(GIVEN);
  const logits = numbersIn(text);
  const probabilities = logits && softmax(logits);
  const given = text === GIVEN;
  const step = manifest.steps[app.step.value];
  return (
    <Card id="softmax" title="What softmax makes of scores" from={["A"]} claim="The scores 40, 51, 43 and 38 of four words become the probabilities 0.005, 0.973, 0.015 and 0.007.">
      <label>
        Scores <input type="text" value={text} size={28} onInput={(event) => setText(event.currentTarget.value)} aria-invalid={!logits} />
      </label>
      {logits && probabilities ? (
        <table class="plain-table" aria-label="Scores and their softmax">
          <thead>
            <tr>
              <th scope="col">score</th>
              <th scope="col">softmax, computed here</th>
              {given && <th scope="col">in the article</th>}
            </tr>
          </thead>
          <tbody>
            {logits.map((logit, i) => (
              <tr>
                <th scope="row">{figure(logit)}</th>
                <td class="mono">
                  <Num value={probabilities[i] ?? NaN} shown={(probabilities[i] ?? NaN).toPrecision(5)} />
                </td>
                {given && <td class="mono">{PRINTED[i]}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Missing says="Write two numbers or more, with commas between them." />
      )}
      {given && <Says>Exact softmax is far sharper. No temperature explains the article's numbers either: 40 is more than 38, and has the smaller one.</Says>}
      {step && <OwnLogits manifest={manifest} />}
    </Card>
  );
}

/** The two likeliest pieces of this step: the ratio of their probabilities is e to the difference of their logits. */
function OwnLogits({ manifest }: { manifest: Manifest }) {
  const [first, second] = manifest.steps[useApp().step.value]?.top ?? [];
  if (!first || !second) return null;
  return (
    <p>
      Your model, at this step: {quoted(first.piece)} has logit <Num value={first.logit} /> and probability <Num value={first.prob} shown={probability(first.prob)} />, {quoted(second.piece)}{" "}
      <Num value={second.logit} /> and <Num value={second.prob} shown={probability(second.prob)} />. Their ratio is <Num value={first.prob / second.prob} />, and e to the difference of the logits is{" "}
      <Num value={Math.exp(first.logit - second.logit)} />.
    </p>
  );
}

const FARTHEST = 127;
const LOOKED = 50; // positions over which a dimension is called constant

export function ExponentCard({ manifest }: { manifest: Manifest }) {
  const own = Number(manifest.axes.D?.size ?? 512);
  const [width, setWidth] = useState(512);
  const [position, setPosition] = useState(3);
  const [dim, setDim] = useState(2);
  const at = Math.min(dim, width - 1);
  const vectors = (["paper", "doubled"] as const).map((exponent) => Array.from({ length: width }, (_, d) => sinusoid(position, d, width, exponent)));
  const [right = [], wrong = []] = vectors;
  const same = right.filter((value, d) => Math.abs(value - (wrong[d] ?? NaN)) <= 1e-6).length;
  const norm = Math.sqrt(right.reduce((sum, value) => sum + value ** 2, 0));
  return (
    <Card
      id="exponent"
      title="The exponent of the position vectors"
      from={["A"]}
      claim="Code for the vectors of positions that counts i in steps of two, and then doubles it once more; and that the vectors lie within the unit sphere."
    >
      <div class="row form-row">
        <label>
          width{" "}
          <select value={String(width)} onChange={(event) => setWidth(Number(event.currentTarget.value))}>
            {[...new Set([512, own])].map((each) => (
              <option value={String(each)}>
                {each}
                {each === own ? ", as in your model" : ""}
              </option>
            ))}
          </select>
        </label>
        <Slider name="position" value={position} most={FARTHEST} onChange={setPosition} />
        <Slider name="dimension" value={at} most={width - 1} onChange={setDim} />
      </div>
      <Curves series={vectors.map((values) => values.filter((_, d) => d % 2 === 0))} at={Math.floor(at / 2)} label={`The sines of position ${position}, by dimension: the paper's, and with the exponent doubled`}>
        The sines of position {position}, dimension 0 at the left, {width - 2} at the right.
      </Curves>
      <Curves
        series={(["paper", "doubled"] as const).map((exponent) => Array.from({ length: FARTHEST + 1 }, (_, p) => sinusoid(p, at, width, exponent)))}
        at={position}
        label={`Dimension ${at} at positions 0 to ${FARTHEST}: the paper's, and with the exponent doubled`}
      >
        Dimension {at}, position 0 at the left, {FARTHEST} at the right. Line: the paper. Dashed: the exponent doubled.
      </Curves>
      <table class="plain-table" aria-label="The paper's vectors and those of the doubled exponent">
        <thead>
          <tr>
            <th scope="col" />
            <th scope="col">paper</th>
            <th scope="col">doubled</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">
              position {position}, dimension {at}
            </th>
            {[right, wrong].map((values) => (
              <td class="mono">
                <Num value={values[at] ?? NaN} shown={(values[at] ?? NaN).toFixed(6)} />
              </td>
            ))}
          </tr>
          <tr>
            <th scope="row">
              dimensions, of {width}, nearly constant over {LOOKED} positions
            </th>
            {(["paper", "doubled"] as const).map((exponent) => (
              <td class="mono">
                <Num value={nearlyConstant(width, LOOKED, exponent)} />
              </td>
            ))}
          </tr>
        </tbody>
      </table>
      <Says>
        At this position both agree in <Num value={same} /> of {width} dimensions. Each pair of sine and cosine has length 1; the whole vector has length{" "}
        <Num value={norm} />, the root of {width / 2}.
      </Says>
      <OwnPositions manifest={manifest} position={position} dim={at} width={own} />
    </Card>
  );
}

/** What the user's model has there, where it was captured. */
function OwnPositions(props: { manifest: Manifest; position: number; dim: number; width: number }) {
  const { manifest, position, dim, width } = props;
  const row = positionsOf(manifest, "source");
  const loaded = useTensor(row?.name ?? "");
  if (!row) return <p class="quiet">Your model adds no vectors of positions.</p>;
  if (row.op.kind !== "sinusoid") return <p class="quiet">Your model has learned its vectors of positions; no formula made them.</p>;
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <p class="quiet">{row.name} of your model is not in this file; ask the server: pellucid serve MODEL</p>;
  const values = loaded.value.values;
  const formula = sinusoids(values.length / width, width, "paper");
  const far = values.reduce((most, value, i) => Math.max(most, Math.abs(value - (formula[i] ?? NaN))), 0);
  const here = values[position * width + dim];
  return (
    <p>
      Your model's {row.name} is the paper's: {count(values.length)} captured numbers differ from the formula by <Num value={far} /> at most
      {here !== undefined && dim < width ? (
        <>
          ; at position {position}, dimension {dim} of {width} it has <Num value={here} shown={here.toFixed(6)} />
        </>
      ) : null}
      .
    </p>
  );
}

export function Slider(props: { name: string; value: number; most: number; least?: number; onChange: (value: number) => void }) {
  const given = (event: { currentTarget: HTMLInputElement }) => props.onChange(Math.round(Number(event.currentTarget.value)));
  return (
    <label class="slider">
      {props.name} <input type="range" min={props.least ?? 0} max={props.most} value={props.value} onInput={given} /> <output class="mono">{props.value}</output>
    </label>
  );
}

/** Numbers between -1 and 1 as lines over their index; the second dashed, the index looked at marked. */
function Curves({ series, at, label, children }: { series: number[][]; at: number; label: string; children: ComponentChildren }) {
  const [wide, high] = [720, 110];
  const x = (i: number, size: number) => 8 + (i / Math.max(1, size - 1)) * (wide - 16);
  const y = (value: number) => high / 2 - value * (high / 2 - 10);
  const size = series[0]?.length ?? 1;
  return (
    <figure>
      <svg class="curve claim-curves" viewBox={`0 0 ${wide} ${high}`} role="img" aria-label={label}>
        <line class="curve-axis" x1={8} x2={wide - 8} y1={y(0)} y2={y(0)} />
        <line class="curve-at" x1={x(at, size)} x2={x(at, size)} y1={4} y2={high - 4} />
        {series.map((values, i) => (
          <polyline class={i ? "curve-line curve-second" : "curve-line"} points={values.map((value, d) => `${x(d, size).toFixed(1)},${y(value).toFixed(1)}`).join(" ")} />
        ))}
      </svg>
      <figcaption class="quiet">{children}</figcaption>
    </figure>
  );
}

const DISTANCES = [1, 2, 5, 10, 20, 50];

export function NearnessCard({ manifest }: { manifest: Manifest }) {
  const row = positionsOf(manifest, "source");
  const sines = row?.op.kind === "sinusoid";
  const loaded = useTensor(!row || sines ? "" : row.name);
  const width = row?.shape[1] ?? 0;
  const card = (inside: ComponentChildren) => (
    <Card id="nearness" title="Positions near to each other" from={["B"]} claim="Positions that are near to each other have vectors that are alike.">
      {inside}
    </Card>
  );
  if (!row) return card(<p>Your model adds no vectors of positions, so there is nothing to compare.</p>);
  if (!sines && loaded.state === "loading") return card(<Loading />);
  if (!sines && loaded.state === "missing") return card(<Missing says={`${row.name} is not in this file; ask the server: pellucid serve MODEL`} />);
  const positions = sines ? 101 : (row.shape[0] ?? 0);
  const learned = loaded.state === "ready" ? loaded.value.values : new Float32Array();
  const by = sines ? Array.from({ length: positions }, (_, far) => sineCosine(far, width)) : byDistance(cosines(learned, positions, width), positions);
  const rise = by.findIndex((value, d) => d > 0 && value > (by[d - 1] ?? Infinity) + (sines ? 1e-12 : 1e-6));
  const rising = rise < 0 ? "It falls all the way." : `It does not only fall: the first rise is from distance ${rise - 1} to ${rise}.`;
  return card(
    <>
      <table class="plain-table" aria-label="Mean cosine of two positions by their distance">
        <thead>
          <tr>
            <th scope="col">distance</th>
            <th scope="col">mean cosine</th>
          </tr>
        </thead>
        <tbody>
          {DISTANCES.filter((far) => far < positions).map((far) => (
            <tr>
              <th scope="row">{far}</th>
              <td class="mono">
                <Num value={by[far] ?? NaN} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Says>
        Over {positions} positions, vectors of {width} numbers{sines ? ", by the formula of this model" : ", as this model learned them"}. {rising}
      </Says>
    </>,
  );
}

/** The mean cosine of two positions so far apart, from 0. */
export function byDistance(all: Float32Array, size: number): number[] {
  return Array.from({ length: size }, (_, far) => {
    let sum = 0;
    for (let p = 0; p + far < size; p++) sum += all[p * size + p + far] ?? NaN;
    return sum / (size - far);
  });
}

export function ShapesCard({ manifest }: { manifest: Manifest }) {
  const parts = attentions(manifest).find((each) => each.heads > 0);
  const shape = (name: string | undefined) => rowOf(manifest, name ?? "")?.shape ?? [];
  const [heads = 0, rows = 0, width = 0] = shape(parts?.mixed);
  return (
    <Card id="shapes" title="How wide one head's output is" from={["A"]} claim="With four words, what a single head gives, Z, has 4 rows and 512 columns.">
      {parts ? (
        <>
          <dl class="facts">
            <dt>one head of {sectionInWords(parts.section)}</dt>
            <dd class="mono" data-shape="head">
              {rows} × {width}
            </dd>
            <dt>its {many(heads, "head")} side by side</dt>
            <dd class="mono" data-shape="heads">
              {rows} × {heads * width}
            </dd>
            <dt>after W_O</dt>
            <dd class="mono" data-shape="output">
              {shape(parts.output).join(" × ")}
            </dd>
          </dl>
          <Says>
            One head gives each of the {rows} pieces {width} numbers. Only the heads together have {heads * width}; in the paper 8 heads of 64 make 512, and one head's Z is
            4 × 64.
          </Says>
        </>
      ) : (
        <Missing says="No heads are left in this model." />
      )}
    </Card>
  );
}

export function NamesCard({ manifest }: { manifest: Manifest }) {
  const parts = attentions(manifest).find((each) => each.heads > 0);
  const rows: [string | undefined, string][] = [
    [parts?.products, "QKᵀ. Article D calls these factors."],
    [parts?.scores, "QKᵀ / √d_k. The score of article A's first steps; its second listing stores it under the name V."],
    [parts?.pattern, "softmax of the scores. Article A's score matrix; weights in most papers, which we keep for parameters."],
    [parts?.mixed, "pattern × V. Article A's Z; article E calls it the attention score."],
  ];
  return (
    <Card id="names" title="What is called a score" from={["A", "D", "E"]} claim="The word score stands for the products, for the softmax, and for what a head gives in the end.">
      <table class="plain-table" aria-label="Four tensors and their names">
        <tbody>
          {rows.map(([name, says]) => {
            const row = rowOf(manifest, name ?? "");
            return row ? (
              <tr>
                <th scope="row" class="mono">
                  {row.name}
                </th>
                <td class="mono">{row.shape.join(" × ")}</td>
                <td>
                  {row.means}. <span class="quiet">{says}</span>
                </td>
              </tr>
            ) : null;
          })}
        </tbody>
      </table>
      <Says>Here each of the four has one name everywhere: in the code, in a recording, on this page.</Says>
    </Card>
  );
}
