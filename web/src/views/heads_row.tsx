// The heads of one attention side by side as small pictures, each a way into its head.

import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import { type AttentionParts, rowOf, sectionInWords } from "../tensor_graph";
import { Gone, known, roleInWords, Worth } from "./head_roles";

export function HeadsRow(props: { parts: AttentionParts; current?: number; named?: boolean }) {
  const app = useApp();
  const manifest = app.manifest.value;
  const { parts, current } = props;
  const queries = manifest ? (rowOf(manifest, parts.pattern)?.shape[1] ?? 1) : 1;
  const follow = app.follow.value?.dim === parts.reader ? app.follow.value.index : null;
  const marked = follow ?? (parts.reader === "T" ? app.step.value : null);
  return (
    <div class="heads-row">
      {Array.from({ length: parts.heads }, (_, head) => (
        <button
          key={head}
          type="button"
          class="head-thumb"
          aria-current={head === current ? "true" : undefined}
          aria-label={`${sectionInWords(parts.section)}, head ${head + 1} of ${parts.heads}: open`}
          title={[`head ${head + 1}`, ...roleInWords(known(app.studied.value, parts.section, head))].join("; ")}
          onClick={() => app.go({ view: "head", section: parts.section, head })}
        >
          <span class="head-face">
            <Matrix tensor={parts.pattern} take={{ H: head }} bare />
            {marked === null ? null : (
              <span class="head-row-mark" style={{ top: `${(100 * marked) / queries}%`, height: `${100 / queries}%` }} />
            )}
            {props.named ? <span class="head-plate">head {head + 1}</span> : null}
          </span>
          <Worth section={parts.section} head={head} />
        </button>
      ))}
      <Gone parts={parts} manifest={manifest} />
    </div>
  );
}
