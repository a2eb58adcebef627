// A stop of the story without what it explains: the sentence is run again, and before and after stand side by side.
import { useEffect, useRef } from "preact/hooks";
import { saveBaseline } from "../baseline";
import { makeUnitScale } from "../colour";
import { formatNumber } from "../format";
import { useApp, useDark, usePreparedSource, useTensor } from "../hooks";
import { getHeadWeights, makeMask, makePattern } from "../measures";
import { type AttentionParts, findTensorRow, listLabels } from "../network";
import { Value } from "../parts";
import { traceAgain } from "../permalink";
import { Sheet } from "../sheet";
import type { App, Baseline } from "../state";
import { describePicture, type LeftOut } from "../story_stops";
import type { EditSpec, Manifest } from "../types";
import { describeDifference } from "./compare";

export function WithoutIt({ app, manifest, leftOut }: { app: App; manifest: Manifest; leftOut: LeftOut }) {
  const isOn = manifest.edits.length === 1 && manifest.edits.every((edit) => isSameEdit(edit, leftOut.edit));
  const before = app.baseline.value;
  usePreparedSource(app);
  const undo = useRef<() => void>(() => undefined);
  // When the story leaves the stop, it goes on with the model as it is.
  undo.current = () => void (isOn && before && traceAgain(app, before.manifest));
  useEffect(() => () => undo.current(), []);
  if (!app.source.act) return <p class="quiet">To see what becomes of this sentence without {leftOut.name}, open the model with “pellucid serve”.</p>;
  const toggle = async () => {
    if (isOn && !before) return void (await app.askSource("edit", { edits: [], keep_target: false })); // it was opened by a link
    if (isOn) return undo.current();
    if (!manifest.edits.length && !(await saveBaseline(app))) return;
    await app.askSource("edit", { edits: [leftOut.edit], keep_target: leftOut.keepsTarget ?? false });
  };
  return (
    <section class="without" aria-label={`Without ${leftOut.name}`}>
      <button type="button" class="button" role="switch" aria-checked={isOn} disabled={app.busy.value !== null} onClick={toggle}>
        Without {leftOut.name}
      </button>
      {isOn && before && before.manifest.source.text === manifest.source.text && <WithAndWithout before={before} after={manifest} leftOut={leftOut} />}
    </section>
  );
}

/** Tells whether two edits are the same, in whatever order their fields were written. */
function isSameEdit(first: EditSpec, second: EditSpec): boolean {
  const [one, other] = [first, second].map((edit) => JSON.stringify(Object.entries(edit).sort()));
  return one === other;
}

function WithAndWithout({ before, after, leftOut }: { before: Baseline; after: Manifest; leftOut: LeftOut }) {
  const app = useApp();
  const { picture } = leftOut;
  return (
    <>
      <div class="without-pair">
        <Run name="With it" manifest={before.manifest} />
        <Run name="Without it" manifest={after} />
        {picture && <PatternBefore before={before} parts={picture} head={leftOut.head ?? 0} />}
        {picture && <PatternAfter after={after} parts={picture} head={leftOut.head ?? 0} />}
      </div>
      {picture && <p class="quiet">What {describePicture(leftOut)} reads: rows read, columns are read.</p>}
      <p>{describeDifference(before.manifest, after)}</p>
      {leftOut.keepsTarget && <p>The translation is kept. Likeliest at each step would now be: {after.steps.map((step) => step.top[0]?.piece ?? "?").join(" ")}</p>}
      <button type="button" class="link" onClick={() => app.goTo({ view: "compare" })}>
        compare all heads and steps
      </button>
    </>
  );
}

function Run({ name, manifest }: { name: string; manifest: Manifest }) {
  return (
    <p>
      <span class="quiet">{name}</span>
      <b lang={manifest.languages?.target}>{manifest.target.text || "an empty translation"}</b>
      <span class="quiet">
        log P <Value shown={formatNumber(manifest.log_prob)} />
      </span>
    </p>
  );
}

function PatternBefore({ before, parts, head }: { before: Baseline; parts: AttentionParts; head: number }) {
  const row = findTensorRow(before.manifest, parts.pattern);
  const values = before.tensors.get(parts.pattern);
  if (!row || !values) return null;
  const allowed = before.tensors.get(parts.allowed);
  const picture = { manifest: before.manifest, parts, head, shape: row.shape, values, allowed };
  return <PatternPicture {...picture} label="weights with it" />;
}

function PatternAfter({ after, parts, head }: { after: Manifest; parts: AttentionParts; head: number }) {
  const loaded = useTensor(parts.pattern);
  const allowed = useTensor(parts.allowed);
  if (loaded.state !== "ready" || allowed.state !== "ready") return <span class="thumbnail waiting" />;
  const { row, values } = loaded.value;
  const picture = { manifest: after, parts, head, shape: row.shape, values, allowed: allowed.value.values };
  return <PatternPicture {...picture} label="weights without it" />;
}

interface PatternPictureProps {
  manifest: Manifest;
  parts: AttentionParts;
  head: number;
  shape: number[];
  values: Float32Array;
  allowed: Float32Array | undefined;
  label: string;
}

function PatternPicture({ manifest, parts, head, shape, values, allowed, label }: PatternPictureProps) {
  const dark = useDark();
  const pattern = makePattern(values, shape);
  const makeAxis = (dim: string) => ({ dim, size: listLabels(manifest, dim).length });
  const axes = { rows: makeAxis(parts.queryDim), cols: makeAxis(parts.keyDim) };
  const masked = makeMask(allowed, pattern.keys);
  return <Sheet bare values={getHeadWeights(pattern, head)} {...axes} scale={makeUnitScale(dark)} masked={masked} label={label} />;
}
