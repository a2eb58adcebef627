// Claim cards on attention: the width of a head, masks, the diagonal of the cross-attention, roles of heads.
import { useState } from "preact/hooks";
import { makeUnitScale } from "../colour";
import { formatCount, formatNumber, formatProbability, formatQuantity } from "../format";
import { useApp, useDark, useLoaded, useTensor } from "../hooks";
import {
  computeMaskedWeights,
  findLargestDifference,
  findLargestLeak,
  makePattern,
  measureDiagonal,
  measureOverlaps,
  measureSharpness,
} from "../measures";
import { type AttentionParts, describeSection, findTensorRow, listAttentions, listWords } from "../network";
import { AttentionMenu, Menu, Missing, NotReady, NumberMenu, NumberTable, NumberValue, Slider } from "../parts";
import { Sheet } from "../sheet";
import type { App } from "../state";
import type { Diagonals, HeadStudy, Manifest, Masking } from "../types";
import { Card, Outcome } from "./claim_card";

export function WidthCard({ manifest }: { manifest: Manifest }) {
  const attentions = listAttentions(manifest);
  const [chosenSection, setChosenSection] = useState(attentions[0]?.section ?? "");
  const parts = attentions.find((parts) => parts.section === chosenSection) ?? attentions[0];
  const width = parts ? (findTensorRow(manifest, parts.q)?.shape.at(-1) ?? 1) : 1;
  const words = listWords(manifest.source).length;
  return (
    <Card
      id="width"
      title="What d_k is, and why its root divides"
      from={["C"]}
      claim="d_k is the number of words, which varies from sentence to sentence; dividing by its root keeps gradients from exploding."
    >
      <p>
        d_k is the width of a head: <b class="mono">{width}</b>, read from the shapes of this model, for every sentence. This one has {formatQuantity(words, "word")} in{" "}
        {formatQuantity(manifest.source.pieces.length, "piece")}.
      </p>
      {parts && (
        <>
          <AttentionMenu label="Attention" attentions={attentions} section={parts.section} onSection={setChosenSection} />
          <DivisorTable key={parts.section} parts={parts} width={width} />
        </>
      )}
    </Card>
  );
}

/** Shows how sharp the patterns would be had the products been divided by another root. */
function DivisorTable({ parts, width }: { parts: AttentionParts; width: number }) {
  const loaded = useTensor(parts.pattern);
  const [divisor, setDivisor] = useState(width);
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  const { values, row } = loaded.value;
  const keys = row.shape[2] ?? 1;
  const measured = [...new Set([1, divisor, width])].map((number) => ({ number, sharpness: measureSharpness(values, keys, Math.sqrt(width / number)) }));
  const slopeFor = (d: number) => measured.find((entry) => entry.number === d)?.sharpness.slope ?? NaN;
  return (
    <>
      <Slider name="divide by the root of" value={divisor} min={1} max={4 * width} onChange={setDivisor} />
      <table class="plain-table" aria-label="Weights when products are divided by another root">
        <thead>
          <tr>
            <th scope="col">divided by</th>
            <th scope="col">largest weight of a row</th>
            <th scope="col">slope of softmax</th>
          </tr>
        </thead>
        <tbody>
          {measured.map(({ number, sharpness }) => (
            <tr data-divided={number}>
              <th scope="row">
                √{number}
                {number === 1 ? ", that is not at all" : number === width ? ", as this model does" : ""}
              </th>
              <td class="mono">
                <NumberValue value={sharpness.largest} />
              </td>
              <td class="mono">
                <NumberValue value={sharpness.slope} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Outcome>
        Means over the rows of {formatQuantity(parts.heads, "head")}. Without the division, softmax is sharper, and its slope (the norm of its Jacobian) is <NumberValue value={slopeFor(1)} /> instead of{" "}
        <NumberValue value={slopeFor(width)} />: the gradient that passes through it {slopeFor(1) < slopeFor(width) ? "shrinks and does not explode" : "does not shrink in these heads, which is not what one expects"}.
      </Outcome>
    </>
  );
}

export function InferenceCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const loaded = useLoaded(() => app.fetchAnswer("masking", {}), `${manifest.id} masking`);
  return (
    <Card id="inference" title="The mask when a translation is made" from={["A", "B"]} claim="The mask is only for training, or it is removed at inference.">
      <NotReady loaded={loaded} />
      {loaded.state === "ready" && <MaskingTable masking={loaded.value} manifest={manifest} />}
    </Card>
  );
}

function MaskingTable({ masking, manifest }: { masking: Masking; manifest: Manifest }) {
  const rows = masking.kept.length;
  const findWorst = (values: number[]) => Math.max(...values);
  return (
    <>
      <NumberTable
        label="Step by step, with the mask and without it"
        columns={["position, piece read", "one row at a time, keys and values kept", "all rows at once, no mask"]}
        rows={masking.kept.map((difference, t) => [
          `${t} ${manifest.inputs.pieces[t] ?? ""}`,
          <NumberValue value={difference} />,
          <NumberValue value={masking.unmasked[t] ?? NaN} />,
        ])}
      />
      <Outcome>
        Both are compared with a run of all rows at once with the mask: each number is the largest difference of a logit, and the logits are as large as <NumberValue value={masking.size} />. One row at a time
        there are no later pieces to hide, and the logits differ by <NumberValue value={findWorst(masking.kept)} /> at most. Without the mask they differ by up to <NumberValue value={findWorst(masking.unmasked)} />, and{" "}
        <NumberValue value={masking.parted} /> of {rows} rows would write another piece.
      </Outcome>
    </>
  );
}

const MASKS: [string, number][] = [
  ["−∞", -Infinity],
  ["−1e9", -1e9],
  ["−100", -100],
  ["−30", -30],
  ["−10", -10],
];

export function ScalingCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const loaded = useLoaded(() => app.fetchAnswer("masking", {}), `${manifest.id} masking`);
  return (
    <Card id="scaling" title="The mask before or after the division" from={["C", "E"]} claim="The mask is added to the products before they are divided by √d_k; others add it after.">
      <NotReady loaded={loaded} />
      {loaded.state === "ready" && <MaskPlacement products={loaded.value.products} />}
    </Card>
  );
}

function MaskPlacement({ products }: { products: Masking["products"] }) {
  const [mask, setMask] = useState(0);
  const [name, value] = MASKS[mask] ?? ["", -Infinity];
  const both = (["before", "after"] as const).map((where) => computeMaskedWeights(products.rows, products.width, value, where)) as [number[][], number[][]];
  const difference = findLargestDifference(...both);
  const infinite = computeMaskedWeights(products.rows, products.width, -Infinity, "after");
  return (
    <>
      <NumberMenu label="The mask adds" value={mask} texts={MASKS.map(([name]) => name)} onPick={setMask} />
      <NumberTable
        label="The mask added before the division and after it"
        columns={["", "before", "after"]}
        rows={[
          ["largest weight on a later piece", ...both.map((weights) => <NumberValue value={findLargestLeak(weights)} />)],
          ["largest difference to weights with −∞", ...both.map((weights) => <NumberValue value={findLargestDifference(weights, infinite)} />)],
        ]}
      />
      <Outcome>
        {describeSection(products.section)}, head {products.head + 1}, d_k {products.width}: with {name} the two ways differ by <NumberValue value={difference} /> at most.{" "}
        {difference === 0 ? "Infinity divided by any number is infinity, so it makes no difference when the mask is added." : "If a finite mask is added before the division, it is divided too, and hides less."}
      </Outcome>
    </>
  );
}

export function DiagonalCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const crossAttentions = listAttentions(manifest).filter((parts) => parts.queryDim === "T" && parts.keyDim === "S");
  const loaded = useLoaded(() => Promise.all(crossAttentions.map((parts) => app.loadTensor(parts.pattern))), `${manifest.id} crossings`);
  const [reads, setReads] = useState(false);
  const [other, setOther] = useState<Diagonals | null>(null);
  const key = reads ? "read" : "written";
  const ownDiagonals: Diagonals["attentions"] =
    loaded.state === "ready"
      ? loaded.value.map(({ row, values }, i) => {
          const pattern = makePattern(values, row.shape);
          const measureOffset = (offset: number) => Array.from({ length: pattern.heads }, (_, h) => measureDiagonal(pattern, h, offset));
          return { section: crossAttentions[i]?.section ?? "", written: measureOffset(0), read: measureOffset(-1) };
        })
      : [];
  return (
    <Card
      id="diagonal"
      title="Cross-attention and the identity"
      from={["A"]}
      claim="In the attention between decoder and encoder, QKᵀ comes near to the identity matrix: each word reads its own translation."
    >
      <NotReady loaded={loaded} />
      <Menu
        label="For a target piece, use the row that"
        value={key}
        options={[["written", "writes it"], ["read", "reads it, one step later"]]}
        onPick={(row) => setReads(row === "read")}
      />
      {ownDiagonals.length > 0 && <DiagonalTable name={`${manifest.source.text} → ${manifest.target.text}`} rows={ownDiagonals} which={key} />}
      {other && <DiagonalTable name={`${other.source} → ${other.target}`} rows={other.attentions} which={key} />}
      <OtherSentence app={app} manifest={manifest} onFound={setOther} />
      <Outcome>
        Each number is the share of a row's weight on the source piece with the same number, after softmax, averaged over the rows: 1 would be the identity, <NumberValue value={1 / manifest.source.pieces.length} /> would be
        even weights. It is close to 1 only if both sentences have the same order and the same number of pieces: {manifest.source.pieces.length} and {manifest.target.pieces.length} here.
      </Outcome>
    </Card>
  );
}

function DiagonalTable(props: { name: string; rows: Diagonals["attentions"]; which: "written" | "read" }) {
  const headCount = Math.max(0, ...props.rows.map((row) => row[props.which].length));
  return (
    <div class="scroll">
      <NumberTable
        label={`Weight on the diagonal: ${props.name}`}
        caption={props.name}
        columns={["attention", ...Array.from({ length: headCount }, (_, h) => `head ${h + 1}`)]}
        rows={props.rows.map((row) => [
          describeSection(row.section),
          ...row[props.which].map((weight) => <NumberValue value={weight} shown={formatProbability(weight)} />),
        ])}
      />
    </div>
  );
}

/** Measures the diagonal for a sentence in another word order, which only the server can translate. */
function OtherSentence(props: { app: App; manifest: Manifest; onFound: (found: Diagonals) => void }) {
  const { app, manifest } = props;
  const words = listWords(manifest.source);
  const [text, setText] = useState([...words].reverse().join(" "));
  if (!app.source.act) return <p class="quiet">Another word order is not in this file; to compute it, run: pellucid serve MODEL</p>;
  const measureOther = async (event: Event) => {
    event.preventDefault();
    const diagonals = await app.askSource("identity", { sentence: text });
    if (diagonals) props.onFound(diagonals);
  };
  return (
    <form class="row" onSubmit={measureOther}>
      <label class="form-grow">
        Against another order <input type="text" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="button" disabled={!text.trim() || app.busy.value !== null}>
        Measure
      </button>
    </form>
  );
}

export function RolesCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const attentions = listAttentions(manifest);
  const [chosenSection, setChosenSection] = useState(attentions[0]?.section ?? "");
  const parts = attentions.find((parts) => parts.section === chosenSection) ?? attentions[0];
  const { study, says } = app.headStudy.value ?? { study: null, says: null };
  return (
    <Card
      id="roles"
      title="What different heads do"
      from={["B"]}
      claim="Each head captures something different; according to Voita et al., the important ones read neighbours, follow syntax or look for rare words, and the others can be removed."
    >
      {study ? <RoleCounts study={study} /> : <Missing message={says ?? "The roles of the heads are still being loaded."} />}
      {parts && (
        <>
          <AttentionMenu label="How alike the heads read, on this sentence, in" attentions={attentions} section={parts.section} onSection={setChosenSection} />
          <HeadOverlap parts={parts} key={parts.section} />
        </>
      )}
    </Card>
  );
}

/** Counts the heads of each role, and names the ones whose absence costs most and least. */
function RoleCounts({ study }: { study: HeadStudy }) {
  const marks = new Map<string, number>();
  for (const head of study.heads) for (const badge of head.badges) marks.set(badge.mark, (marks.get(badge.mark) ?? 0) + 1);
  const none = study.heads.filter((head) => head.badges.length === 0).length;
  const byLoss = [...study.heads].sort((one, other) => other.silent - one.silent);
  const [first, last] = [byLoss[0], byLoss.at(-1)];
  const harmless = study.heads.filter((head) => head.silent <= 0).length;
  return (
    <>
      <dl class="facts" data-roles="">
        {[...marks].map(([mark, heads]) => (
          <>
            <dt>{mark}</dt>
            <dd>
              <NumberValue value={heads} /> of {study.heads.length} heads
            </dd>
          </>
        ))}
        <dt>none of these</dt>
        <dd>
          <NumberValue value={none} /> of {study.heads.length} heads
        </dd>
      </dl>
      {first && last && (
        <Outcome>
          On {formatCount(study.pairs)} pairs, silencing {first.attention} head {first.head + 1} costs the most, <NumberValue value={first.silent} /> nats per piece, and silencing {last.attention} head{" "}
          {last.head + 1} costs the least, <NumberValue value={last.silent} />. For <NumberValue value={harmless} /> of {study.heads.length} heads the loss does not grow when that head alone is silenced.
        </Outcome>
      )}
    </>
  );
}

function HeadOverlap({ parts }: { parts: AttentionParts }) {
  const dark = useDark();
  const loaded = useTensor(parts.pattern);
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  const pattern = makePattern(loaded.value.values, loaded.value.row.shape);
  const values = measureOverlaps(pattern);
  const axis = { dim: "H", size: pattern.heads, labels: Array.from({ length: pattern.heads }, (_, h) => `head ${h + 1}`) };
  const others = Array.from({ length: pattern.heads ** 2 }, (_, i) => i).filter((i) => i % pattern.heads > Math.floor(i / pattern.heads));
  const smallest = others.length ? Math.min(...others.map((i) => values[i] ?? NaN)) : NaN;
  return (
    <>
      <Sheet values={values} rows={axis} cols={axis} scale={makeUnitScale(dark)} label="Overlap of two heads" maxHeight={260} />
      <p class="quiet">
        Bhattacharyya's coefficient of their weights, averaged over {pattern.queries} rows: 1 if they read the same, 0 if they have nothing in common.
        {others.length ? ` The two most different here: ${formatNumber(smallest)}.` : ""}
      </p>
    </>
  );
}
