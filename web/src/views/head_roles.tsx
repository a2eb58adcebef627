// Heads of one attention as thumbnails, with their roles: how much worse the model gets without a head, and what it does.
import { chooseInk, makeSymmetricScale, type Scale, toCssColour, toRgb } from "../colour";
import { formatCount, formatNumber, formatQuantity, formatSigned, roundUp } from "../format";
import { useApp, useDark } from "../hooks";
import { Matrix } from "../matrix";
import { type AttentionParts, describeSection, findTensorRow } from "../network";
import { Legend } from "../parts";
import { RowMark } from "../play_controls";
import type { HeadStudy, HeadStudyAnswer } from "../types";

type StudiedHead = HeadStudy["heads"][number];

/** Finds the study of one head; undefined where no head was studied. */
export function findStudiedHead(studied: HeadStudyAnswer | null, section: string, head: number): StudiedHead | undefined {
  return studied?.study?.heads.find((entry) => entry.attention === section && entry.head === head);
}

/** Describes the role of a head and the loss without it, each as a phrase. */
export function describeRole(head: StudiedHead | undefined): string[] {
  if (!head) return [];
  const role = head.badges.map((badge) => `${badge.mark} (${badge.says})`).join(", ");
  return [`role: ${role || "not clear"}`, `change of the loss without it: ${formatSigned(head.silent)}`];
}

/** Makes one colour scale for all heads: the loss without a head, symmetric about 0. */
function makeStudyScale(study: HeadStudy, dark: boolean): Scale {
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

/** Shows the role of the current head and the loss without it. */
export function HeadRole(props: { section: string; head: number }) {
  const app = useApp();
  const studiedHead = findStudiedHead(app.headStudy.value, props.section, props.head);
  const study = app.headStudy.value?.study;
  if (!studiedHead || !study) return null;
  const error = studiedHead.error === null ? "" : ` ± ${formatNumber(studiedHead.error)}`;
  // Without a role, and with a cost that may be chance.
  const isUseless = !studiedHead.badges.length && studiedHead.error !== null && Math.abs(studiedHead.silent) <= studiedHead.error;
  return (
    <p class="head-role">
      {studiedHead.badges.length ? "role: " : "This head has no clear role"}
      {studiedHead.badges.map((badge) => (
        <span>
          <b class="chip">{badge.mark}</b> {badge.says}{" "}
        </span>
      ))}
      {isUseless ? ", and the model does as well without it. " : " · "}change of the loss without this head:{" "}
      <b class="mono" title={String(studiedHead.silent)}>
        {app.hidden.value ? "?" : formatSigned(studiedHead.silent)}
      </b>
      {app.hidden.value ? "" : error} <span class="quiet">nats per piece, measured on {formatQuantity(study.pairs, "pair")}; with all heads the loss is {formatNumber(study.loss)}</span>
    </p>
  );
}

/** Says how the roles of heads can be measured, where they were not. */
export function RolesMissing() {
  const { study, says } = useApp().headStudy.value ?? { study: null, says: null };
  return !study && says ? <p class="quiet roles-missing">No roles are shown: {says}</p> : null;
}

/** Explains the colours and role marks and on how much text they were measured. */
export function RolesLegend() {
  const app = useApp();
  const dark = useDark();
  const study = app.headStudy.value?.study;
  if (!study) return null;
  return (
    <div class="roles-legend quiet">
      <p>
        The bar beside or below a head: how much the loss grows without it, in nats per piece, measured on {formatCount(study.pairs)} sentence pairs with a loss of{" "}
        {formatNumber(study.loss)}. <Legend scale={makeStudyScale(study, dark)} />
      </p>
      <details>
        <summary>The marks on the bar, and the rules for them</summary>
        <dl class="facts">
          {Object.entries(study.rules).map(([mark, rule]) => (
            <>
              <dt>{mark}</dt>
              <dd>{rule}</dd>
            </>
          ))}
          <dt>·</dt>
          <dd>none of these, which says nothing about what the head is good for</dd>
        </dl>
      </details>
    </div>
  );
}

export function HeadsRow(props: { parts: AttentionParts; current?: number; named?: boolean }) {
  const app = useApp();
  const manifest = app.manifest.value;
  const { parts, current } = props;
  const queries = manifest ? (findTensorRow(manifest, parts.pattern)?.shape[1] ?? 1) : 1;
  const nameHead = (head: number) => {
    const marks = findStudiedHead(app.headStudy.value, parts.section, head)?.badges.map((badge) => badge.mark).join(" ");
    const shown = props.named && marks && !app.hidden.value ? ` ${marks}` : ""; // a name says what can be read
    return `${describeSection(parts.section)}, head ${head + 1}${shown} of ${parts.heads}: open`;
  };
  return (
    <div class="heads-row">
      {Array.from({ length: parts.heads }, (_, head) => (
        <button
          key={head}
          type="button"
          class="head-thumb"
          aria-current={head === current ? "true" : undefined}
          aria-label={nameHead(head)}
          title={[`head ${head + 1}`, ...describeRole(findStudiedHead(app.headStudy.value, parts.section, head))].join("; ")}
          onClick={() => app.goTo({ view: "head", section: parts.section, head })}
        >
          <span class="head-face">
            <Matrix tensor={parts.pattern} fixed={{ H: head }} bare />
            <RowMark dim={parts.queryDim} rows={queries} />
            {props.named ? <span class="head-plate">head {head + 1}</span> : null}
          </span>{" "}
          <HeadWorth section={parts.section} head={head} />
        </button>
      ))}
    </div>
  );
}
