// How the model learned to write: a pair with its target shifted by one, the loss of each piece, one update, and checkpoints.
import { formatCount, formatNumber, quotePiece } from "../format";
import { useApp, useLoaded } from "../hooks";
import { NotReady, NumberTable, NumberValue, Piece } from "../parts";
import type { TrainingAnswer } from "../types";

/** Shows how the sentence is learned with the translation that is given or known, or else with the model's own. */
export function TrainingView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const target = manifest && !manifest.forced ? app.examples.value?.references[manifest.sentence] : undefined;
  const loaded = useLoaded(() => app.fetchAnswer("training", target ? { target } : {}), `training ${manifest?.id} ${target}`);
  return (
    <div class="stack">
      <h2>How it learned to write</h2>
      <NotReady loaded={loaded} />
      {loaded.state === "ready" && [ShiftedTarget, OneUpdate, Checkpoints].map((Part) => <Part answer={loaded.value} />)}
    </div>
  );
}

/** Lists what each position must write and reads, with its loss before and after the update. */
function ShiftedTarget({ answer }: { answer: TrainingAnswer }) {
  const { reads, writes, losses, losses_after: after } = answer;
  return (
    <section class="panel stack">
      <h3>The target, shifted by one</h3>
      <p>
        In training each position reads the right piece before its own, so all are computed at once. The loss of a piece is −ln of its probability.
      </p>
      <NumberTable
        label="Loss of each piece"
        columns={["must write", "reads", "loss", "after the update"]}
        rows={writes.map((piece, i) => [
          <Piece text={piece} />,
          <Piece text={reads[i]!} />,
          <NumberValue value={losses[i]!} />,
          <NumberValue value={after[i]!} />,
        ])}
      />
    </section>
  );
}

function findMean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Shows one number of the update: before, its gradient, and after. */
function OneUpdate({ answer }: { answer: TrainingAnswer }) {
  const { parameter, piece, column, before, gradient, rate, after } = answer.update;
  return (
    <section class="panel stack">
      <h3>One update</h3>
      <p>
        The gradient says how the mean loss grows with a number, so each goes a little way against its own: number {column + 1} of {quotePiece(piece)} in {parameter}:
      </p>
      <p class="mono">
        <NumberValue value={before} /> − {formatNumber(rate)} × (<NumberValue value={gradient} />) = <b><NumberValue value={after} /></b>
      </p>
      <p>
        All numbers of a copy of the model were changed so, for this pair alone: the mean loss goes from <NumberValue value={findMean(answer.losses)} /> to <NumberValue value={findMean(answer.losses_after)} />.
      </p>
    </section>
  );
}

/** Lists what the checkpoints beside the model make of the sentence. */
function Checkpoints({ answer: { checkpoints } }: { answer: TrainingAnswer }) {
  return (
    <section class="panel stack">
      <h3>The same sentence by checkpoints beside the model</h3>
      <NumberTable
        label="Checkpoints"
        columns={["after updates", "translation", "mean loss above"]}
        rows={checkpoints.map(({ step, translation, loss }) => [formatCount(step), translation, <NumberValue value={loss} />])}
      />
    </section>
  );
}
