// Laws of the page's state: numbers are fetched once, errors are one sentence, links lead back, zooming finds the way out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEYS, press } from "../src/keyboard";
import { follow, linkOf, read, written } from "../src/permalink";
import { type App, makeApp } from "../src/state";
import { remember, turnHead, turnLayer, turnStep, zoomOut } from "../src/zoom";
import { counted, manifest, sourceOf } from "./small";

async function shown(more = {}): Promise<{ app: App; source: ReturnType<typeof sourceOf> }> {
  const source = sourceOf(manifest(), more);
  const app = makeApp(source, "page");
  await app.begin(null);
  return { app, source };
}

test("a tensor is fetched when looked at, and once", async () => {
  const { app, source } = await shown();
  assert.deepEqual(source.asked, []);
  const [one, other] = await Promise.all([app.tensor("decoder.0.cross.scores"), app.tensor("decoder.0.cross.scores")]);
  assert.equal(one, other);
  assert.equal(app.peek("decoder.0.cross.scores"), one);
  assert.deepEqual(source.asked, ["decoder.0.cross.scores"]);
});

test("what was not captured, does not exist or came cut off is refused in a sentence", async () => {
  const { app } = await shown({ tensor: async () => new Float32Array(3) });
  await assert.rejects(app.tensor("decoder.0.ffn.inner"), /decoder\.0\.ffn\.inner was not captured\./);
  await assert.rejects(app.tensor("decoder.9.ffn"), /no tensor named decoder\.9\.ffn/);
  await assert.rejects(app.tensor("decoder.0.cross.scores"), /came with 3 numbers; its shape has 70/);
  await assert.rejects(app.parameter("lost", 0, 1), /lost are not in this file/);
});

test("rows of a parameter are the same numbers however they are asked for, and blocks are fetched once", async () => {
  const { app, source } = await shown();
  for (const [first, end] of [[0, 1], [63, 65], [60, 131], [0, 131]] as [number, number][]) {
    const { values } = await app.parameter("w", first, end);
    assert.deepEqual([...values], Array.from({ length: (end - first) * 3 }, (_, i) => first * 3 + i));
  }
  assert.deepEqual(source.asked, ["w 0:64", "w 64:128", "w 128:131"]);
  assert.deepEqual([...(await app.parameter("bias", 127, 130)).values], [127, 128, 129]);
});

test("a new trace takes the place of the old one, with its numbers; what it does not have is left", async () => {
  const next = manifest({ id: "new", tensors: manifest().tensors.slice(0, 2), steps: manifest().steps.slice(0, 2) });
  const { app, source } = await shown({ act: async () => next });
  await app.tensor("decoder.0.cross.scores");
  app.step.value = 6;
  app.go({ view: "cell", tensor: "decoder.0.self.scores", index: [0, 1, 1] });
  assert.equal(await app.ask("trace", { sentence: "New." }), next);
  assert.equal(app.manifest.value?.id, "new");
  assert.equal(app.step.value, 1);
  assert.deepEqual(app.place.value, { view: "map" });
  assert.equal(app.peek("decoder.0.cross.scores"), undefined);
  await app.tensor("decoder.0.cross.scores");
  assert.equal(source.asked.length, 2);
});

test("numbers of the old trace that come late are not those of the new one", async () => {
  let tell: (values: Float32Array) => void = () => undefined;
  const { app } = await shown({
    act: async () => manifest({ id: "new" }),
    tensor: () => new Promise<Float32Array>((resolve) => (tell = resolve)),
  });
  const late = app.tensor("decoder.0.cross.scores");
  await app.ask("trace", { sentence: "New." });
  tell(counted([2, 7, 5]));
  await late;
  assert.equal(app.peek("decoder.0.cross.scores"), undefined);
});

test("an answer that does not come is told as one sentence, and asking again clears it", async () => {
  let fail = true;
  const { app } = await shown({
    act: async () => {
      if (fail) throw new Error("The sentence has 300 pieces; at most 256 are traced.");
      return { findings: [], reference: null };
    },
  });
  assert.equal(await app.ask("verdict", {}), null);
  assert.equal(app.problem.value, "The sentence has 300 pieces; at most 256 are traced.");
  assert.equal(app.busy.value, null);
  fail = false;
  assert.ok(await app.ask("verdict", {}));
  assert.equal(app.problem.value, null);
});

test("a file answers from what it holds and says that it cannot be asked more", async () => {
  const account = { step: 1, piece: "a", id: 9, other: null, logit: 1, sum: 1, parts: [] };
  const app = makeApp(sourceOf(manifest({ accounts: { chosen: [account], against: [null] } }), { kind: "file" }), "file");
  await app.begin(null);
  assert.equal(await app.ask("account", { step: 1, piece: 9 }), account);
  assert.equal(await app.ask("account", { step: 1, piece: 8 }), null);
  assert.match(app.problem.value ?? "", /pellucid serve/);
});

test("where the trace of a link is gone, its sentence is translated again", async () => {
  const again = manifest({ id: "again" });
  const source = sourceOf(manifest(), {
    manifest: async () => {
      throw new Error("That trace is gone.");
    },
    act: async () => again,
  });
  const app = makeApp(source, "page");
  await app.begin({ sentence: "The ball is blue." });
  assert.equal(app.manifest.value?.id, "again");
  const without = makeApp(sourceOf(manifest(), { manifest: source.manifest }), "page");
  await without.begin(null);
  assert.equal(without.problem.value, "That trace is gone.");
});

test("a link leads back to where it was made", async () => {
  const { app } = await shown();
  app.go({ view: "cell", section: "decoder.3.cross", tensor: "decoder.0.cross.scores", head: 1, row: 3, col: 2, index: [1, 3, 2] });
  app.step.value = 4;
  app.follow.value = { dim: "S", index: 2 };
  app.story.value = 7;
  app.mode.value = "teach";
  const link = linkOf(app);
  assert.deepEqual(read(`#${written(link)}`), link);
  assert.equal(link.sentence, "The ball is blue.");
  const { app: other } = await shown();
  follow(other, read(written(link)));
  assert.deepEqual(linkOf(other), link);
});

test("a fragment that says nonsense says nothing", () => {
  const link = read("#v=__proto__&i=1.x&t=-4&f=Q2&n=99&m=admin&h=1e9&a=%3Cscript%3E");
  assert.deepEqual(link, {
    place: { view: "map", section: "<script>" }, // text only: it is compared with names, never written as markup
    step: 0,
    story: null,
    mode: "learn",
    follow: null,
    trace: null,
    sentence: null,
    target: null,
  });
});

test("Esc goes out the way one came in, and ends at the map", async () => {
  const { app } = await shown();
  const go = (change: Parameters<App["go"]>[0]) => {
    app.go(change);
    remember(app, app.place.value);
  };
  remember(app, app.place.value);
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
  const { app } = await shown();
  app.go({ view: "cell", section: "decoder.0.cross", tensor: "decoder.0.cross.pattern", index: [1, 2, 3], head: 1 });
  turnHead(app, 1);
  assert.deepEqual([app.place.value.head, app.place.value.index], [0, [0, 2, 3]]);
  turnLayer(app, 1);
  assert.deepEqual([app.place.value.section, app.place.value.tensor], ["decoder.1.cross", "decoder.1.cross.pattern"]);
  turnLayer(app, 1);
  assert.equal(app.place.value.section, "decoder.1.cross");
  turnStep(app, -1);
  assert.equal(app.step.value, 0);
  turnStep(app, 99);
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
  const { app } = await shown();
  const page = { focusSentence: () => undefined, toggleHelp: () => undefined, closeHelp: () => false };
  const event = (key: string, target: unknown) => ({ key, composedPath: () => [target] }) as unknown as KeyboardEvent;
  assert.equal(press(app, page, event("n", new Element("textarea"))), false);
  assert.equal(app.numbers.value, false);
  assert.equal(press(app, page, event("n", new Element("canvas"))), true);
  assert.equal(app.numbers.value, true);
  assert.equal(press(app, page, event(" ", new Element("canvas"))), false);
  app.mode.value = "teach";
  assert.equal(press(app, page, event(" ", new Element("button"))), false);
  assert.equal(press(app, page, event(" ", new Element("canvas"))), true);
  assert.equal(app.hidden.value, true);
});
