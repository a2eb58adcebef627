// All heads side by side: their patterns, how sharp they are, and one head or two looked at closely.
import { useState } from "preact/hooks";
import { useApp, useTensor } from "../hooks";
import { Matrix } from "../matrix";
import { type HeadNumbers, marksOf, numbersOf, patternOf } from "../patterns";
import { type AttentionParts, attentions, sectionInWords } from "../tensor_graph";
import type { Manifest } from "../types";
import { AtlasLegend, Gone, known, roleInWords, Worth } from "./head_roles";
import { OneHead } from "./one_head";
import { Missing, Value } from "./values";

const WIDTH = 146; // CSS pixels of a thumbnail and its gap

/** One head of one attention. */
interface Choice {
  section: string;
  head: number;
}

export function HeadsView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const [picked, setPicked] = useState<Choice | null>(null);
  if (!manifest) return null;
  const all = attentions(manifest);
  const shown = all.find((parts) => parts.section === picked?.section);
  return (
    <div class="stack heads-body">
      <h2>All heads</h2>
      <p class="quiet">
        Rows attend to columns. Below each: its largest weight in a row and its entropy in nats, both in the mean over the rows. Pick one to see
        what its weights carry, and to lay another head beside it.
      </p>
      <AtlasLegend />
      {picked && shown && picked.head < shown.heads && <OneHead app={app} manifest={manifest} parts={shown} head={picked.head} key={`${manifest.id} ${picked.section} ${picked.head}`} />}
      <div class="heads-grid" style={{ gridTemplateColumns: `repeat(auto-fill, minmax(min(100%, ${WIDTH * Math.max(1, ...all.map((parts) => parts.heads))}px), 1fr))` }}>
        {all.map((parts) => (
          <Line manifest={manifest} parts={parts} picked={picked} onPick={setPicked} key={`${manifest.id} ${parts.section}`} />
        ))}
      </div>
    </div>
  );
}

interface LineProps {
  manifest: Manifest;
  parts: AttentionParts;
  picked: Choice | null;
  onPick: (choice: Choice) => void;
}

/** The heads of one attention. */
function Line({ manifest, parts, picked, onPick }: LineProps) {
  const app = useApp();
  const loaded = useTensor(parts.pattern);
  const numbers = (head: number): HeadNumbers | null =>
    loaded.state === "ready" ? numbersOf(patternOf(loaded.value.values, loaded.value.row.shape), head, marksOf(manifest, parts.read)) : null;
  return (
    <section class="heads-of" aria-label={sectionInWords(parts.section)}>
      <h3>{sectionInWords(parts.section)}</h3>
      {loaded.state === "missing" && <Missing says={loaded.says} />}
      <div class="heads-thumbnails">
        {Array.from({ length: parts.heads }, (_, head) => (
          <button
            type="button"
            class="heads-thumbnail"
            aria-pressed={picked?.section === parts.section && picked.head === head}
            aria-label={`${sectionInWords(parts.section)}, head ${head + 1}`}
            title={roleInWords(known(app.studied.value, parts.section, head)).join("; ") || undefined}
            onClick={() => onPick({ section: parts.section, head })}
          >
            <Matrix tensor={parts.pattern} take={{ H: head }} bare />
            <Worth section={parts.section} head={head} />
            <Measured head={head} numbers={numbers(head)} />
          </button>
        ))}
        <Gone parts={parts} manifest={manifest} />
      </div>
    </section>
  );
}

function Measured({ head, numbers }: { head: number; numbers: HeadNumbers | null }) {
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
