// Claims of articles about Transformers, each beside measurements of this model on this sentence; and the cards on formulas.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { formatCount, formatNumber, formatProbability, formatQuantity, quotePiece } from "../format";
import { useApp, useTensor } from "../hooks";
import { cosineAtDistance, countConstantDims, makeSinusoids, parseNumbers, sinusoid, softmax } from "../measures";
import { describeSection, findPositions, findTensorRow, listAttentions } from "../network";
import { Loading, Menu, Missing, NumberTable, NumberValue, Slider } from "../parts";
import type { Manifest } from "../types";
import { DiagonalCard, InferenceCard, RolesCard, ScalingCard, WidthCard } from "./cards_runs";
import { AnalogyCard, SimilarCard } from "./cards_words";
import { ARTICLES, Card, Outcome } from "./claim_card";
import { computeCosines } from "./positions";

export function ClaimsView() {
  const manifest = useApp().manifest.value;
  if (!manifest) return null;
  return (
    <div class="stack claims-body">
      <h2>What articles say, and what this model does</h2>
      <p class="quiet">
        Popular articles explain Transformers well, but they are wrong in places. Each card states one of their claims and shows the numbers of {manifest.model.name} for the sentence above. These were captured in this run, or are computed from it on this page or by another run of the model.
      </p>
      <div class="claim-cards" key={manifest.id}>
        <SoftmaxCard manifest={manifest} />
        <ExponentCard manifest={manifest} />
        <NearnessCard manifest={manifest} />
        <DiagonalCard manifest={manifest} />
        <ShapesCard manifest={manifest} />
        <WidthCard manifest={manifest} />
        <InferenceCard manifest={manifest} />
        <ScalingCard manifest={manifest} />
        <RolesCard manifest={manifest} />
        <SimilarCard manifest={manifest} />
        <AnalogyCard />
        <NamesCard manifest={manifest} />
      </div>
      <section aria-label="The articles" class="quiet">
        <h3>The articles</h3>
        <dl class="facts">
          {Object.entries(ARTICLES).map(([letter, title]) => (
            <>
              <dt>{letter}</dt>
              <dd>{title}</dd>
            </>
          ))}
        </dl>
      </section>
    </div>
  );
}

const ARTICLE_SCORES = "40, 51, 43, 38";
const ARTICLE_PROBABILITIES = [0.005, 0.973, 0.015, 0.007]; // what article A prints beside those scores

function SoftmaxCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const [text, setText] = useState(ARTICLE_SCORES);
  const scores = parseNumbers(text);
  const probabilities = scores && softmax(scores);
  const isArticle = text === ARTICLE_SCORES;
  const step = manifest.steps[app.step.value];
  return (
    <Card id="softmax" title="What softmax makes of scores" from={["A"]} claim="The scores 40, 51, 43 and 38 of four words become the probabilities 0.005, 0.973, 0.015 and 0.007.">
      <label>
        Scores <input type="text" value={text} size={28} onInput={(event) => setText(event.currentTarget.value)} aria-invalid={!scores} />
      </label>
      {scores && probabilities ? (
        <NumberTable
          label="Scores and their softmax"
          columns={["score", "softmax, computed here", ...(isArticle ? ["in the article"] : [])]}
          rows={scores.map((logit, i) => [
            formatNumber(logit),
            <NumberValue value={probabilities[i] ?? NaN} shown={(probabilities[i] ?? NaN).toPrecision(5)} />,
            ...(isArticle ? [ARTICLE_PROBABILITIES[i]] : []),
          ])}
        />
      ) : (
        <Missing message="Enter two or more numbers, separated by commas." />
      )}
      {isArticle && <Outcome>The real softmax gives nearly everything to the largest score. No temperature explains the article's numbers either: 40 is larger than 38, but has the smaller probability.</Outcome>}
      {step && <OwnLogits manifest={manifest} />}
    </Card>
  );
}

/** Compares the two likeliest pieces of this step: the ratio of their probabilities is e to the difference of their logits. */
function OwnLogits({ manifest }: { manifest: Manifest }) {
  const [first, second] = manifest.steps[useApp().step.value]?.top ?? [];
  if (!first || !second) return null;
  return (
    <p>
      Your model, at this step: {quotePiece(first.piece)} has logit <NumberValue value={first.logit} /> and probability <NumberValue value={first.prob} shown={formatProbability(first.prob)} />, {quotePiece(second.piece)}{" "}
      <NumberValue value={second.logit} /> and <NumberValue value={second.prob} shown={formatProbability(second.prob)} />. Their ratio is <NumberValue value={first.prob / second.prob} />, and e to the difference of the logits is{" "}
      <NumberValue value={Math.exp(first.logit - second.logit)} />.
    </p>
  );
}

const EXPONENTS = ["paper", "doubled"] as const;
const LAST_POSITION = 127;
const COMPARED_POSITIONS = 50; // a dimension is nearly constant if it is so over this many positions

function ExponentCard({ manifest }: { manifest: Manifest }) {
  const modelWidth = Number(manifest.axes.D?.size ?? 512);
  const [width, setWidth] = useState(512);
  const [position, setPosition] = useState(3);
  const [dim, setDim] = useState(2);
  const shownDim = Math.min(dim, width - 1);
  const widths = [...new Set([512, modelWidth])].map((choice) => [String(choice), `${choice}${choice === modelWidth ? ", as in your model" : ""}`] as const);
  const vectors = EXPONENTS.map((exponent) => Array.from({ length: width }, (_, d) => sinusoid(position, d, width, exponent)));
  const [paper = [], doubled = []] = vectors;
  const agreeing = paper.filter((value, d) => Math.abs(value - (doubled[d] ?? NaN)) <= 1e-6).length;
  const norm = Math.sqrt(paper.reduce((sum, value) => sum + value ** 2, 0));
  return (
    <Card
      id="exponent"
      title="The exponent of the position vectors"
      from={["A"]}
      claim="In the article's code for position vectors, i counts in steps of two and is then doubled once more. The text says that the vectors lie within the unit sphere."
    >
      <div class="row form-row">
        <Menu label="width" value={String(width)} options={widths} onPick={(choice) => setWidth(Number(choice))} />
        <Slider name="position" value={position} max={LAST_POSITION} onChange={setPosition} />
        <Slider name="dimension" value={shownDim} max={width - 1} onChange={setDim} />
      </div>
      <Curves series={vectors.map((values) => values.filter((_, d) => d % 2 === 0))} at={Math.floor(shownDim / 2)} label={`The sines of position ${position}, by dimension: the paper's, and with the exponent doubled`}>
        The sines of position {position}, dimension 0 at the left, {width - 2} at the right.
      </Curves>
      <Curves
        series={EXPONENTS.map((exponent) => Array.from({ length: LAST_POSITION + 1 }, (_, p) => sinusoid(p, shownDim, width, exponent)))}
        at={position}
        label={`Dimension ${shownDim} at positions 0 to ${LAST_POSITION}: the paper's, and with the exponent doubled`}
      >
        Dimension {shownDim}, position 0 at the left, {LAST_POSITION} at the right. Line: the paper. Dashed: the exponent doubled.
      </Curves>
      <NumberTable
        label="The paper's vectors and those of the doubled exponent"
        columns={["", "paper", "doubled"]}
        rows={[
          [
            `position ${position}, dimension ${shownDim}`,
            ...vectors.map((values) => <NumberValue value={values[shownDim] ?? NaN} shown={(values[shownDim] ?? NaN).toFixed(6)} />),
          ],
          [
            `dimensions, of ${width}, nearly constant over ${COMPARED_POSITIONS} positions`,
            ...EXPONENTS.map((exponent) => <NumberValue value={countConstantDims(width, COMPARED_POSITIONS, exponent)} />),
          ],
        ]}
      />
      <Outcome>
        At this position both agree in <NumberValue value={agreeing} /> of {width} dimensions. Each pair of sine and cosine has length 1; the whole vector has length{" "}
        <NumberValue value={norm} />, the root of {width / 2}.
      </Outcome>
      <OwnPositions manifest={manifest} position={position} dim={shownDim} width={modelWidth} />
    </Card>
  );
}

/** Compares the captured position vectors of the user's model with the formula. */
function OwnPositions(props: { manifest: Manifest; position: number; dim: number; width: number }) {
  const { manifest, position, dim, width } = props;
  const row = findPositions(manifest, "source");
  const loaded = useTensor(row?.name ?? "");
  if (!row) return <p class="quiet">Your model adds no vectors of positions.</p>;
  if (row.op.kind !== "sinusoid") return <p class="quiet">Your model has learned its position vectors; they do not come from a formula.</p>;
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <p class="quiet">{row.name} of your model is not in this file; to compute it, run: pellucid serve MODEL</p>;
  const values = loaded.value.values;
  const formula = makeSinusoids(values.length / width, width, "paper");
  const largestError = values.reduce((most, value, i) => Math.max(most, Math.abs(value - (formula[i] ?? NaN))), 0);
  const captured = values[position * width + dim];
  return (
    <p>
      Your model's {row.name} is the paper's: {formatCount(values.length)} captured numbers differ from the formula by <NumberValue value={largestError} /> at most
      {captured !== undefined && dim < width ? (
        <>
          ; at position {position}, dimension {dim} of {width} it has <NumberValue value={captured} shown={captured.toFixed(6)} />
        </>
      ) : null}
      .
    </p>
  );
}

/** Draws numbers between -1 and 1 as lines over their index, the second line dashed, with one index marked. */
function Curves({ series, at, label, children }: { series: number[][]; at: number; label: string; children: ComponentChildren }) {
  const [width, height] = [720, 110];
  const x = (i: number, size: number) => 8 + (i / Math.max(1, size - 1)) * (width - 16);
  const y = (value: number) => height / 2 - value * (height / 2 - 10);
  const size = series[0]?.length ?? 1;
  return (
    <figure>
      <svg class="curve claim-curves" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
        <line class="curve-axis" x1={8} x2={width - 8} y1={y(0)} y2={y(0)} />
        <line class="curve-at" x1={x(at, size)} x2={x(at, size)} y1={4} y2={height - 4} />
        {series.map((values, i) => (
          <polyline class={i ? "curve-line curve-second" : "curve-line"} points={values.map((value, d) => `${x(d, size).toFixed(1)},${y(value).toFixed(1)}`).join(" ")} />
        ))}
      </svg>
      <figcaption class="quiet">{children}</figcaption>
    </figure>
  );
}

const DISTANCES = [1, 2, 5, 10, 20, 50];

function NearnessCard({ manifest }: { manifest: Manifest }) {
  const row = findPositions(manifest, "source");
  const isSinusoid = row?.op.kind === "sinusoid";
  const loaded = useTensor(!row || isSinusoid ? "" : row.name);
  const width = row?.shape[1] ?? 0;
  const renderCard = (content: ComponentChildren) => (
    <Card id="nearness" title="Positions near each other" from={["B"]} claim="Positions near each other have similar vectors.">
      {content}
    </Card>
  );
  if (!row) return renderCard(<p>Your model adds no vectors of positions, so there is nothing to compare.</p>);
  if (!isSinusoid && loaded.state === "loading") return renderCard(<Loading />);
  if (!isSinusoid && loaded.state === "missing") return renderCard(<Missing message={`${row.name} is not in this file; to compute it, run: pellucid serve MODEL`} />);
  const positions = isSinusoid ? 101 : (row.shape[0] ?? 0);
  const learned = loaded.state === "ready" ? loaded.value.values : new Float32Array();
  const cosineByDistance = isSinusoid ? Array.from({ length: positions }, (_, distance) => cosineAtDistance(distance, width)) : averageByDistance(computeCosines(learned, positions, width), positions);
  const rise = cosineByDistance.findIndex((value, d) => d > 0 && value > (cosineByDistance[d - 1] ?? Infinity) + (isSinusoid ? 1e-12 : 1e-6));
  const rising = rise < 0 ? "The cosine falls with every further distance." : `The cosine does not always fall: it first rises from distance ${rise - 1} to ${rise}.`;
  return renderCard(
    <>
      <NumberTable
        label="Mean cosine of two positions by their distance"
        columns={["distance", "mean cosine"]}
        rows={DISTANCES.filter((distance) => distance < positions).map((distance) => [distance, <NumberValue value={cosineByDistance[distance] ?? NaN} />])}
      />
      <Outcome>
        Over {positions} positions, vectors of {width} numbers{isSinusoid ? ", by the formula of this model" : ", as this model learned them"}. {rising}
      </Outcome>
    </>,
  );
}

/** Averages the cosines of all pairs of positions at each distance, from 0. */
export function averageByDistance(allCosines: Float32Array, size: number): number[] {
  return Array.from({ length: size }, (_, distance) => {
    let sum = 0;
    for (let p = 0; p + distance < size; p++) sum += allCosines[p * size + p + distance] ?? NaN;
    return sum / (size - distance);
  });
}

function ShapesCard({ manifest }: { manifest: Manifest }) {
  const parts = listAttentions(manifest)[0];
  const shape = (name: string | undefined) => findTensorRow(manifest, name ?? "")?.shape ?? [];
  const [heads = 0, rows = 0, width = 0] = shape(parts?.headOutput);
  return (
    <Card id="shapes" title="How wide one head's output is" from={["A"]} claim="For four words, the output Z of a single head has 4 rows and 512 columns.">
      {parts && (
        <>
          <dl class="facts">
            <dt>one head of {describeSection(parts.section)}</dt>
            <dd class="mono" data-shape="head">
              {rows} × {width}
            </dd>
            <dt>its {formatQuantity(heads, "head")} side by side</dt>
            <dd class="mono" data-shape="heads">
              {rows} × {heads * width}
            </dd>
            <dt>after W_O</dt>
            <dd class="mono" data-shape="output">
              {shape(parts.output).join(" × ")}
            </dd>
          </dl>
          <Outcome>
            One head gives each of the {rows} pieces {width} numbers. Only the heads together have {heads * width}; in the paper 8 heads of 64 make 512, and one head's Z is
            4 × 64.
          </Outcome>
        </>
      )}
    </Card>
  );
}

function NamesCard({ manifest }: { manifest: Manifest }) {
  const parts = listAttentions(manifest)[0];
  const rows: [string | undefined, string][] = [
    [parts?.products, "QKᵀ. Article D calls these factors."],
    [parts?.scores, "QKᵀ / √d_k. The score of article A's first steps; its second listing stores it under the name V."],
    [parts?.pattern, "softmax of the scores. Article A's score matrix; weights in most papers, which we keep for parameters."],
    [parts?.headOutput, "pattern × V. Article A's Z; article E calls it the attention score."],
  ];
  return (
    <Card id="names" title="What is called a score" from={["A", "D", "E"]} claim="The articles use the word score for the products, for the softmax, and for the output of a head.">
      <table class="plain-table" aria-label="Four tensors and their names">
        <tbody>
          {rows.map(([name, comment]) => {
            const row = findTensorRow(manifest, name ?? "");
            return row ? (
              <tr>
                <th scope="row" class="mono">
                  {row.name}
                </th>
                <td class="mono">{row.shape.join(" × ")}</td>
                <td>
                  {row.means}. <span class="quiet">{comment}</span>
                </td>
              </tr>
            ) : null;
          })}
        </tbody>
      </table>
      <Outcome>Here each of the four has its own name, which is the same in the code, in a trace and on this page.</Outcome>
    </Card>
  );
}
