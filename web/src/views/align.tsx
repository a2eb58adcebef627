// Links between the words of the two sentences, as far as cross-attention shows them.
import { useState } from "preact/hooks";
import { formatNumber, formatProbability } from "../format";
import { useApp, useTensor } from "../hooks";
import { averageHeads, getHeadWeights, makePattern } from "../measures";
import { type AttentionParts, listAttentions, listPieces } from "../network";
import { AttentionMenu, Menu, NotReady, Value } from "../parts";
import type { App } from "../state";
import type { Manifest, Side } from "../types";
import { groupPieces } from "./tokens";

const [ROW, LEFT, GAP, TOP] = [30, 190, 320, 16];

export function AlignView() {
  const app = useApp();
  const manifest = app.manifest.value;
  if (!manifest) return null;
  const crossAttentions = listAttentions(manifest).filter((parts) => parts.queryDim === "T" && parts.keyDim === "S");
  return <LinksPanel app={app} manifest={manifest} crossAttentions={crossAttentions} key={manifest.id} />;
}

function LinksPanel({ app, manifest, crossAttentions }: { app: App; manifest: Manifest; crossAttentions: AttentionParts[] }) {
  const [section, setSection] = useState(crossAttentions.at(-1)?.section ?? "");
  const [head, setHead] = useState("mean");
  const [rowMeaning, setRowMeaning] = useState<RowMeaning>("writes");
  const [byWord, setByWord] = useState(false);
  const [minWeight, setMinWeight] = useState(0.1);
  const parts = crossAttentions.find((parts) => parts.section === section) ?? crossAttentions[0];
  if (!parts) return null;
  const heads = Array.from({ length: parts.heads }, (_, h) => [String(h), `head ${h + 1}`] as const);
  return (
    <div class="stack align-body">
      <h2>Links between the two sentences</h2>
      <div class="row form-row">
        <AttentionMenu label="Layer" attentions={crossAttentions} section={section} onSection={setSection} />
        <Menu label="Heads" value={head} options={[["mean", `mean of all ${parts.heads}`], ...heads]} onPick={setHead} />
        <Menu
          label="For a target piece, use the row that"
          value={rowMeaning}
          options={[["writes", "writes it"], ["reads", "reads it, one step later"]]}
          onPick={(meaning) => setRowMeaning(meaning as RowMeaning)}
        />
        <label>
          <input type="checkbox" checked={byWord} onChange={(event) => setByWord(event.currentTarget.checked)} /> whole words
        </label>
        <label>
          Weight at least{" "}
          <input type="range" min={0.02} max={0.6} step={0.02} value={minWeight} onInput={(event) => setMinWeight(Number(event.currentTarget.value))} />{" "}
          {minWeight.toFixed(2)}
        </label>
      </div>
      <WeightedLinks app={app} manifest={manifest} parts={parts} head={head} rowMeaning={rowMeaning} byWord={byWord} minWeight={minWeight} />
    </div>
  );
}

interface WeightedProps {
  app: App;
  manifest: Manifest;
  parts: AttentionParts;
  head: string;
  rowMeaning: RowMeaning;
  byWord: boolean;
  minWeight: number;
}

function WeightedLinks({ app, manifest, parts, head, rowMeaning, byWord, minWeight }: WeightedProps) {
  const loaded = useTensor(parts.pattern);
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  const pattern = makePattern(loaded.value.values, loaded.value.row.shape);
  const weights = head === "mean" || Number(head) >= pattern.heads ? averageHeads(pattern) : getHeadWeights(pattern, Number(head));
  const links = findLinks(manifest, weights, rowMeaning, byWord, minWeight);
  return (
    <>
      <LinksPicture app={app} links={links} />
      <p>
        On average, <Value shown={formatNumber(Number(links.hiddenWeight.toFixed(3)))} /> of the weight of a row is not drawn, because it lies in links
        below {minWeight.toFixed(2)}. Special tokens such as {manifest.source.pieces.at(-1)} are drawn like words.
      </p>
      <p class="quiet">
        Attention is not an alignment, but it is often close to one. The row that writes a piece has not read that piece yet. The next row has
        read it, and its weights often fit the source word better (Chen et al. 2020).
      </p>
    </>
  );
}

function LinksPicture({ app, links }: { app: App; links: AlignmentLinks }) {
  const [hover, setHover] = useState<{ side: "source" | "target"; unit: number } | null>(null);
  const hidden = app.hidden.value;
  const scale = app.mode.value === "teach" ? 1.4 : 1;
  const follow = app.followed.value;
  const rows = Math.max(links.sources.length, links.targets.length);
  const y = (unit: number) => TOP + unit * ROW + ROW / 2;
  const isFollowed = (unit: number) => follow?.dim === "S" && (links.sources[unit]?.pieces.includes(follow.index) ?? false);
  const isLit = (source: number, target: number) =>
    hover ? (hover.side === "source" ? hover.unit === source : hover.unit === target) : follow?.dim === "S" ? isFollowed(source) : true;
  const isCurrent = (unit: number) => links.targets[unit]?.pieces.includes(app.step.value) ?? false;
  const togglePin = (unit: number) => {
    const index = links.sources[unit]?.pieces[0];
    if (index !== undefined) app.followed.value = isFollowed(unit) ? null : { dim: "S", index };
  };
  return (
    <div class="scroll">
      <svg
        class="align-links"
        width={scale * (2 * LEFT + GAP)}
        height={scale * (2 * TOP + rows * ROW)}
        viewBox={`0 0 ${2 * LEFT + GAP} ${2 * TOP + rows * ROW}`}
        role="group"
        aria-label="Source to the left, target to the right"
      >
        {!hidden &&
          links.links.map((link) => (
            <path
              class={`align-link${isLit(link.source, link.target) ? " align-lit" : ""}`}
              d={`M${LEFT},${y(link.source)} C${LEFT + GAP / 2},${y(link.source)} ${LEFT + GAP / 2},${y(link.target)} ${LEFT + GAP},${y(link.target)}`}
              stroke-width={0.5 + 9 * link.weight}
            >
              <title>{`${links.sources[link.source]?.text} – ${links.targets[link.target]?.text}: ${formatProbability(link.weight)}`}</title>
            </path>
          ))}
        {links.sources.map((unit, i) => (
          <Word text={unit.text} x={LEFT - 10} y={y(i)} end pressed={isFollowed(i)} onHover={(on) => setHover(on ? { side: "source", unit: i } : null)} onPick={() => togglePin(i)} />
        ))}
        {links.targets.map((unit, i) => (
          <Word
            text={unit.text}
            x={LEFT + GAP + 10}
            y={y(i)}
            pressed={isCurrent(i)}
            onHover={(on) => setHover(on ? { side: "target", unit: i } : null)}
            onPick={() => (app.step.value = Math.min(unit.pieces[0] ?? 0, (app.manifest.value?.steps.length ?? 1) - 1))}
          />
        ))}
        {hover && !hidden && links.links.filter((link) => isLit(link.source, link.target)).map((link) => <LinkWeight link={link} hover={hover.side} y={y} />)}
      </svg>
    </div>
  );
}

interface WordProps {
  text: string;
  x: number;
  y: number;
  end?: boolean;
  pressed: boolean;
  onHover: (on: boolean) => void;
  onPick: () => void;
}

function Word({ text, x, y, end, pressed, onHover, onPick }: WordProps) {
  return (
    <g
      class="align-word"
      role="button"
      tabindex={0} // lower case: attributes of SVG have no other name
      aria-pressed={pressed}
      aria-label={text}
      onMouseEnter={() => onHover(true)}
      onMouseLeave={() => onHover(false)}
      onFocus={() => onHover(true)}
      onBlur={() => onHover(false)}
      onClick={onPick}
      onKeyDown={(event) => event.key === "Enter" && onPick()}
    >
      <rect x={end ? x - LEFT + 30 : x - 4} y={y - ROW / 2 + 3} width={LEFT - 26} height={ROW - 6} rx={4} />
      <text x={end ? x : x + 2} y={y + 5} text-anchor={end ? "end" : "start"}>
        {text}
      </text>
    </g>
  );
}

/** Shows the weight of a highlighted link beside the word at its other end. */
function LinkWeight({ link, hover, y }: { link: AlignmentLinks["links"][number]; hover: "source" | "target"; y: (unit: number) => number }) {
  const right = hover === "source";
  const height = right ? y(link.target) : y(link.source);
  return (
    <text class="align-weight" x={right ? 2 * LEFT + GAP - 30 : 4} y={height + 5}>
      {formatProbability(link.weight)}
    </text>
  );
}

/** Meaning of a row of the decoder: the piece it writes, or the piece it has read. */
type RowMeaning = "writes" | "reads";

/** A unit of one side that can be linked: a piece, a word or a special token. */
interface LinkUnit {
  text: string;
  pieces: number[];
}

interface AlignmentLink {
  source: number; // number of a unit
  target: number;
  weight: number;
}

interface AlignmentLinks {
  sources: LinkUnit[];
  targets: LinkUnit[];
  links: AlignmentLink[]; // those whose weight reaches the threshold
  hiddenWeight: number; // weight of a target unit that is not drawn, averaged over the units
}

export function listUnits(side: Side, byWord: boolean): LinkUnit[] {
  if (!byWord) return listPieces(side).map((text, index) => ({ text, pieces: [index] }));
  return groupPieces(side).map(({ word, text, pieces }) => ({ text: word === null ? (side.pieces[pieces[0] ?? 0] ?? "") : text, pieces }));
}

/**
 * Finds the links that reach a weight. `weights` is (T, S); row t belongs to decoder position t, which writes target piece t
 * and has read piece t - 1. Weights are summed over the source pieces of a word and averaged over its target pieces.
 */
export function findLinks(manifest: Manifest, weights: Float32Array, rowMeaning: RowMeaning, byWord: boolean, minWeight: number): AlignmentLinks {
  const sources = listUnits(manifest.source, byWord);
  const targets = listUnits(manifest.target, byWord);
  const width = manifest.source.pieces.length;
  const rowCount = weights.length / Math.max(1, width);
  const findRow = (piece: number) => (rowMeaning === "writes" ? piece : piece + 1);
  const links: AlignmentLink[] = [];
  let [hidden, linkedTargets] = [0, 0];
  targets.forEach((target, t) => {
    const targetRows = target.pieces.map(findRow).filter((row) => row < rowCount);
    if (!targetRows.length) return;
    linkedTargets++;
    sources.forEach((source, s) => {
      let sum = 0;
      for (const row of targetRows) for (const key of source.pieces) sum += weights[row * width + key] ?? NaN;
      const weight = sum / targetRows.length;
      if (weight >= minWeight) links.push({ source: s, target: t, weight });
      else hidden += weight;
    });
  });
  return { sources, targets, links, hiddenWeight: hidden / Math.max(1, linkedTargets) };
}
