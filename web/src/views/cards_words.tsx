// Claim cards on word vectors: cosines of words, and sums and differences of them.
import { useState } from "preact/hooks";
import { makeSymmetricScale } from "../colour";
import { formatNumber, quotePiece } from "../format";
import { useApp, useDark, useLoaded } from "../hooks";
import { Missing, NotReady, NumberValue } from "../parts";
import { Sheet } from "../sheet";
import type { App } from "../state";
import type { Analogy, Manifest, Neighbour, Similarities } from "../types";
import { Card, Outcome } from "./claim_card";

/** Lists the words of a sentence without punctuation, each once. */
export function listBareWords(text: string): string[] {
  const bare = text.split(/\s+/).map((word) => word.replace(/^[.,;:!?¡¿"'()[\]]+|[.,;:!?¡¿"'()[\]]+$/g, ""));
  return [...new Set(bare.filter(Boolean))].slice(0, 16);
}

export function SimilarCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const sentenceWords = listBareWords(manifest.source.text);
  const [words, setWords] = useState(sentenceWords);
  const [text, setText] = useState(sentenceWords.join(" "));
  return (
    <Card id="similar" title="Words with similar meanings" from={["A", "B"]} claim="Words with similar meanings have similar vectors: red and blue, brown and silver are near each other, cat and refrigerator are far apart.">
      {app.source.act && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            setWords(listBareWords(text));
          }}
        >
          <label class="form-grow">
            Words <input type="text" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          </label>
          <button type="submit" class="button" disabled={listBareWords(text).length === 0}>
            Compare
          </button>
        </form>
      )}
      {words.length ? <Cosines words={words} /> : <Missing message="This sentence has no words to compare." />}
    </Card>
  );
}

function Cosines({ words }: { words: string[] }) {
  const app = useApp();
  const loaded = useLoaded(() => app.fetchAnswer("similar", { side: "source", words }), `${app.manifest.value?.model.sha256} ${words.join(" ")}`);
  if (loaded.state !== "ready") return <NotReady loaded={loaded} />;
  return <CosineSheet similarities={loaded.value} />;
}

function CosineSheet({ similarities }: { similarities: Similarities }) {
  const dark = useDark();
  const axis = { dim: "word", size: similarities.words.length, labels: similarities.words };
  const splitWords = similarities.words.flatMap((word, i) => (similarities.spelled[i]?.includes(" ") ? [`${word} (${similarities.spelled[i]})`] : []));
  return (
    <>
      <Sheet values={Float32Array.from(similarities.cosines.flat())} rows={axis} cols={axis} scale={makeSymmetricScale(1, dark)} label="Cosine of two words" maxHeight={460} />
      <Outcome>
        Two pieces of this table picked by chance have a cosine of <NumberValue value={similarities.chance.mean} /> on average, give or take <NumberValue value={similarities.chance.deviation} />: a cosine
        in this range means nothing.
      </Outcome>
      {splitWords.length > 0 && <p class="quiet">Words of several pieces, of which the mean is taken: {splitWords.join(", ")}.</p>}
      {similarities.unknown.length > 0 && <p class="quiet">Words for which the vocabulary has no piece: {similarities.unknown.join(", ")}.</p>}
    </>
  );
}

export function AnalogyCard() {
  const app = useApp();
  return (
    <Card id="analogy" title="Sums of words" from={["B"]} claim="King minus man gives queen; what is meant is king minus man plus woman.">
      <AnalogyForm app={app} side="source" />
    </Card>
  );
}

/** Asks one embedding table a question like king - man + woman. */
export function AnalogyForm({ app, side }: { app: App; side: string }) {
  const [question, setQuestion] = useState("king - man + woman");
  const [expected, setExpected] = useState("queen");
  const [answer, setAnswer] = useState<Analogy | null>(null);
  if (!app.source.act) return <Missing message="Not in this file; to compute it, run: pellucid serve MODEL" />;
  const askAnalogy = async (event: Event) => {
    event.preventDefault();
    setAnswer(await app.askSource("analogy", { side, question, ...(expected.trim() && { expected: expected.trim() }) }));
  };
  return (
    <div class="stack analogy">
      <form class="row" onSubmit={askAnalogy}>
        <label>
          Question <input type="text" value={question} size={26} onInput={(event) => setQuestion(event.currentTarget.value)} />
        </label>
        <label>
          expected <input type="text" value={expected} size={10} onInput={(event) => setExpected(event.currentTarget.value)} />
        </label>
        <button type="submit" class="button" disabled={!question.trim() || app.busy.value !== null}>
          Ask
        </button>
      </form>
      {answer && <AnalogyAnswer answer={answer} />}
    </div>
  );
}

function AnalogyAnswer({ answer }: { answer: Analogy }) {
  return (
    <>
      <p>
        {answer.spelled.join(", ")}
        {answer.expected ? `; expected ${answer.expected}` : ""}
      </p>
      <div class="analogy-answers">
        <NeighbourTable name="without the words of the question" neighbours={answer.answers} />
        <NeighbourTable name="with the words of the question" neighbours={answer.with_inputs} />
      </div>
      <Outcome>
        {answer.verdict.charAt(0).toUpperCase() + answer.verdict.slice(1)}.
      </Outcome>
    </>
  );
}

/** Lists pieces with their cosines, the nearest first. */
export function NeighbourTable({ name, neighbours }: { name: string; neighbours: Neighbour[] }) {
  return (
    <table class="plain-table" aria-label={name}>
      <caption class="quiet">{name}</caption>
      <tbody>
        {neighbours.map((neighbour) => (
          <tr>
            <th scope="row">{quotePiece(neighbour.piece)}</th>
            <td class="mono">
              <NumberValue value={neighbour.cosine} shown={formatNumber(neighbour.cosine)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
