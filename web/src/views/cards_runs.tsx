// Cards on attention: the width of a head, masks, the diagonal of the cross-attention, roles of heads.

import { useState } from "preact/hooks";
import { affinities, apart, diagonalOf, leaked, maskedWeights, sharpened } from "../claim_measures";
import { shares } from "../colour";
import { count, figure, many, probability } from "../format";
import { useApp, useLoaded, useTensor } from "../hooks";
import { patternOf } from "../patterns";
import { Sheet } from "../sheet";
import type { App } from "../state";
import { type AttentionParts, attentions, rowOf, sectionInWords } from "../tensor_graph";
import { useDark } from "../theme";
import type { Diagonals, HeadStudy, Manifest, Masking } from "../types";
import { Slider } from "./cards_numbers";
import { Card, Num, Says } from "./claim_card";
import { Loading, Missing } from "./values";

export function WidthCard({ manifest }: { manifest: Manifest }) {
  const all = attentions(manifest).filter((parts) => parts.heads > 0);
  const [chosen, setChosen] = useState(all[0]?.section ?? "");
  const parts = all.find((each) => each.section === chosen) ?? all[0];
  const width = parts ? (rowOf(manifest, parts.q)?.shape.at(-1) ?? 1) : 1;
  const words = manifest.source.text.split(/\s+/).filter(Boolean).length;
  return (
    <Card
      id="width"
      title="What d_k is, and why its root divides"
      from={["C"]}
      claim="d_k is the number of words, which varies from sentence to sentence; dividing by its root keeps gradients from exploding."
    >
      <p>
        d_k is the width of a head: <b class="mono">{width}</b>, read from the shapes of this model, for every sentence. This one has {many(words, "word")} in{" "}
        {many(manifest.source.pieces.length, "piece")}.
      </p>
      {parts ? (
        <>
          <label>
            Attention{" "}
            <select value={parts.section} onChange={(event) => setChosen(event.currentTarget.value)}>
              {all.map((each) => (
                <option value={each.section}>{sectionInWords(each.section)}</option>
              ))}
            </select>
          </label>
          <Divided key={parts.section} parts={parts} width={width} />
        </>
      ) : (
        <Missing says="No heads are left in this model." />
      )}
    </Card>
  );
}

/** Its patterns had the products been divided by another root. */
function Divided({ parts, width }: { parts: AttentionParts; width: number }) {
  const loaded = useTensor(parts.pattern);
  const [by, setBy] = useState(width);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing says={loaded.says} />;
  const { values, row } = loaded.value;
  const keys = row.shape[2] ?? 1;
  const looked = [...new Set([1, by, width])].map((each) => ({ each, found: sharpened(values, keys, Math.sqrt(width / each)) }));
  const slope = (d: number) => looked.find((one) => one.each === d)?.found.slope ?? NaN;
  return (
    <>
      <Slider name="divide by the root of" value={by} least={1} most={4 * width} onChange={setBy} />
      <table class="plain-table" aria-label="Weights when products are divided by another root">
        <thead>
          <tr>
            <th scope="col">divided by</th>
            <th scope="col">largest weight of a row</th>
            <th scope="col">slope of softmax</th>
          </tr>
        </thead>
        <tbody>
          {looked.map(({ each, found }) => (
            <tr data-divided={each}>
              <th scope="row">
                √{each}
                {each === 1 ? ", that is not at all" : each === width ? ", as this model does" : ""}
              </th>
              <td class="mono">
                <Num value={found.largest} />
              </td>
              <td class="mono">
                <Num value={found.slope} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Says>
        Means over the rows of {many(parts.heads, "head")}. Undivided, softmax is sharper and its slope, the norm of its Jacobian, is <Num value={slope(1)} /> instead of{" "}
        <Num value={slope(width)} />: what comes through {slope(1) < slope(width) ? "shrinks, it does not explode" : "does not shrink in these heads, which is not what one expects"}.
      </Says>
    </>
  );
}

export function InferenceCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const loaded = useLoaded(() => app.find("masking", {}), `${manifest.id} masking`);
  return (
    <Card id="inference" title="The mask when a translation is made" from={["A", "B"]} claim="The mask is for training alone, or is taken away at inference.">
      {loaded.state === "loading" && <Loading />}
      {loaded.state === "missing" && <Missing says={loaded.says} />}
      {loaded.state === "ready" && <ThreeRuns masking={loaded.value} manifest={manifest} />}
    </Card>
  );
}

function ThreeRuns({ masking, manifest }: { masking: Masking; manifest: Manifest }) {
  const rows = masking.kept.length;
  const worst = (values: number[]) => Math.max(...values);
  return (
    <>
      <table class="plain-table" aria-label="Step by step, with the mask and without it">
        <thead>
          <tr>
            <th scope="col">position, piece read</th>
            <th scope="col">one row at a time, keys and values kept</th>
            <th scope="col">all rows at once, no mask</th>
          </tr>
        </thead>
        <tbody>
          {masking.kept.map((kept, t) => (
            <tr>
              <th scope="row">
                {t} {manifest.inputs.pieces[t]}
              </th>
              <td class="mono">
                <Num value={kept} />
              </td>
              <td class="mono">
                <Num value={masking.unmasked[t] ?? NaN} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Says>
        Each number is the largest difference of a logit to the run of all rows at once with the mask; logits reach <Num value={masking.size} />. Step by step there is no
        future to hide, and the rows are the same to <Num value={worst(masking.kept)} />. Without the mask they are others, by up to <Num value={worst(masking.unmasked)} />, and{" "}
        <Num value={masking.parted} /> of {rows} would write another piece.
      </Says>
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
  const loaded = useLoaded(() => app.find("masking", {}), `${manifest.id} masking`);
  return (
    <Card id="scaling" title="The mask before or after the division" from={["C", "E"]} claim="The mask is added to the products before they are divided by √d_k; others add it after.">
      {loaded.state === "loading" && <Loading />}
      {loaded.state === "missing" && <Missing says={loaded.says} />}
      {loaded.state === "ready" && (loaded.value.products ? <Places products={loaded.value.products} /> : <Missing says="No heads are left in the decoder's self-attention." />)}
    </Card>
  );
}

function Places({ products }: { products: NonNullable<Masking["products"]> }) {
  const [mask, setMask] = useState(0);
  const [name, value] = MASKS[mask] ?? ["", -Infinity];
  const [before, after] = (["before", "after"] as const).map((where) => maskedWeights(products.rows, products.width, value, where)) as [number[][], number[][]];
  const difference = apart(before, after);
  const none = maskedWeights(products.rows, products.width, -Infinity, "after");
  return (
    <>
      <label>
        The mask adds{" "}
        <select value={String(mask)} onChange={(event) => setMask(Number(event.currentTarget.value))}>
          {MASKS.map(([each], i) => (
            <option value={String(i)}>{each}</option>
          ))}
        </select>
      </label>
      <table class="plain-table" aria-label="The mask added before the division and after it">
        <thead>
          <tr>
            <th scope="col" />
            <th scope="col">before</th>
            <th scope="col">after</th>
          </tr>
        </thead>
        <tbody>
          {(
            [
              ["largest weight on a later piece", leaked],
              ["largest difference to weights with −∞", (weights: number[][]) => apart(weights, none)],
            ] as const
          ).map(([says, measure]) => (
            <tr>
              <th scope="row">{says}</th>
              {[before, after].map((weights) => (
                <td class="mono">
                  <Num value={measure(weights)} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <Says>
        {sectionInWords(products.section)}, head {products.head + 1}, d_k {products.width}: with {name} the two ways differ by <Num value={difference} /> at most.{" "}
        {difference === 0 ? "Infinity divided by any number is infinity: the place makes no difference." : "A finite mask is divided too when it is added before, and hides less."}
      </Says>
    </>
  );
}

export function DiagonalCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const crossings = attentions(manifest).filter((parts) => parts.reader === "T" && parts.read === "S");
  const loaded = useLoaded(() => Promise.all(crossings.map((parts) => app.tensor(parts.pattern))), `${manifest.id} crossings`);
  const [reads, setReads] = useState(false);
  const [other, setOther] = useState<Diagonals | null>(null);
  const key = reads ? "read" : "written";
  const own: Diagonals["attentions"] =
    loaded.state === "ready"
      ? loaded.value.map(({ row, values }, i) => {
          const pattern = patternOf(values, row.shape);
          const of = (offset: number) => Array.from({ length: pattern.heads }, (_, h) => diagonalOf(pattern, h, offset));
          return { section: crossings[i]?.section ?? "", written: of(0), read: of(-1) };
        })
      : [];
  return (
    <Card
      id="diagonal"
      title="Cross-attention and the identity"
      from={["A"]}
      claim="In the attention between decoder and encoder, QKᵀ comes near to the identity matrix: each word reads its own translation."
    >
      {loaded.state === "loading" && <Loading />}
      {loaded.state === "missing" && <Missing says={loaded.says} />}
      <label>
        A target piece takes the row that{" "}
        <select value={key} onChange={(event) => setReads(event.currentTarget.value === "read")}>
          <option value="written">writes it</option>
          <option value="read">reads it, one step later</option>
        </select>
      </label>
      {own.length > 0 && <DiagonalTable name={`${manifest.source.text} → ${manifest.target.text}`} rows={own} which={key} />}
      {other && <DiagonalTable name={`${other.source} → ${other.target}`} rows={other.attentions} which={key} />}
      <OtherSentence app={app} manifest={manifest} onFound={setOther} />
      <Says>
        The share of a row's weight that lies on the piece of the same number, after softmax, in the mean over the rows: 1 is the identity, <Num value={1 / manifest.source.pieces.length} /> are
        even weights. It comes near to 1 only where both sentences have the same order and as many pieces: {manifest.source.pieces.length} and {manifest.target.pieces.length} here.
      </Says>
    </Card>
  );
}

function DiagonalTable(props: { name: string; rows: Diagonals["attentions"]; which: "written" | "read" }) {
  const most = Math.max(0, ...props.rows.map((row) => row[props.which].length));
  return (
    <div class="scroll">
      <table class="plain-table" aria-label={`Weight on the diagonal: ${props.name}`}>
        <caption class="quiet">{props.name}</caption>
        <thead>
          <tr>
            <th scope="col">attention</th>
            {Array.from({ length: most }, (_, h) => (
              <th scope="col">head {h + 1}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr>
              <th scope="row">{sectionInWords(row.section)}</th>
              {Array.from({ length: most }, (_, h) => (
                <td class="mono">{h < row[props.which].length ? <Num value={row[props.which][h] ?? NaN} shown={probability(row[props.which][h] ?? NaN)} /> : "–"}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The same of a sentence in another order, which only Python can translate. */
function OtherSentence(props: { app: App; manifest: Manifest; onFound: (found: Diagonals) => void }) {
  const { app, manifest } = props;
  const words = manifest.source.text.split(/\s+/).filter(Boolean);
  const [text, setText] = useState([...words].reverse().join(" "));
  if (!app.source.act) return <p class="quiet">Another word order is not in this file; ask the server: pellucid serve MODEL</p>;
  const ask = async (event: Event) => {
    event.preventDefault();
    const found = await app.ask("identity", { sentence: text });
    if (found) props.onFound(found);
  };
  return (
    <form class="row" onSubmit={ask}>
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
  const all = attentions(manifest).filter((parts) => parts.heads > 0);
  const [chosen, setChosen] = useState(all[0]?.section ?? "");
  const parts = all.find((each) => each.section === chosen) ?? all[0];
  const { study, says } = app.studied.value ?? { study: null, says: null };
  return (
    <Card
      id="roles"
      title="What different heads do"
      from={["B"]}
      claim="Each head captures something else; after Voita et al., the ones that matter read neighbours, follow syntax, or look for rare words, and the others can go."
    >
      {study ? <Roles study={study} /> : <Missing says={says ?? "The roles of heads have not come yet."} />}
      {parts && (
        <>
          <label>
            How alike the heads read, on this sentence, in{" "}
            <select value={parts.section} onChange={(event) => setChosen(event.currentTarget.value)}>
              {all.map((each) => (
                <option value={each.section}>{sectionInWords(each.section)}</option>
              ))}
            </select>
          </label>
          <Alike parts={parts} key={parts.section} />
        </>
      )}
    </Card>
  );
}

/** How many heads can be called what, and what silence costs. */
function Roles({ study }: { study: HeadStudy }) {
  const marks = new Map<string, number>();
  for (const head of study.heads) for (const badge of head.badges) marks.set(badge.mark, (marks.get(badge.mark) ?? 0) + 1);
  const none = study.heads.filter((head) => head.badges.length === 0).length;
  const by = [...study.heads].sort((a, b) => b.silent - a.silent);
  const [first, last] = [by[0], by.at(-1)];
  const harmless = study.heads.filter((head) => head.silent <= 0).length;
  return (
    <>
      <dl class="facts" data-roles="">
        {[...marks].map(([mark, heads]) => (
          <>
            <dt>{mark}</dt>
            <dd>
              <Num value={heads} /> of {study.heads.length} heads
            </dd>
          </>
        ))}
        <dt>none of these</dt>
        <dd>
          <Num value={none} /> of {study.heads.length} heads
        </dd>
      </dl>
      {first && last && (
        <Says>
          On {count(study.pairs)} pairs, silence of {first.attention} head {first.head + 1} costs most, <Num value={first.silent} /> nats a piece, and of {last.attention} head{" "}
          {last.head + 1} least, <Num value={last.silent} />. For <Num value={harmless} /> of {study.heads.length} heads the loss does not grow when that one is silent.
        </Says>
      )}
    </>
  );
}

function Alike({ parts }: { parts: AttentionParts }) {
  const dark = useDark();
  const loaded = useTensor(parts.pattern);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing says={loaded.says} />;
  const pattern = patternOf(loaded.value.values, loaded.value.row.shape);
  const values = affinities(pattern);
  const axis = { dim: "H", size: pattern.heads, labels: Array.from({ length: pattern.heads }, (_, h) => `head ${h + 1}`) };
  const others = Array.from({ length: pattern.heads ** 2 }, (_, i) => i).filter((i) => i % pattern.heads > Math.floor(i / pattern.heads));
  const least = others.length ? Math.min(...others.map((i) => values[i] ?? NaN)) : NaN;
  return (
    <>
      <Sheet values={values} rows={axis} cols={axis} scale={shares(dark)} label="Overlap of two heads" maxHeight={260} />
      <p class="quiet">
        Bhattacharyya's coefficient of their weights, in the mean over {pattern.queries} rows: 1 where they read alike, 0 where they have nothing in common.
        {others.length ? ` The two most different here: ${figure(least)}.` : ""}
      </p>
    </>
  );
}
