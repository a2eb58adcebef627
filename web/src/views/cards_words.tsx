// Cards on words as vectors: cosines of words, and sums and differences of them.

import { useState } from "preact/hooks";
import { symmetric } from "../colour";
import { count, figure, quoted } from "../format";
import { useApp, useLoaded } from "../hooks";
import { Sheet } from "../sheet";
import type { App } from "../state";
import { useDark } from "../theme";
import type { Analogy, Manifest, Near, Similar } from "../types";
import { Card, Num, Says } from "./claim_card";
import { Loading, Missing } from "./values";

/** The words of a sentence without the marks around them, each once. */
export function wordsIn(text: string): string[] {
  const bare = text.split(/\s+/).map((word) => word.replace(/^[.,;:!?¡¿"'()[\]]+|[.,;:!?¡¿"'()[\]]+$/g, ""));
  return [...new Set(bare.filter(Boolean))].slice(0, 16);
}

export function SimilarCard({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const own = wordsIn(manifest.source.text);
  const [words, setWords] = useState(own);
  const [text, setText] = useState(own.join(" "));
  return (
    <Card id="similar" title="Words that mean alike" from={["A", "B"]} claim="Words with like meanings have like vectors: red and blue, brown and silver are near to each other, cat and refrigerator far apart.">
      {app.source.act && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            setWords(wordsIn(text));
          }}
        >
          <label class="form-grow">
            Words <input type="text" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          </label>
          <button type="submit" class="button" disabled={wordsIn(text).length === 0}>
            Compare
          </button>
        </form>
      )}
      {words.length ? <Cosines words={words} /> : <Missing says="This sentence has no words to compare." />}
    </Card>
  );
}

function Cosines({ words }: { words: string[] }) {
  const app = useApp();
  const loaded = useLoaded(() => app.find("similar", { side: "source", words }), `${app.manifest.value?.model.sha256} ${words.join(" ")}`);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "missing") return <Missing says={loaded.says} />;
  return <CosineSheet found={loaded.value} />;
}

function CosineSheet({ found }: { found: Similar }) {
  const dark = useDark();
  const axis = { dim: "word", size: found.words.length, labels: found.words };
  const several = found.words.flatMap((word, i) => (found.spelled[i]?.includes(" ") ? [`${word} (${found.spelled[i]})`] : []));
  return (
    <>
      <Sheet values={Float32Array.from(found.cosines.flat())} rows={axis} cols={axis} scale={symmetric(1, dark)} label="Cosine of two words" maxHeight={460} />
      <Says>
        Two pieces of this table picked by chance have a cosine of <Num value={found.chance.mean} /> in the mean, give or take <Num value={found.chance.deviation} />: what lies within that says
        nothing.
      </Says>
      {several.length > 0 && <p class="quiet">Of several pieces, whose mean is taken: {several.join(", ")}.</p>}
      {found.unknown.length > 0 && <p class="quiet">Without a piece here: {found.unknown.join(", ")}.</p>}
    </>
  );
}

export function AnalogyCard() {
  const app = useApp();
  return (
    <Card id="analogy" title="Sums of words" from={["B"]} claim="King minus man gives queen; what is meant is king minus man plus woman.">
      <AnalogyBox app={app} side="source" />
    </Card>
  );
}

/** A question like king - man + woman, asked of one table. */
export function AnalogyBox({ app, side }: { app: App; side: string }) {
  const [question, setQuestion] = useState("king - man + woman");
  const [expected, setExpected] = useState("queen");
  const [found, setFound] = useState<Analogy | null>(null);
  if (!app.source.act) return <Missing says="Not in this file; ask the server: pellucid serve MODEL" />;
  const ask = async (event: Event) => {
    event.preventDefault();
    setFound(await app.ask("analogy", { side, question, ...(expected.trim() && { expected: expected.trim() }) }));
  };
  return (
    <div class="stack analogy">
      <form class="row" onSubmit={ask}>
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
      {found && <Answers found={found} />}
    </div>
  );
}

function Answers({ found }: { found: Analogy }) {
  return (
    <>
      <p>
        {found.spelled.join(", ")}
        {found.expected ? `; expected ${found.expected}` : ""}
      </p>
      <div class="analogy-answers">
        <NearTable name="words of the question left out" near={found.answers} />
        <NearTable name="words of the question let in" near={found.with_inputs} />
      </div>
      <Says>
        {found.verdict.charAt(0).toUpperCase() + found.verdict.slice(1)}. With random vectors any of {count(found.candidates)} pieces would be as likely to come first.
      </Says>
    </>
  );
}

/** Pieces and their cosines, the nearest first. */
export function NearTable({ name, near }: { name: string; near: Near[] }) {
  return (
    <table class="plain-table" aria-label={name}>
      <caption class="quiet">{name}</caption>
      <tbody>
        {near.map((each) => (
          <tr>
            <th scope="row">{quoted(each.piece)}</th>
            <td class="mono">
              <Num value={each.cosine} shown={figure(each.cosine)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
