// Diagnosis of a translation: a verdict with numbers, the checks of the run, and where its numbers come from.
import { useState } from "preact/hooks";
import { makeSymmetricScale } from "../colour";
import { describeDoubt, describeDoubtCounts } from "../doubts";
import { formatBytes, formatCount, formatNumber } from "../format";
import { useApp, useChecks, useDark, useLoaded } from "../hooks";
import { WIDE_KEYS } from "../measures";
import { listWords } from "../network";
import { NotReady, Value } from "../parts";
import { Sheet } from "../sheet";
import type { App } from "../state";
import type { Check, Finding, Manifest, Verdict } from "../types";
import { BeforeAfter, EditForm } from "./compare";
import { CorrectIt, WhoTaughtIt } from "./teachers";

export function VerdictView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const before = app.baseline.value;
  if (!manifest) return null;
  return (
    <div class="stack verdict-body">
      <VerdictPanel app={app} manifest={manifest} key={manifest.id} />
      <WhoTaughtIt manifest={manifest} suspect={manifest.doubt?.word} key={`teachers ${manifest.id}`} />
      <CorrectIt manifest={manifest} key={`correction ${manifest.id}`} />
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
  const known = app.examples.value?.references[manifest.sentence] ?? manifest.verdict?.reference ?? "";
  const [typed, setTyped] = useState<string | null>(null); // null: the reference that is known
  const [asked, setAsked] = useState<string | null>(null);
  const reference = (asked ?? known).trim();
  const { doubt } = manifest; // known before anything is asked
  const counts = describeDoubtCounts(app.examples.value?.doubts);
  const isChanged = manifest.edits.some(({ kind }) => kind !== "prefix");
  const load = async () => {
    if (isChanged) throw new Error("A changed run gets no verdict.");
    return app.fetchAnswer("verdict", reference ? { reference } : {});
  };
  const loaded = useLoaded(load, `${manifest.id} ${reference}`);
  const askVerdict = (event: Event) => {
    event.preventDefault();
    setAsked(typed ?? known);
  };
  return (
    <section class="panel stack" aria-label="Verdict">
      <h2>What is wrong here, if anything?</h2>
      <p>
        <span class="quiet">Source</span> {manifest.source.text}
        <br />
        <span class="quiet">{manifest.forced ? "Target, given" : "Translation"}</span> {manifest.target.text}
      </p>
      {app.source.act && (
        <form class="row" onSubmit={askVerdict}>
          <label class="form-grow">
            A correct translation, if you have one{" "}
            <input type="text" value={typed ?? known} lang={manifest.languages?.target} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
          <button type="submit" class="button">
            Compare with it
          </button>
        </form>
      )}
      <ul class="findings">
        {doubt && <FindingRow app={app} finding={{ kind: "doubt", says: `The model was least sure of ${describeDoubt(doubt)}.`, step: doubt.step, numbers: {} }} />}
        {loaded.state === "ready" && loaded.value.findings.map((finding) => finding.kind !== "doubt" && <FindingRow app={app} finding={finding} />)}
      </ul>
      <NotReady loaded={loaded} />
      {counts && <p class="quiet">{counts}</p>}
      {loaded.state === "ready" && <Erasures manifest={manifest} verdict={loaded.value} />}
    </section>
  );
}

const NAMES: Record<Finding["kind"], string> = {
  search: "The search",
  model: "The model",
  tokens: "The pieces",
  copy: "Not translated",
  numbers: "Numbers",
  names: "Names",
  length: "The length",
  omission: "Left out",
  repetition: "Repeated",
  hallucination: "Not from the source",
  doubt: "Least sure",
  fine: "No finding",
};

function FindingRow({ app, finding }: { app: App; finding: Finding }) {
  const { kind, says, numbers, step, word } = finding;
  const showFinding = () => {
    if (step !== undefined) app.step.value = step;
    const index = app.manifest.value?.source.words.indexOf(word ?? null) ?? -1;
    if (word !== undefined && index >= 0) app.followed.value = { dim: "S", index };
    app.goTo({ view: word !== undefined ? "align" : "output" });
  };
  return (
    <li class={kind === "fine" ? "finding-fine" : undefined}>
      <strong>{NAMES[kind]}.</strong> {says}
      <span class="row finding-numbers">
        {Object.entries(numbers).map(([name, value]) => (
          <span class="chip">
            {name.replaceAll("_", " ")} <Value shown={formatNumber(value)} exact={String(value)} />
          </span>
        ))}
        {(step !== undefined || word !== undefined) && (
          <button type="button" class="button" onClick={showFinding}>
            Look there
          </button>
        )}
      </span>
    </li>
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

export function ChecksView() {
  const manifest = useApp().manifest.value;
  if (!manifest) return null;
  return (
    <div class="stack checks-body">
      <CheckTable manifest={manifest} key={manifest.id} />
      <Provenance manifest={manifest} />
      {manifest.notes.length > 0 && (
        <section class="panel">
          <h2>Notes</h2>
          <ul>
            {manifest.notes.map((note) => (
              <li>{note}</li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function CheckTable({ manifest }: { manifest: Manifest }) {
  const checks = useChecks(manifest);
  if (checks.state !== "ready") return <p class="panel">{checks.state === "loading" ? "The checks are being made…" : checks.message}</p>;
  const { passed, performed, notPerformed } = countChecks(checks.value);
  return (
    <section class="panel stack">
      <h2>
        {passed} of {performed} checks passed{notPerformed > 0 && `, ${notPerformed} not run`}
      </h2>
      <div class="scroll">
        <table class="plain-table" aria-label="Checks of this run">
          <thead>
            <tr>
              <th scope="col">Check</th>
              <th scope="col">Result</th>
              <th scope="col">Measured</th>
              <th scope="col">Allowed</th>
              <th scope="col">What it means</th>
            </tr>
          </thead>
          <tbody>
            {checks.value.map((check) => (
              <CheckRow check={check} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="quiet">
        One more check runs in this page: every number that you open is computed again from its inputs and compared with the captured one.
      </p>
    </section>
  );
}

function CheckRow({ check }: { check: Check }) {
  return (
    <tr>
      <th scope="row">{check.name}</th>
      <Result check={check} />
      <td class="mono">{check.value === null ? "–" : formatNumber(check.value)}</td>
      <td class="mono">{check.limit === null ? "–" : `≤ ${formatNumber(check.limit)}`}</td>
      <td>{check.means}</td>
    </tr>
  );
}

function Result({ check }: { check: Check }) {
  if (!wasPerformed(check)) return <td class="quiet">– not run</td>;
  return <td class={check.passed ? "check-passed" : "check-failed"}>{check.passed ? "✓ passed" : "✗ failed"}</td>;
}

/** Counts the checks that passed, that were made, and that could not be made. */
export function countChecks(checks: Check[]): { passed: number; performed: number; notPerformed: number } {
  const performed = checks.filter(wasPerformed);
  return { passed: performed.filter((check) => check.passed).length, performed: performed.length, notPerformed: checks.length - performed.length };
}

/** Tells whether a check was made; one that could not be made has no measured value and says why. */
function wasPerformed(check: Check): boolean {
  return check.value !== null || !check.passed;
}

/** Lists versions, hashes and settings, enough to compute the same numbers again. */
function Provenance({ manifest }: { manifest: Manifest }) {
  const { model, run } = manifest;
  const facts: [string, string][] = [
    ["Model", `${model.name}, ${formatCount(model.parameters)} parameters`],
    ["SHA-256 of the weights", model.sha256 || "never saved"],
    ["SHA-256 of the tokenizer", model.tokenizer_sha256 || "never saved"],
    ["Trace", manifest.id],
    ["Computed in", `${run.dtype} on ${run.device}, ${run.mode} mode, dropout ${run.dropout}`],
    ["Stored here in", `${run.capture}, ${formatBytes(run.bytes)}`],
    ["Traced in", `${formatNumber(run.seconds)} s`],
    ["Versions", `pellucid ${run.pellucid}, torch ${run.torch}`],
    ["Search", manifest.forced ? "none: the target was given" : formatSettings(run.search)],
    ["Stopped", manifest.stop === "eos" ? "at EOS, the end token" : "at the maximum length"],
    ["Edits", manifest.edits.length ? manifest.edits.map((edit) => JSON.stringify(edit)).join(", ") : "none"],
    ["Config", formatSettings(model.config)],
  ];
  return (
    <section class="panel stack">
      <h2>Where these numbers come from</h2>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd class="mono">{value}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

function formatSettings(table: Record<string, number | string | boolean>): string {
  return Object.entries(table)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}
