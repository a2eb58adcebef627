// The translation piece by piece; each piece is one step of decoding and can be selected.
import { useApp } from "./hooks";
import { moveStep } from "./navigation";
import { Piece } from "./piece";
import { formatShort } from "./readout";
import type { Manifest } from "./types";

export function Scrubber(props: { manifest: Manifest }) {
  const app = useApp();
  const { manifest } = props;
  const { steps, target } = manifest;
  const currentStep = Math.min(app.step.value, steps.length - 1);
  const step = steps[currentStep];
  const hidden = app.hidden.value; // in teach mode, until the numbers are shown
  return (
    <section class="scrubber" aria-label="Translation">
      <p class="translation" lang={manifest.languages?.target}>
        {target.text || <span class="quiet">an empty translation</span>}
      </p>
      <p class="quiet score">
        {describeScore(manifest, hidden)}
        {manifest.notes.length ? (
          <button type="button" class="link" title={manifest.notes.join("\n")} onClick={() => app.goTo({ view: "checks" })}>
            {manifest.notes.length === 1 ? "1 note" : `${manifest.notes.length} notes`}
          </button>
        ) : null}
      </p>
      <div class="steps" role="group" aria-label="Steps of decoding">
        <div class="step-buttons">
          <button type="button" class="button icon" aria-label="First step" onClick={() => moveStep(app, -steps.length)}>
            |‹
          </button>
          <button type="button" class="button icon" aria-label="Step before" onClick={() => moveStep(app, -1)}>
            ‹
          </button>
          <button type="button" class="button icon" aria-label="Next step" onClick={() => moveStep(app, 1)}>
            ›
          </button>
          <button type="button" class="button icon" aria-label="Last step" onClick={() => moveStep(app, steps.length)}>
            ›|
          </button>
        </div>
        <div class="step-line">
          <ol>
            <li class="piece start quiet">{manifest.inputs.pieces[0]}</li>
            {steps.map((written) => (
              <li key={written.step}>
                <button
                  type="button"
                  class="piece"
                  aria-current={written.step === currentStep ? "step" : undefined}
                  aria-label={`Step ${written.step + 1}: writes ${written.chosen.piece}${hidden ? "" : `, probability ${formatShort(written.chosen.prob)}`}`}
                  onClick={() => (app.step.value = written.step)}
                >
                  <Piece text={written.chosen.piece} />
                  {!hidden && <span class="likely" style={{ width: `${Math.round(written.chosen.prob * 100)}%` }} />}
                </button>
              </li>
            ))}
          </ol>
          <span class="quiet step-says" aria-live="polite">
            {step ? (
              <>
                step {currentStep + 1} of {steps.length}: reads <b>
                  <Piece text={step.input} />
                </b>, writes{" "}
                <b>
                  <Piece text={step.chosen.piece} />
                </b>
                {hidden ? null : ` (${formatShort(step.chosen.prob)})`}
              </>
            ) : null}
          </span>
        </div>
      </div>
    </section>
  );
}

function describeScore(manifest: Manifest, hidden: boolean): string {
  const { forced, tree, log_prob, edits } = manifest;
  const origin = forced ? "target given" : tree ? `beam ${tree.width}` : "";
  const edited = edits.length ? `${edits.length} ${edits.length === 1 ? "edit" : "edits"}` : "";
  const stopped = manifest.stop === "eos" ? "" : forced ? "unfinished" : "stopped at the maximum length";
  const logProb = `log p ${formatShort(log_prob)}`;
  const numbers = hidden ? [] : [logProb, `score ${formatShort(manifest.score)}`];
  return [...numbers, origin, edited, stopped].filter(Boolean).join(" · ");
}
