// What is known of each head from sentence pairs: how much worse the model gets without it, and what it can be called.

import { colourOf, inkOn, rgbOf, type Scale, symmetric } from "../colour";
import { count, figure, many, roundedUp, signed } from "../format";
import { useApp } from "../hooks";
import { Legend } from "../legend";
import type { AttentionParts } from "../tensor_graph";
import { useDark } from "../theme";
import type { HeadStudy, Manifest, Studied } from "../types";

type Known = HeadStudy["heads"][number];

/** What was found of one head; undefined where no head was studied. */
export function known(studied: Studied | null, section: string, head: number): Known | undefined {
  return studied?.study?.heads.find((each) => each.attention === section && each.head === head);
}

/** Its role, and what its silence costs, each as a phrase. */
export function roleInWords(head: Known | undefined): string[] {
  if (!head) return [];
  const role = head.badges.map((badge) => `${badge.mark} (${badge.says})`).join(", ");
  return [`role: ${role || "none by the rules"}`, `loss if removed ${signed(head.silent)}`];
}

/** One scale for all heads: what silence costs, symmetric about nothing. */
export function scaleOfStudy(study: HeadStudy, dark: boolean): Scale {
  return symmetric(roundedUp(Math.max(0, ...study.heads.map((each) => Math.abs(each.silent)))), dark);
}

/** On a small picture of a head: a bar in the colour of its worth, and its role; a dot where it has none. */
export function Worth(props: { section: string; head: number }) {
  const app = useApp();
  const dark = useDark();
  const found = known(app.studied.value, props.section, props.head);
  const study = app.studied.value?.study;
  if (!found || !study || app.hidden.value) return null;
  const scale = scaleOfStudy(study, dark);
  const role = found.badges.map((badge) => badge.mark).join(" ");
  const [paper, ink] = [colourOf(found.silent, scale), inkOn(rgbOf(found.silent, scale))];
  return (
    <span class="head-worth" style={{ background: paper, color: ink }} data-silent={found.silent} aria-hidden="true">
      {role || "·"}
    </span>
  );
}

/** Heads that the model once had and has no more: a dot each, and no picture. */
export function Gone({ parts, manifest }: { parts: AttentionParts; manifest: Manifest | null }) {
  const had = Number(manifest?.model.config.heads ?? parts.heads);
  const gone = Math.max(0, had - parts.heads);
  if (!gone) return null;
  const says = parts.heads ? `${many(gone, "head")} fewer than elsewhere` : "no heads left here";
  return (
    <span class="heads-gone quiet" role="img" aria-label={says} title={says}>
      {"●".repeat(Math.min(gone, 16))}
      {parts.heads ? null : <span class="heads-none"> {says}</span>}
    </span>
  );
}

/** The role of the head that is looked at. */
export function RoleOf(props: { section: string; head: number }) {
  const app = useApp();
  const found = known(app.studied.value, props.section, props.head);
  const study = app.studied.value?.study;
  if (!found || !study) return null;
  const error = found.error === null ? "" : ` ± ${figure(found.error)}`;
  return (
    <p class="head-role">
      role:{" "}
      {found.badges.length
        ? found.badges.map((badge) => (
            <span>
              <b class="chip">{badge.mark}</b> {badge.says}{" "}
            </span>
          ))
        : "none by the rules "}
      · loss if removed{" "}
      <b class="mono" title={String(found.silent)}>
        {app.hidden.value ? "?" : signed(found.silent)}
      </b>
      {app.hidden.value ? "" : error} <span class="quiet">nats a piece, of {figure(study.loss)}, on {many(study.pairs, "pair")}</span>
    </p>
  );
}

/** What colours and marks say, and on how much text that was measured; or how to measure it. */
export function AtlasLegend() {
  const app = useApp();
  const dark = useDark();
  const { study, says } = app.studied.value ?? { study: null, says: null };
  if (!study) return says ? <p class="quiet roles-missing">No roles are shown: {says}</p> : null;
  return (
    <div class="roles-legend quiet">
      <p>
        The bar below a head: how much the loss grows without it, in nats a piece, measured on {count(study.pairs)} sentence pairs with a loss of{" "}
        {figure(study.loss)}. <Legend scale={scaleOfStudy(study, dark)} />
      </p>
      <details>
        <summary>The marks on it, and the rules for them</summary>
        <dl class="facts">
          {Object.entries(study.rules).map(([mark, rule]) => (
            <>
              <dt>{mark}</dt>
              <dd>{rule}</dd>
            </>
          ))}
          <dt>·</dt>
          <dd>none of these; that says nothing of what it is good for</dd>
          <dt>●</dt>
          <dd>a head that this attention has fewer than the model's other ones</dd>
        </dl>
      </details>
    </div>
  );
}
