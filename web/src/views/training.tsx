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
  const beside = chooseNeighbour(manifest?.sentence ?? "", app.examples.value?.sentences ?? []);
  const loaded = useLoaded(() => app.fetchAnswer("training", { beside, ...(target && { target }) }), `training ${manifest?.id} ${target} ${beside}`);
  return (
    <div class="stack">
      <h2>How it learned to write</h2>
      <NotReady loaded={loaded} />
      {loaded.state === "ready" && [ShiftedTarget, BatchOfTwo, OneUpdate, Checkpoints].map((Part) => <Part answer={loaded.value} />)}
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

/** Returns the first example with another number of words than a sentence; where there is none, the first half of the sentence. */
function chooseNeighbour(sentence: string, examples: readonly string[]): string {
  const words = sentence.split(" ");
  const half = words.slice(0, Math.ceil(words.length / 2)).join(" ");
  return examples.find((example) => example.split(" ").length !== words.length) ?? half;
}

/** Shows the pair and another one as a batch, with the padding, and that no weight is put on it. */
function BatchOfTwo({ answer: { batch, losses } }: { answer: TrainingAnswer }) {
  if (!batch) return null;
  const [first, second] = batch.sources;
  const farthest = Math.max(...losses.map((loss, i) => Math.abs(loss - batch.losses[i]!)));
  return (
    <section class="panel stack">
      <h3>Two sentences in one batch</h3>
      <p>
        An update reads many pairs at once; here the first sentence is this one, the second another. {quotePiece("<pad>")} fills up the shorter one, and the mask gives it the weight 0. The weights are those with which the first piece of each sentence reads its row, in head 1 of the first layer of the encoder:
      </p>
      <NumberTable
        label="Two sentences in one batch"
        columns={["first", "weight", "second", "weight"]}
        rows={first!.map((piece, i) => [
          <Piece text={piece} />,
          <NumberValue value={batch.weights[0]![i]!} />,
          <Piece text={second![i]!} />,
          <NumberValue value={batch.weights[1]![i]!} />,
        ])}
      />
      <p>
        The translations are filled up in the same way ({batch.targets[0]!.length} positions each), and padding has no loss. The losses of this sentence stay as they are above; the largest difference is <NumberValue value={farthest} />.
      </p>
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
        rows={checkpoints.map(({ step, translation, loss }) => [formatCount(step), <span class="whole-text">{translation}</span>, <NumberValue value={loss} />])}
      />
    </section>
  );
}
