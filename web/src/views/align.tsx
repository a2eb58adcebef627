// Which words of the two sentences belong together, as far as cross-attention says so.
import { useState } from "preact/hooks";
import { type Links, linksOf, type Reading } from "../alignment_links";
import { figure, probability } from "../format";
import { useApp, useTensor } from "../hooks";
import { meanOf, patternOf, weightsOf } from "../patterns";
import type { App } from "../state";
import { type AttentionParts, attentions, sectionInWords } from "../tensor_graph";
import type { Manifest } from "../types";
import { Loading, Missing, Value } from "./values";

const [ROW, LEFT, GAP, TOP] = [30, 190, 320, 16];

export function AlignView() {
  const app = useApp();
  const manifest = app.manifest.value;
  if (!manifest) return null;
  const crossings = attentions(manifest).filter((parts) => parts.reader === "T" && parts.read === "S" && parts.heads > 0);
  if (!crossings.length) return <Missing says="This model has no head left that reads the source from the decoder." />;
  return <Chosen app={app} manifest={manifest} crossings={crossings} key={manifest.id} />;
}

function Chosen({ app, manifest, crossings }: { app: App; manifest: Manifest; crossings: AttentionParts[] }) {
  const [section, setSection] = useState(crossings.at(-1)?.section ?? "");
  const [head, setHead] = useState("mean");
  const [reading, setReading] = useState<Reading>("writes");
  const [byWord, setByWord] = useState(false);
  const [least, setLeast] = useState(0.1);
  const parts = crossings.find((each) => each.section === section) ?? crossings[0];
  if (!parts) return null;
  return (
    <div class="stack align-body">
      <h2>Links between the two sentences</h2>
      <div class="row form-row">
        <label>
          Layer{" "}
          <select value={section} onChange={(event) => setSection(event.currentTarget.value)}>
            {crossings.map((each) => (
              <option value={each.section}>{sectionInWords(each.section)}</option>
            ))}
          </select>
        </label>
        <label>
          Heads{" "}
          <select value={head} onChange={(event) => setHead(event.currentTarget.value)}>
            <option value="mean">mean of all {parts.heads}</option>
            {Array.from({ length: parts.heads }, (_, h) => (
              <option value={String(h)}>head {h + 1}</option>
            ))}
          </select>
        </label>
        <label>
          A target piece takes the row that{" "}
          <select value={reading} onChange={(event) => setReading(event.currentTarget.value === "reads" ? "reads" : "writes")}>
            <option value="writes">writes it</option>
            <option value="reads">reads it, one step later</option>
          </select>
        </label>
        <label>
          <input type="checkbox" checked={byWord} onChange={(event) => setByWord(event.currentTarget.checked)} /> whole words
        </label>
        <label>
          Links from{" "}
          <input type="range" min={0.02} max={0.6} step={0.02} value={least} onInput={(event) => setLeast(Number(event.currentTarget.value))} />{" "}
          {least.toFixed(2)}
        </label>
      </div>
      <Weighted app={app} manifest={manifest} parts={parts} head={head} reading={reading} byWord={byWord} least={least} />
    </div>
  );
}

interface WeightedProps {
  app: App;
  manifest: Manifest;
  parts: AttentionParts;
  head: string;
  reading: Reading;
  byWord: boolean;
  least: number;
}

function Weighted({ app, manifest, parts, head, reading, byWord, least }: WeightedProps) {
  const loaded = useTensor(parts.pattern);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing says={loaded.says} />;
  const pattern = patternOf(loaded.value.values, loaded.value.row.shape);
  const weights = head === "mean" || Number(head) >= pattern.heads ? meanOf(pattern) : weightsOf(pattern, Number(head));
  const links = linksOf(manifest, weights, reading, byWord, least);
  return (
    <>
      <Picture app={app} links={links} />
      <p>
        <Value shown={figure(Number(links.hidden.toFixed(3)))} /> of the weight of a row is not drawn, in the mean: it lies in links below{" "}
        {least.toFixed(2)}. Marks such as {manifest.source.pieces.at(-1)} are drawn like words.
      </p>
      <p class="quiet">
        Attention is not an alignment, but often near one. The row that writes a piece has not read it yet; one step later, when it has, its
        weights often fit the source word better (Chen et al. 2020).
      </p>
    </>
  );
}

function Picture({ app, links }: { app: App; links: Links }) {
  const [hover, setHover] = useState<{ side: "source" | "target"; unit: number } | null>(null);
  const hidden = app.hidden.value;
  const size = app.mode.value === "teach" ? 1.4 : 1;
  const follow = app.follow.value;
  const rows = Math.max(links.sources.length, links.targets.length);
  const y = (unit: number) => TOP + unit * ROW + ROW / 2;
  const followed = (unit: number) => follow?.dim === "S" && (links.sources[unit]?.pieces.includes(follow.index) ?? false);
  const lit = (source: number, target: number) =>
    hover ? (hover.side === "source" ? hover.unit === source : hover.unit === target) : follow?.dim === "S" ? followed(source) : true;
  const written = (unit: number) => links.targets[unit]?.pieces.includes(app.step.value) ?? false;
  const pin = (unit: number) => {
    const index = links.sources[unit]?.pieces[0];
    if (index !== undefined) app.follow.value = followed(unit) ? null : { dim: "S", index };
  };
  return (
    <div class="scroll">
      <svg
        class="align-links"
        width={size * (2 * LEFT + GAP)}
        height={size * (2 * TOP + rows * ROW)}
        viewBox={`0 0 ${2 * LEFT + GAP} ${2 * TOP + rows * ROW}`}
        role="group"
        aria-label="Source to the left, target to the right"
      >
        {!hidden &&
          links.links.map((link) => (
            <path
              class={`align-link${lit(link.source, link.target) ? " align-lit" : ""}`}
              d={`M${LEFT},${y(link.source)} C${LEFT + GAP / 2},${y(link.source)} ${LEFT + GAP / 2},${y(link.target)} ${LEFT + GAP},${y(link.target)}`}
              stroke-width={0.5 + 9 * link.weight}
            >
              <title>{`${links.sources[link.source]?.text} – ${links.targets[link.target]?.text}: ${probability(link.weight)}`}</title>
            </path>
          ))}
        {links.sources.map((unit, i) => (
          <Word text={unit.text} x={LEFT - 10} y={y(i)} end pressed={followed(i)} onHover={(on) => setHover(on ? { side: "source", unit: i } : null)} onPick={() => pin(i)} />
        ))}
        {links.targets.map((unit, i) => (
          <Word
            text={unit.text}
            x={LEFT + GAP + 10}
            y={y(i)}
            pressed={written(i)}
            onHover={(on) => setHover(on ? { side: "target", unit: i } : null)}
            onPick={() => (app.step.value = Math.min(unit.pieces[0] ?? 0, (app.manifest.value?.steps.length ?? 1) - 1))}
          />
        ))}
        {hover && !hidden && links.links.filter((link) => lit(link.source, link.target)).map((link) => <Weight link={link} hover={hover.side} y={y} />)}
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
      tabIndex={0}
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

/** The weight of a lit link, beside the word at its other end. */
function Weight({ link, hover, y }: { link: Links["links"][number]; hover: "source" | "target"; y: (unit: number) => number }) {
  const right = hover === "source";
  const at = right ? y(link.target) : y(link.source);
  return (
    <text class="align-weight" x={right ? 2 * LEFT + GAP - 30 : 4} y={at + 5}>
      {probability(link.weight)}
    </text>
  );
}
