// Laws of the page's state: numbers are fetched once, errors are one sentence, links lead back, zooming finds the way out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { handleKey, KEYS } from "../src/keyboard";
import { moveHead, moveLayer, moveStep, rememberPlace, zoomOut } from "../src/navigation";
import { applyLink, isAnswerTo, makeLink, makeQuestion, openLink, readLink, writeLink } from "../src/permalink";
import { App } from "../src/state";
import type { EditSpec, Manifest, Question } from "../src/types";
import { countCells, makeManifest, makeSource } from "./small_trace";

async function showTrace(more = {}): Promise<{ app: App; source: ReturnType<typeof makeSource> }> {
  const source = makeSource(makeManifest(), more);
  const app = new App(source, "page");
  await app.showTrace();
  return { app, source };
}

test("a tensor is fetched when looked at, and once", async () => {
  const { app, source } = await showTrace();
  assert.deepEqual(source.requests, []);
  const [first, second] = await Promise.all([app.loadTensor("decoder.0.cross.scores"), app.loadTensor("decoder.0.cross.scores")]);
  assert.equal(first, second);
  assert.equal(app.peekTensor("decoder.0.cross.scores"), first);
  assert.deepEqual(source.requests, ["decoder.0.cross.scores"]);
});

test("what was not captured, does not exist or came cut off is refused in a sentence", async () => {
  const { app } = await showTrace({ fetchTensor: async () => new Float32Array(3) });
  await assert.rejects(app.loadTensor("decoder.0.ffn.inner"), /decoder\.0\.ffn\.inner was not captured\./);
  await assert.rejects(app.loadTensor("decoder.9.ffn"), /no tensor named decoder\.9\.ffn/);
  await assert.rejects(app.loadTensor("decoder.0.cross.scores"), /came with 3 numbers; its shape has 70/);
  await assert.rejects(app.loadParameter("lost", 0, 1), /lost are not in this file/);
});

test("rows of a parameter are the same numbers however they are asked for, and blocks are fetched once", async () => {
  const { app, source } = await showTrace();
  for (const [first, end] of [[0, 1], [63, 65], [60, 131], [0, 131]] as [number, number][]) {
    const { values } = await app.loadParameter("w", first, end);
    assert.deepEqual([...values], Array.from({ length: (end - first) * 3 }, (_, i) => first * 3 + i));
  }
  assert.deepEqual(source.requests, ["w 0:64", "w 64:128", "w 128:131"]);
  assert.deepEqual([...(await app.loadParameter("bias", 127, 130)).values], [127, 128, 129]);
});

test("a new trace takes the place of the old one, with its numbers; what it does not have is left", async () => {
  const next = makeManifest({ id: "new", tensors: makeManifest().tensors.slice(0, 2), steps: makeManifest().steps.slice(0, 2) });
  const { app, source } = await showTrace({ act: async () => next });
  await app.loadTensor("decoder.0.cross.scores");
  app.step.value = 6;
  app.goTo({ view: "cell", tensor: "decoder.0.self.scores", index: [0, 1, 1] });
  assert.equal(await app.askSource("trace", { sentence: "New." }), next);
  assert.equal(app.manifest.value?.id, "new");
  assert.equal(app.step.value, 1);
  assert.deepEqual(app.place.value, { view: "map" });
  assert.equal(app.peekTensor("decoder.0.cross.scores"), undefined);
  await app.loadTensor("decoder.0.cross.scores");
  assert.equal(source.requests.length, 2);
});

test("numbers of the old trace that come late are not those of the new one", async () => {
  let tell: (values: Float32Array) => void = () => undefined;
  const { app } = await showTrace({
    act: async () => makeManifest({ id: "new" }),
    fetchTensor: () => new Promise<Float32Array>((resolve) => (tell = resolve)),
  });
  const late = app.loadTensor("decoder.0.cross.scores");
  await app.askSource("trace", { sentence: "New." });
  tell(countCells([2, 7, 5]));
  await late;
  assert.equal(app.peekTensor("decoder.0.cross.scores"), undefined);
});

test("an answer that does not come is told as one sentence, and asking again clears it", async () => {
  let fail = true;
  const { app } = await showTrace({
    act: async () => {
      if (fail) throw new Error("The sentence has 300 pieces; at most 256 are traced.");
      return { findings: [], reference: null };
    },
  });
  assert.equal(await app.askSource("verdict", {}), null);
  assert.equal(app.problem.value, "The sentence has 300 pieces; at most 256 are traced.");
  assert.equal(app.busy.value, null);
  fail = false;
  assert.ok(await app.askSource("verdict", {}));
  assert.equal(app.problem.value, null);
});

test("a file answers from what it holds and says that it cannot be asked more", async () => {
  const account = { step: 1, piece: "a", id: 9, other: null, logit: 1, sum: 1, parts: [] };
  const app = new App(makeSource(makeManifest({ accounts: { chosen: [account], against: [null] } }), { kind: "file" }), "file");
  await app.showTrace();
  assert.equal(await app.askSource("account", { step: 1, piece: 9 }), account);
  assert.equal(await app.askSource("account", { step: 1, piece: 8 }), null);
  assert.match(app.problem.value ?? "", /pellucid serve/);
});

test("where the trace of a link is gone, its sentence is translated again", async () => {
  const again = makeManifest({ id: "again" });
  const source = makeSource(makeManifest(), {
    fetchManifest: async () => {
      throw new Error("That trace is gone.");
    },
    act: async () => again,
  });
  const app = new App(source, "page");
  await openLink(app, readLink("#id=again&s=The+ball+is+blue."));
  assert.equal(app.manifest.value?.id, "again");
  assert.equal(app.problem.value, null);
  const without = new App(makeSource(makeManifest(), { fetchManifest: source.fetchManifest }), "page");
  await openLink(without, readLink("#id=again"));
  assert.equal(without.problem.value, "That trace is gone.");
});

/** Makes the manifest that the server gives for a question. */
function answerQuestion({ sentence, beam, target_ids, prefix_ids, edits, model }: Question): Manifest {
  const plain = makeManifest();
  const prefix = (prefix_ids ?? []).map((id) => `p${id}`).join(" ");
  return makeManifest({
    sentence,
    run: { ...plain.run, search: { beam: beam ?? 4, prefix } },
    model: { ...plain.model, sha256: (model ?? "").padEnd(model ? 64 : 0, "7") },
    forced: target_ids !== undefined,
    target: { ...plain.target, ids: target_ids ?? [...(prefix_ids ?? []), 41, 43, 3] },
    edits: edits ?? [],
  });
}

const EDITS: EditSpec[] = [
  { kind: "hide", word: 2 },
  { kind: "silence", attention: "decoder.3.cross", head: 1 },
  { kind: "pattern", attention: "encoder.0.self", head: 0, row: 1, values: [0.1, 1 / 3, 1e-9] },
  { kind: "prefix", text: 'La "bola" &=#+%.\u00a0é' },
];

test("a link says the whole question, of whatever kind, and reading it gives the question again", async () => {
  const sentences = ["The ball is blue.", "  <b>Ball</b>  &amp; #s=x&b=9 + %41 ", "犬 😀 \u200d\u202e", "{name} http://a.b/?c=d&e=f#g"];
  const ways: Partial<Question>[] = [{}, { target_ids: [41, 43, 3] }, { target_ids: [41] }, { prefix_ids: [41, 5] }];
  let seen = 0;
  for (const sentence of sentences)
    for (const way of ways)
      for (const edits of [undefined, ...EDITS.map((edit) => [edit]), EDITS])
        for (const beam of [1, 3, 64])
          for (const model of ["0123456789ab", undefined]) {
            const question = { sentence, beam, ...way, ...(edits && { edits }), ...(model && { model }) };
            const answer = answerQuestion(question);
            const app = new App(makeSource(answer), "page");
            await app.showTrace();
            const link = readLink(`#${writeLink(makeLink(app))}`);
            assert.deepEqual(link.question, question);
            assert.deepEqual(link.question, makeQuestion(answer));
            assert.ok(isAnswerTo(answer, question));
            seen++;
          }
  assert.equal(seen, 576);
});

test("no trace answers a question that differs from its own in anything", () => {
  const all: Question[] = [
    { sentence: "a", beam: 4, model: "01" },
    { sentence: "a ", beam: 4, model: "01" },
    { sentence: "a", beam: 1, model: "01" },
    { sentence: "a", beam: 4, model: "02" },
    { sentence: "a", beam: 4, model: "01", target_ids: [41, 3] },
    { sentence: "a", beam: 4, model: "01", target_ids: [41] },
    { sentence: "a", beam: 4, model: "01", target: "La" },
    { sentence: "a", beam: 4, model: "01", prefix_ids: [41] },
    { sentence: "a", beam: 4, model: "01", edits: [EDITS[0] as EditSpec] },
    { sentence: "a", beam: 4, model: "01", edits: [EDITS[1] as EditSpec] },
  ];
  for (const question of all) for (const other of all) if (question.target === undefined) assert.equal(isAnswerTo(answerQuestion(question), other), question === other);
});

for (const [what, fragment] of [
  ["beam width", "s=a&b=many"],
  ["translation", "s=a&w=1.x"],
  ["beginning", "s=a&p=1..2"],
  ["list of edits", "s=a&e=%5B%7B%22kind"],
  ["model", "s=a&k=<script>"],
  ["translation but no sentence", "w=41.3"],
]) {
  test(`a link whose ${what} cannot be read shows nothing and says so`, async () => {
    const source = makeSource(makeManifest(), { act: async () => assert.fail("it was asked") });
    const app = new App(source, "page");
    await openLink(app, readLink(`#${fragment}`));
    assert.equal(app.manifest.value, null);
    assert.match(app.notice.value ?? "", new RegExp(`damaged: it.*${what}`));
  });
}

test("a kept trace that is not what the link asks for is not shown for it, and a run that differs is told", async () => {
  const requests: unknown[] = [];
  const answer = answerQuestion({ sentence: "a", beam: 1 });
  const source = makeSource(answer, {
    fetchManifest: async (_, wanted) => {
      const stored = answerQuestion({ sentence: "b" });
      if (wanted && !wanted(stored)) throw new Error("not it");
      return stored;
    },
    act: async (verb, args) => {
      if (verb === "trace") requests.push(args);
      return answer;
    },
  });
  const app = new App(source, "page");
  await openLink(app, readLink("#id=former&s=a&b=1"));
  assert.deepEqual(requests, [{ sentence: "a", beam: 1 }]);
  assert.equal(app.manifest.value, answer);
  assert.match(app.notice.value ?? "", /another run \(former\) than .* \(abc\)/);
});

test("a file says of a link that it is of another translation", async () => {
  const app = new App(makeSource(makeManifest(), { kind: "file" }), "file");
  for (const fragment of ["#v=map", `#${writeLink(makeLink(app))}`, "#id=abc", "#s=The+ball+is+blue."]) {
    await openLink(app, readLink(fragment));
    assert.equal(app.notice.value, null);
  }
  for (const fragment of ["#id=abd", "#s=The+ball+is+new.", "#s=The+ball+is+blue.&e=[{}]", "#s=The+ball+is+blue.&k=1234"]) {
    await openLink(app, readLink(fragment));
    assert.match(app.notice.value ?? "", /another translation than this file, which holds “The ball is blue\.” by small/);
    assert.equal(app.manifest.value?.id, "abc");
  }
  await openLink(app, readLink("#s=a&w=x"));
  assert.match(app.notice.value ?? "", /damaged/);
});

test("a link leads back to where it was made", async () => {
  const { app } = await showTrace();
  app.goTo({ view: "cell", section: "decoder.3.cross", tensor: "decoder.0.cross.scores", head: 1, row: 3, col: 2, index: [1, 3, 2] });
  app.step.value = 4;
  app.followed.value = { dim: "S", index: 2 };
  app.story.value = 7;
  app.mode.value = "teach";
  app.numbers.value = true;
  app.code.value = false;
  const link = makeLink(app);
  assert.deepEqual(readLink(`#${writeLink(link)}`), link);
  assert.equal(link.question?.sentence, "The ball is blue.");
  const { app: other } = await showTrace();
  applyLink(other, readLink(writeLink(link)));
  assert.deepEqual(makeLink(other), link);
});

test("a fragment that says nonsense says nothing", () => {
  const link = readLink("#v=__proto__&i=1.x&t=-4&f=Q2&n=99&m=admin&h=1e9&a=%3Cscript%3E");
  assert.deepEqual(link, {
    place: { view: "map", section: "<script>" }, // text only: it is compared with names, never written as markup
    step: 0,
    story: null,
    mode: "learn",
    follow: null,
    switches: null,
    trace: null,
    question: null,
    fault: null,
  });
});

test("Esc goes out the way one came in, and ends at the map", async () => {
  const { app } = await showTrace();
  const go = (change: Parameters<App["goTo"]>[0]) => {
    app.goTo(change);
    rememberPlace(app, app.place.value);
  };
  rememberPlace(app, app.place.value);
  go({ view: "head", section: "decoder.0.cross", head: 1 });
  go({ view: "cell", tensor: "decoder.0.cross.scores", index: [1, 2, 3] });
  go({ view: "cell", tensor: "decoder.0.cross.products", index: [1, 2, 3] });
  zoomOut(app);
  assert.deepEqual([app.place.value.view, app.place.value.head], ["head", 1]);
  zoomOut(app);
  assert.equal(app.place.value.view, "map");
  zoomOut(app);
  assert.equal(app.place.value.view, "map");
});

test("heads go round, layers and steps end", async () => {
  const { app } = await showTrace();
  app.goTo({ view: "cell", section: "decoder.0.cross", tensor: "decoder.0.cross.pattern", index: [1, 2, 3], head: 1 });
  moveHead(app, 1);
  assert.deepEqual([app.place.value.head, app.place.value.index], [0, [0, 2, 3]]);
  moveLayer(app, 1);
  assert.deepEqual([app.place.value.section, app.place.value.tensor], ["decoder.1.cross", "decoder.1.cross.pattern"]);
  moveLayer(app, 1);
  assert.equal(app.place.value.section, "decoder.1.cross");
  moveStep(app, -1);
  assert.equal(app.step.value, 0);
  moveStep(app, 99);
  assert.equal(app.step.value, 6);
});

test("no two keys mean different things, and a key pressed while writing means its letter", async () => {
  const all = KEYS.flatMap((key) => key.keys);
  assert.equal(new Set(all).size, all.length);
  class Element {
    constructor(private readonly selector: string) {}
    matches(text: string): boolean {
      return text.includes(this.selector);
    }
  }
  Object.assign(globalThis, { HTMLElement: Element });
  const { app } = await showTrace();
  const page = { focusSentence: () => undefined, toggleHelp: () => undefined, closeHelp: () => false };
  const event = (key: string, target: unknown) => ({ key, composedPath: () => [target] }) as unknown as KeyboardEvent;
  assert.equal(handleKey(app, page, event("n", new Element("textarea"))), false);
  assert.equal(app.numbers.value, false);
  assert.equal(handleKey(app, page, event("n", new Element("canvas"))), true);
  assert.equal(app.numbers.value, true);
  assert.equal(handleKey(app, page, event(" ", new Element("canvas"))), false);
  app.mode.value = "teach";
  assert.equal(handleKey(app, page, event(" ", new Element("button"))), false);
  assert.equal(handleKey(app, page, event(" ", new Element("canvas"))), true);
  assert.equal(app.hidden.value, true);
});
