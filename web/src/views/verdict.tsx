// Diagnosis of a translation: a verdict with numbers, and a form to repeat the run with edits.
import { useState } from "preact/hooks";
import { getBaseline } from "../baseline";
import { makeSymmetricScale } from "../colour";
import { listWords } from "../edits";
import { formatNumber } from "../format";
import { useApp } from "../hooks";
import { WIDE_KEYS } from "../patterns";
import { Sheet } from "../sheet";
import type { App } from "../state";
import { useDark } from "../theme";
import type { Finding, Manifest, Verdict } from "../types";
import { BeforeAfter } from "./compare";
import { EditForm } from "./edit_form";
import { Value } from "./values";

export function VerdictView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const before = getBaseline(app).value;
  if (!manifest) return null;
  return (
    <div class="stack verdict-body">
      <VerdictPanel app={app} manifest={manifest} key={manifest.id} />
      <EditForm app={app} manifest={manifest} key={`changes ${manifest.id}`} />
      {before && before.manifest.id !== manifest.id && (
        <>
          <BeforeAfter before={before.manifest} after={manifest} />
          <button type="button" class="button" onClick={() => app.goTo({ view: "compare" })}>
            Compare their patterns
          </button>
        </>
      )}
    </div>
  );
}

function VerdictPanel({ app, manifest }: { app: App; manifest: Manifest }) {
  const [verdict, setVerdict] = useState<Verdict | null>(manifest.verdict ?? null);
  const [reference, setReference] = useState(verdict?.reference ?? "");
  const canAsk = app.source.act !== undefined;
  const askVerdict = async (event: Event) => {
    event.preventDefault();
    const answer = await app.askSource("verdict", reference.trim() ? { reference: reference.trim() } : {});
    if (answer) setVerdict(answer);
  };
  return (
    <section class="panel stack" aria-label="Verdict">
      <h2>What is wrong here, if anything?</h2>
      <p>
        <span class="quiet">Source</span> {manifest.source.text}
        <br />
        <span class="quiet">{manifest.forced ? "Target, given" : "Translation"}</span> {manifest.target.text}
      </p>
      {canAsk ? (
        <form class="row" onSubmit={askVerdict}>
          <label class="form-grow">
            A correct translation, if you have one{" "}
            <input type="text" value={reference} onInput={(event) => setReference(event.currentTarget.value)} />
          </label>
          <button type="submit" class="button" disabled={app.busy.value !== null}>
            {verdict ? "Ask again" : "Ask for the verdict"}
          </button>
        </form>
      ) : (
        !verdict && <p class="quiet">This is a file without a verdict; to ask for one, open the model with “pellucid serve”.</p>
      )}
      {verdict && <Findings app={app} findings={verdict.findings} />}
      {verdict && <Erasures manifest={manifest} verdict={verdict} />}
    </section>
  );
}

const NAMES: Record<Finding["kind"], string> = {
  search: "The search",
  model: "The model",
  tokens: "The pieces",
  omission: "Left out",
  repetition: "Repeated",
  hallucination: "Not from the source",
  fine: "Nothing found",
};

function Findings({ app, findings }: { app: App; findings: Finding[] }) {
  const showFinding = ({ step, word }: Finding) => () => {
    if (step !== undefined) app.step.value = step;
    const index = app.manifest.value?.source.words.indexOf(word ?? null) ?? -1;
    if (word !== undefined && index >= 0) app.followed.value = { dim: "S", index };
    app.goTo({ view: word !== undefined ? "align" : "output" });
  };
  return (
    <ul class="findings">
      {findings.map((finding) => (
        <li class={finding.kind === "fine" ? "finding-fine" : undefined}>
          <strong>{NAMES[finding.kind]}.</strong> {finding.says}
          <span class="row finding-numbers">
            {Object.entries(finding.numbers).map(([name, value]) => (
              <span class="chip">
                {name.replaceAll("_", " ")} <Value shown={formatNumber(value)} exact={String(value)} />
              </span>
            ))}
            {(finding.step !== undefined || finding.word !== undefined) && (
              <button type="button" class="button" onClick={showFinding(finding)}>
                Look there
              </button>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Shows how much log-probability each target piece loses when a source word or an earlier piece is hidden. */
function Erasures({ manifest, verdict }: { manifest: Manifest; verdict: Verdict }) {
  const dark = useDark();
  const { erasure_source: source, erasure_prefix: prefix } = verdict;
  if (!source && !prefix) return null;
  const sizes = [...(source ?? []), ...(prefix ?? [])].flat().map((value) => Math.abs(value ?? 0));
  const scale = makeSymmetricScale(Math.max(...sizes), dark);
  const cols = { dim: "written", size: manifest.target.pieces.length, labels: manifest.target.pieces };
  const words = listWords(manifest.source);
  return (
    <div class="stack">
      <h3>What each written piece loses when something is hidden</h3>
      <p class="quiet">Change of its log-probability, both on one scale; negative: it became less likely without it.</p>
      <div class={`row side-by-side${cols.size > WIDE_KEYS ? " side-by-side-wide" : ""}`}>
        {source && (
          <Sheet
            values={source.flat()}
            rows={{ dim: "word", size: source.length, labels: words }}
            cols={cols}
            scale={scale}
            label="A source word hidden"
            maxHeight={520}
          />
        )}
        {prefix && (
          <Sheet
            values={prefix.flat().map((value) => value ?? NaN)}
            rows={{ dim: "earlier", size: prefix.length, labels: manifest.target.pieces.slice(0, prefix.length) }}
            cols={cols}
            scale={scale}
            masked={(row, col) => prefix[row]?.[col] === null}
            label="An earlier written piece hidden"
            maxHeight={520}
          />
        )}
      </div>
    </div>
  );
}
