// The heads of one attention side by side as thumbnails; each opens its head.

import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import { type AttentionParts, describeSection, findTensorRow } from "../tensor_graph";
import { describeRole, findStudiedHead, HeadWorth, MissingHeads } from "./head_roles";

export function HeadsRow(props: { parts: AttentionParts; current?: number; named?: boolean }) {
  const app = useApp();
  const manifest = app.manifest.value;
  const { parts, current } = props;
  const queries = manifest ? (findTensorRow(manifest, parts.pattern)?.shape[1] ?? 1) : 1;
  const follow = app.followed.value?.dim === parts.queryDim ? app.followed.value.index : null;
  const marked = follow ?? (parts.queryDim === "T" ? app.step.value : null);
  return (
    <div class="heads-row">
      {Array.from({ length: parts.heads }, (_, head) => (
        <button
          key={head}
          type="button"
          class="head-thumb"
          aria-current={head === current ? "true" : undefined}
          aria-label={`${describeSection(parts.section)}, head ${head + 1} of ${parts.heads}: open`}
          title={[`head ${head + 1}`, ...describeRole(findStudiedHead(app.headStudy.value, parts.section, head))].join("; ")}
          onClick={() => app.goTo({ view: "head", section: parts.section, head })}
        >
          <span class="head-face">
            <Matrix tensor={parts.pattern} fixed={{ H: head }} bare />
            {marked === null ? null : (
              <span class="head-row-mark" style={{ top: `${(100 * marked) / queries}%`, height: `${100 / queries}%` }} />
            )}
            {props.named ? <span class="head-plate">head {head + 1}</span> : null}
          </span>
          <HeadWorth section={parts.section} head={head} />
        </button>
      ))}
      <MissingHeads parts={parts} manifest={manifest} />
    </div>
  );
}
