// Roles of heads, measured on sentence pairs: how much worse the model gets without a head, and which role it plays.

import { chooseInk, makeSymmetricScale, type Scale, toCssColour, toRgb } from "../colour";
import { formatCount, formatNumber, formatQuantity, formatSigned, roundUp } from "../format";
import { useApp } from "../hooks";
import { Legend } from "../legend";
import type { AttentionParts } from "../tensor_graph";
import { useDark } from "../theme";
import type { HeadStudy, HeadStudyAnswer, Manifest } from "../types";

type StudiedHead = HeadStudy["heads"][number];

/** Finds the study of one head; undefined where no head was studied. */
export function findStudiedHead(studied: HeadStudyAnswer | null, section: string, head: number): StudiedHead | undefined {
  return studied?.study?.heads.find((entry) => entry.attention === section && entry.head === head);
}

/** Describes the role of a head and the loss without it, each as a phrase. */
export function describeRole(head: StudiedHead | undefined): string[] {
  if (!head) return [];
  const role = head.badges.map((badge) => `${badge.mark} (${badge.says})`).join(", ");
  return [`role: ${role || "none by the rules"}`, `loss if removed ${formatSigned(head.silent)}`];
}

/** Makes one colour scale for all heads: the loss without a head, symmetric about 0. */
export function makeStudyScale(study: HeadStudy, dark: boolean): Scale {
  return makeSymmetricScale(roundUp(Math.max(0, ...study.heads.map((head) => Math.abs(head.silent)))), dark);
}

/** Shows a bar below a head's thumbnail: its colour is the loss without the head, its text the role, a dot where there is none. */
export function HeadWorth(props: { section: string; head: number }) {
  const app = useApp();
  const dark = useDark();
  const studiedHead = findStudiedHead(app.headStudy.value, props.section, props.head);
  const study = app.headStudy.value?.study;
  if (!studiedHead || !study || app.hidden.value) return null;
  const scale = makeStudyScale(study, dark);
  const role = studiedHead.badges.map((badge) => badge.mark).join(" ");
  const [background, ink] = [toCssColour(studiedHead.silent, scale), chooseInk(toRgb(studiedHead.silent, scale))];
  return (
    <span class="head-worth" style={{ background, color: ink }} data-silent={studiedHead.silent} aria-hidden="true">
      {role || "·"}
    </span>
  );
}

/** Shows a dot for each head that was removed from this attention. */
export function MissingHeads({ parts, manifest }: { parts: AttentionParts; manifest: Manifest | null }) {
  const configured = Number(manifest?.model.config.heads ?? parts.heads);
  const missing = Math.max(0, configured - parts.heads);
  if (!missing) return null;
  const label = parts.heads ? `${formatQuantity(missing, "head")} fewer than elsewhere` : "no heads left here";
  return (
    <span class="heads-gone quiet" role="img" aria-label={label} title={label}>
      {"●".repeat(Math.min(missing, 16))}
      {parts.heads ? null : <span class="heads-none"> {label}</span>}
    </span>
  );
}

/** Shows the role of the current head and the loss without it. */
export function HeadRole(props: { section: string; head: number }) {
  const app = useApp();
  const studiedHead = findStudiedHead(app.headStudy.value, props.section, props.head);
  const study = app.headStudy.value?.study;
  if (!studiedHead || !study) return null;
  const error = studiedHead.error === null ? "" : ` ± ${formatNumber(studiedHead.error)}`;
  return (
    <p class="head-role">
      role:{" "}
      {studiedHead.badges.length
        ? studiedHead.badges.map((badge) => (
            <span>
              <b class="chip">{badge.mark}</b> {badge.says}{" "}
            </span>
          ))
        : "none by the rules "}
      · loss if removed{" "}
      <b class="mono" title={String(studiedHead.silent)}>
        {app.hidden.value ? "?" : formatSigned(studiedHead.silent)}
      </b>
      {app.hidden.value ? "" : error} <span class="quiet">nats per piece, of {formatNumber(study.loss)}, on {formatQuantity(study.pairs, "pair")}</span>
    </p>
  );
}

/** Explains the colours and role marks and on how much text they were measured; or says how to measure them. */
export function RolesLegend() {
  const app = useApp();
  const dark = useDark();
  const { study, says } = app.headStudy.value ?? { study: null, says: null };
  if (!study) return says ? <p class="quiet roles-missing">No roles are shown: {says}</p> : null;
  return (
    <div class="roles-legend quiet">
      <p>
        The bar below a head: how much the loss grows without it, in nats per piece, measured on {formatCount(study.pairs)} sentence pairs with a loss of{" "}
        {formatNumber(study.loss)}. <Legend scale={makeStudyScale(study, dark)} />
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
          <dd>none of these, which says nothing about what the head is good for</dd>
          <dt>●</dt>
          <dd>a head that is missing here, compared with the model's other attentions</dd>
        </dl>
      </details>
    </div>
  );
}
