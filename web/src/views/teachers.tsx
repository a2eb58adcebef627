// Training pairs that taught the model a word, and a correction of the translation: stored, or shown to be kept in a file.
import { useState } from "preact/hooks";
import { saveBaseline } from "../baseline";
import { describeError, formatCount, formatFixed, formatProbability, formatSigned, quotePiece } from "../format";
import { useApp, useLoaded } from "../hooks";
import { listWords, nameSentence } from "../network";
import { Menu, Missing, NotReady, Value } from "../parts";
import type { App } from "../state";
import type { InfluentialPair, Manifest } from "../types";

/** Finds the number of the word that is written at the current step; that of the last one at the end of the sentence. */
function findCurrentWord(app: App, { target }: Manifest): number {
  return target.words[app.step.value] ?? listWords(target).length - 1;
}

/** Shows the training pairs behind a word, once they are asked for: a `suspect` one until another is picked, or that of the step. */
export function WhoTaughtIt({ manifest, suspect }: { manifest: Manifest; suspect?: number | undefined }) {
  const app = useApp();
  const [asked, setAsked] = useState<string | null>(null);
  const [first, setFirst] = useState(suspect);
  const words = listWords(manifest.target);
  const current = first ?? findCurrentWord(app, manifest);
  const word = words[current];
  if (word === undefined) return null;
  const pick = (number: string) => {
    setFirst(undefined);
    app.step.value = manifest.target.words.indexOf(Number(number));
  };
  return (
    <section class="panel stack" aria-label="Who taught it?">
      <header class="row">
        <h2>Who taught it “{word}”?</h2>
        <Menu label="Word" value={String(current)} options={words.map((spelled, number) => [String(number), spelled] as const)} onPick={pick} />
        {app.source.act && (
          <button type="button" class="button" disabled={asked === word} onClick={() => setAsked(word)}>
            Find the training pairs
          </button>
        )}
      </header>
      {!app.source.act && <p class="quiet">To find the training pairs behind a word, open the model with “pellucid serve”.</p>}
      {asked === word && <Teachers manifest={manifest} word={word} key={`${manifest.id} ${word}`} />}
    </section>
  );
}

function Teachers({ manifest, word }: { manifest: Manifest; word: string }) {
  const app = useApp();
  const loaded = useLoaded(() => app.fetchAnswer("influence", { word }), `${manifest.id} ${word}`);
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  if (!loaded.value.found) return <Missing message={loaded.value.says ?? ""} />;
  const { piece, probability, because, against, agreement, candidates } = loaded.value.found;
  return (
    <>
      <p>
        It was decided at the piece {quotePiece(piece)}, which had a probability of <Value shown={formatProbability(probability)} exact={String(probability)} />.
      </p>
      <PairList title="Made it likelier" pairs={because} />
      <PairList title="Spoke against it" pairs={against} />
      <p>
        Of {formatCount(candidates)} pairs with states like this one, both ways have {agreement.both_on_top} of their first {agreement.of} in common; their rank
        correlation is <Value shown={formatFixed(agreement.rank_correlation)} exact={String(agreement.rank_correlation)} />.
      </p>
      <p class="quiet">
        State: how like the state from which the pair wrote its marked word is to the one here. Gradient: how much a step of training on the pair makes the piece
        likelier. Where the two disagree, be careful.
      </p>
    </>
  );
}

function PairList({ title, pairs }: { title: string; pairs: InfluentialPair[] }) {
  return (
    <div class="stack">
      <h3>{title}</h3>
      {pairs.length === 0 && <p class="quiet">None among the pairs that were looked at.</p>}
      <ol class="findings taught">
        {pairs.map((pair) => (
          <li>
            <MarkedText text={pair.source} marked={pair.source_words} />
            <br />
            <MarkedText text={pair.target} marked={[pair.word]} />
            {pair.word < 0 && <mark>end</mark>}
            <span class="row finding-numbers">
              <span class="chip mono">
                {pair.file}:{pair.line}
              </span>
              <span class="chip">
                state <Value shown={formatSigned(pair.state)} exact={String(pair.state)} />
              </span>
              <span class="chip">
                gradient <Value shown={formatSigned(pair.gradient)} exact={String(pair.gradient)} />
              </span>
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** Shows a text with some of its words marked. */
function MarkedText({ text, marked }: { text: string; marked: number[] }) {
  return (
    <span>
      {text
        .split(/\s+/)
        .filter(Boolean)
        .map((word, i) => [i > 0 && " ", marked.includes(i) ? <mark>{word}</mark> : word])}
    </span>
  );
}

/** Takes a better translation: a server that stores corrections gets it, any other reader sees the line for a file. */
export function CorrectIt({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const [text, setText] = useState(manifest.target.text);
  const [said, setSaid] = useState<string | null>(null);
  const settings = useLoaded(async () => (await app.source.fetchCorrectionSettings?.()) ?? null, "corrections");
  const stores = settings.state === "ready" && settings.value?.stores;
  const before = app.baseline.value?.manifest;
  const original = manifest.forced && before?.sentence === manifest.sentence ? before : manifest; // what the model wrote itself
  const isChanged = text.trim() !== "" && text.trim() !== original.target.text;
  const store = async (event: Event) => {
    event.preventDefault();
    if (!isChanged || settings.state !== "ready" || !settings.value) return;
    try {
      await app.source.storeCorrection?.(manifest.sentence, text.trim(), settings.value);
      setSaid("Stored. `pellucid improve` teaches the model what is in the file of corrections, and keeps the result only if it is better.");
    } catch (error) {
      setSaid(describeError(error));
    }
  };
  const readIt = async () => {
    if (original === manifest && !(await saveBaseline(app))) return;
    await app.askSource("trace", { ...nameSentence(manifest), target: text.trim() });
  };
  return (
    <section class="panel stack" aria-label="Correct it">
      <h2>Correct it</h2>
      <form class="row" onSubmit={store}>
        <label class="form-grow">
          A better translation{" "}
          <input type="text" value={text} lang={manifest.languages?.target} onInput={(event) => (setText(event.currentTarget.value), setSaid(null))} />
        </label>
        {stores && (
          <button type="submit" class="button" disabled={!isChanged}>
            Store the correction
          </button>
        )}
        {app.source.act && (
          <button type="button" class="button" disabled={!isChanged || app.busy.value !== null} onClick={readIt}>
            Before and after
          </button>
        )}
      </form>
      {isChanged && !stores && settings.state !== "loading" && (
        <p>
          Corrections are not stored here. Put this line into a file such as corrections.tsv, with tabs between the sentence, its translation and the better one, for <code>pellucid improve MODEL corrections.tsv --out BETTER</code>; or
          start the server with <code>--corrections corrections.jsonl</code>:
          <br />
          <code class="mono correction">{`${manifest.sentence}\t${original.target.text}\t${text.trim()}`}</code>
        </p>
      )}
      <p role="status">{said}</p>
    </section>
  );
}
