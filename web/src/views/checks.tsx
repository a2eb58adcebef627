// The checks of a run, each with the measured and the allowed value; and where the numbers come from.
import { formatBytes, formatCount, formatNumber } from "../format";
import { useApp } from "../hooks";
import type { Check, Manifest } from "../types";

export function ChecksView() {
  const manifest = useApp().manifest.value;
  if (!manifest) return null;
  const performed = manifest.checks.filter(wasPerformed);
  const passed = performed.filter((check) => check.passed).length;
  const notPerformed = manifest.checks.length - performed.length;
  return (
    <div class="stack checks-body">
      <section class="panel stack">
        <h2>
          {passed} of {performed.length} checks passed{notPerformed > 0 && `, ${notPerformed} not run`}
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
              {manifest.checks.map((check) => (
                <CheckRow check={check} />
              ))}
            </tbody>
          </table>
        </div>
        <p class="quiet">
          One more check runs in this page: every number that you open is computed again from its inputs and compared with the captured one.
        </p>
      </section>
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
    ["Stopped", manifest.stop === "eos" ? "at the end mark" : "at the maximum length"],
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
