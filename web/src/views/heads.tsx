// All heads side by side: their patterns, how sharp they are, and one or two heads in detail.
import { useState } from "preact/hooks";
import { useApp, useTensor } from "../hooks";
import { Matrix } from "../matrix";
import { findSpecialTokens, type HeadMeasures, makePattern, measureHead } from "../patterns";
import { type AttentionParts, describeSection, listAttentions } from "../tensor_graph";
import type { Manifest } from "../types";
import { describeRole, findStudiedHead, HeadWorth, MissingHeads, RolesLegend } from "./head_roles";
import { OneHead } from "./one_head";
import { Missing, Value } from "./values";

const WIDTH = 146; // CSS pixels of a thumbnail and its gap

/** A head of an attention, chosen by the reader. */
interface HeadChoice {
  section: string;
  head: number;
}

export function HeadsView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const [picked, setPicked] = useState<HeadChoice | null>(null);
  if (!manifest) return null;
  const attentions = listAttentions(manifest);
  const shown = attentions.find((parts) => parts.section === picked?.section);
  return (
    <div class="stack heads-body">
      <h2>All heads</h2>
      <p class="quiet">
        Rows attend to columns. Below each: its largest weight in a row and its entropy in nats, both averaged over the rows. Pick one to see
        what its weights carry, and to compare it with another head.
      </p>
      <RolesLegend />
      {picked && shown && picked.head < shown.heads && <OneHead app={app} manifest={manifest} parts={shown} head={picked.head} key={`${manifest.id} ${picked.section} ${picked.head}`} />}
      <div class="heads-grid" style={{ gridTemplateColumns: `repeat(auto-fill, minmax(min(100%, ${WIDTH * Math.max(1, ...attentions.map((parts) => parts.heads))}px), 1fr))` }}>
        {attentions.map((parts) => (
          <AttentionHeads manifest={manifest} parts={parts} picked={picked} onPick={setPicked} key={`${manifest.id} ${parts.section}`} />
        ))}
      </div>
    </div>
  );
}

interface AttentionHeadsProps {
  manifest: Manifest;
  parts: AttentionParts;
  picked: HeadChoice | null;
  onPick: (choice: HeadChoice) => void;
}

/** Shows the heads of one attention as thumbnails. */
function AttentionHeads({ manifest, parts, picked, onPick }: AttentionHeadsProps) {
  const app = useApp();
  const loaded = useTensor(parts.pattern);
  const measure = (head: number): HeadMeasures | null =>
    loaded.state === "ready" ? measureHead(makePattern(loaded.value.values, loaded.value.row.shape), head, findSpecialTokens(manifest, parts.keyDim)) : null;
  return (
    <section class="heads-of" aria-label={describeSection(parts.section)}>
      <h3>{describeSection(parts.section)}</h3>
      {loaded.state === "missing" && <Missing message={loaded.message} />}
      <div class="heads-thumbnails">
        {Array.from({ length: parts.heads }, (_, head) => (
          <button
            type="button"
            class="heads-thumbnail"
            aria-pressed={picked?.section === parts.section && picked.head === head}
            aria-label={`${describeSection(parts.section)}, head ${head + 1}`}
            title={describeRole(findStudiedHead(app.headStudy.value, parts.section, head)).join("; ") || undefined}
            onClick={() => onPick({ section: parts.section, head })}
          >
            <Matrix tensor={parts.pattern} fixed={{ H: head }} bare />
            <HeadWorth section={parts.section} head={head} />
            <HeadMeasureText head={head} numbers={measure(head)} />
          </button>
        ))}
        <MissingHeads parts={parts} manifest={manifest} />
      </div>
    </section>
  );
}

function HeadMeasureText({ head, numbers }: { head: number; numbers: HeadMeasures | null }) {
  return (
    <span class="heads-measured">
      <strong>{head + 1}</strong>
      {numbers && (
        <span>
          max <Value shown={numbers.largest.toFixed(2)} /> · H <Value shown={numbers.entropy.toFixed(2)} />
        </span>
      )}
    </span>
  );
}
