// The translation, piece by piece: each is one step of decoding, and can be gone to.
import { useApp } from "./hooks";
import { turnStep } from "./navigation";
import { Piece } from "./piece";
import { short } from "./readout";
import type { Manifest } from "./types";

export function Scrubber(props: { manifest: Manifest }) {
  const app = useApp();
  const { manifest } = props;
  const { steps, target } = manifest;
  const now = Math.min(app.step.value, steps.length - 1);
  const step = steps[now];
  const hidden = app.hidden.value; // in front of a class, until the teacher shows the numbers
  return (
    <section class="scrubber" aria-label="Translation">
      <p class="translation" lang={manifest.languages?.target}>
        {target.text || <span class="quiet">an empty translation</span>}
      </p>
      <p class="quiet score">
        {scoreOf(manifest, hidden)}
        {manifest.notes.length ? (
          <button type="button" class="link" title={manifest.notes.join("\n")} onClick={() => app.go({ view: "checks" })}>
            {manifest.notes.length === 1 ? "1 note" : `${manifest.notes.length} notes`}
          </button>
        ) : null}
      </p>
      <div class="steps" role="group" aria-label="Steps of decoding">
        <div class="step-buttons">
          <button type="button" class="button icon" aria-label="First step" onClick={() => turnStep(app, -steps.length)}>
            |‹
          </button>
          <button type="button" class="button icon" aria-label="Step before" onClick={() => turnStep(app, -1)}>
            ‹
          </button>
          <button type="button" class="button icon" aria-label="Next step" onClick={() => turnStep(app, 1)}>
            ›
          </button>
          <button type="button" class="button icon" aria-label="Last step" onClick={() => turnStep(app, steps.length)}>
            ›|
          </button>
        </div>
        <div class="step-line">
          <ol>
            <li class="piece start quiet">{manifest.inputs.pieces[0]}</li>
            {steps.map((each) => (
              <li key={each.step}>
                <button
                  type="button"
                  class="piece"
                  aria-current={each.step === now ? "step" : undefined}
                  aria-label={`Step ${each.step + 1}: writes ${each.chosen.piece}${hidden ? "" : `, probability ${short(each.chosen.prob)}`}`}
                  onClick={() => (app.step.value = each.step)}
                >
                  <Piece text={each.chosen.piece} />
                  {!hidden && <span class="likely" style={{ width: `${Math.round(each.chosen.prob * 100)}%` }} />}
                </button>
              </li>
            ))}
          </ol>
          <span class="quiet step-says" aria-live="polite">
            {step ? (
              <>
                step {now + 1} of {steps.length}: reads <b>
                  <Piece text={step.input} />
                </b>, writes{" "}
                <b>
                  <Piece text={step.chosen.piece} />
                </b>
                {hidden ? null : ` (${short(step.chosen.prob)})`}
              </>
            ) : null}
          </span>
        </div>
      </div>
    </section>
  );
}

function scoreOf(manifest: Manifest, hidden: boolean): string {
  const { forced, tree, log_prob, edits } = manifest;
  const found = forced ? "target given" : tree ? `beam ${tree.width}` : "";
  const edited = edits.length ? `${edits.length} ${edits.length === 1 ? "edit" : "edits"}` : "";
  const stopped = manifest.stop === "eos" ? "" : forced ? "not ended" : "stopped at the longest length";
  const sum = `log p ${short(log_prob)}`;
  const numbers = hidden ? [] : [sum, `score ${short(manifest.score)}`];
  return [...numbers, found, edited, stopped].filter(Boolean).join(" · ");
}
