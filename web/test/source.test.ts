// Laws of trace sources: the three hosts give the same numbers, and say in a sentence when they cannot.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { decodeHalf, toNumbers } from "../src/file_formats";
import { cutNumbers, fileSource, httpSource, readReason, type WidgetModel, widgetSource } from "../src/trace_source";
import { makeManifest } from "./small_trace";

const NUMBERS = Float32Array.from([0, -1.5, 12345.678, 6e-8, Number.NaN]);

function serveAnswers(answers: Record<string, Response>): string[] {
  const requests: string[] = [];
  globalThis.fetch = (async (url: string | URL | Request, options?: RequestInit) => {
    requests.push(`${options?.method ?? "GET"} ${url}${options?.body ? ` ${options.body}` : ""}`);
    const response = answers[String(url)];
    if (!response) throw new TypeError("fetch failed");
    return response;
  }) as typeof fetch;
  return requests;
}

test("a server is asked at the addresses of the trace that it gave last", async () => {
  const requests = serveAnswers({
    trace: Response.json(makeManifest({ id: "t/1" })),
    "trace/t%2F1/t/decoder.0.cross.pattern": new Response(NUMBERS),
    "trace/t%2F1/p/w?rows=3:5": new Response(NUMBERS),
    "trace/t%2F1/verdict": Response.json({ findings: [], reference: null }),
  });
  const source = httpSource();
  await source.act?.("trace", { sentence: "Hi." });
  assert.deepEqual(await source.fetchTensor("decoder.0.cross.pattern"), NUMBERS);
  assert.deepEqual(await source.fetchParameter("w", 3, 5), NUMBERS);
  await source.act?.("verdict", {});
  assert.deepEqual(requests, [
    'POST trace {"sentence":"Hi."}',
    "GET trace/t%2F1/t/decoder.0.cross.pattern",
    "GET trace/t%2F1/p/w?rows=3:5",
    "POST trace/t%2F1/verdict {}",
  ]);
  assert.equal(source.downloadUrl?.("html-maps"), "trace/t%2F1/export.html?keep=maps");
  assert.equal(source.downloadUrl?.("npz"), "trace/t%2F1/tensors.npz");
});

test("tensors asked for together come in one request, and alone where that is refused", async () => {
  const together = "trace/x/tensors?name=a&name=b.c";
  const answer = new Response(Float32Array.of(1, 2, 3, 4, 5, 6, 7), { headers: { "X-Shape": "2,3;" } });
  let requests = serveAnswers({ [together]: answer });
  const source = httpSource("", "x");
  const [a, b] = await Promise.all([source.fetchTensor("a"), source.fetchTensor("b.c")]);
  assert.deepEqual([[...(a ?? [])], [...(b ?? [])]], [[1, 2, 3, 4, 5, 6], [7]]);
  assert.deepEqual(requests, [`GET ${together}`]);

  const refused = Response.json({ error: "too many bytes" }, { status: 413 });
  requests = serveAnswers({ [together]: refused, "trace/x/t/a": new Response(NUMBERS), "trace/x/t/b.c": new Response(NUMBERS) });
  const alone = await Promise.all([source.fetchTensor("a"), source.fetchTensor("b.c")]);
  assert.deepEqual(alone, [NUMBERS, NUMBERS]);
  assert.equal(requests.length, 3);
  assert.throws(() => cutNumbers(NUMBERS, "2,3"), /5 numbers came; their shapes have 6/);
});

test("what a server refuses is said in its own words, what it does not say in ours", async () => {
  serveAnswers({
    trace: Response.json({ error: "The queue is full; try again in a second." }, { status: 429 }),
    "trace/x/manifest.json": new Response("<h1>Bad gateway</h1>", { status: 502, statusText: "Bad Gateway" }),
    "trace/x/t/cut": new Response(new Uint8Array(7)),
  });
  await assert.rejects(async () => httpSource().act?.("trace", { sentence: "Hi." }), /^Error: The queue is full/);
  await assert.rejects(httpSource("", "x").fetchManifest(), /answered 502 Bad Gateway/);
  await assert.rejects(httpSource("", "x").fetchTensor("cut"), /cut off, 7 bytes/);
  await assert.rejects(httpSource("", "gone").fetchManifest(), /does not answer/);
  assert.equal(readReason('{"detail":[{"msg":"too long"},{"msg":"too many"}]}'), "too long; too many");
  assert.equal(readReason('{"detail":"no"}'), "no");
  assert.equal(readReason("[1]"), null);
});

test("16 bits are the number that IEEE 754 says", () => {
  const known: [number, number][] = [
    [0x0000, 0],
    [0x3c00, 1],
    [0xc000, -2],
    [0x7bff, 65504],
    [0x0400, 2 ** -14],
    [0x0001, 2 ** -24],
    [0x03ff, 1023 * 2 ** -24],
    [0x3555, 0.333251953125],
    [0x7c00, Number.POSITIVE_INFINITY],
    [0xfc00, Number.NEGATIVE_INFINITY],
  ];
  for (const [bits, value] of known) assert.equal(decodeHalf(bits), value);
  assert.ok(Object.is(decodeHalf(0x8000), -0));
  assert.ok(Number.isNaN(decodeHalf(0x7e01)));
  assert.deepEqual([...toNumbers(Uint16Array.from([0x3c00, 0xc000]).buffer, "float16")], [1, -2]);
  assert.deepEqual([...toNumbers(Uint8Array.from([1, 0, 1]).buffer, "bool")], [1, 0, 1]);
});

test("a file gives the numbers packed in it, and names those it does not hold", async () => {
  const zipped = (bytes: Uint8Array) => gzipSync(bytes).toString("base64");
  const packed = (values: Float32Array) => zipped(new Uint8Array(values.buffer));
  const verdict = { findings: [{ kind: "fine", says: "größer", numbers: {} }], reference: null };
  const script = (kind: string, name: string, values: Float32Array) => ({
    textContent: `${packed(values)}\n`,
    getAttribute: (attribute: string) => (attribute === `data-${kind}` ? name : null),
  });
  const weights = Float32Array.from({ length: 131 * 3 }, (_, i) => i);
  const blocks: Record<string, unknown[]> = {
    "script[data-tensor]": [script("tensor", "decoder.0.cross.pattern", NUMBERS)],
    "script[data-parameter]": [script("parameter", "w", weights)],
    "script[data-answer]": [
      { textContent: zipped(new TextEncoder().encode(JSON.stringify(verdict))), getAttribute: () => "verdict" },
    ],
  };
  const source = fileSource({
    getElementById: (id: string) => (id === "pellucid-manifest" ? { textContent: JSON.stringify(makeManifest()) } : null),
    querySelectorAll: (selector: string) => blocks[selector] ?? [],
  } as unknown as Document);
  assert.deepEqual(await source.fetchManifest(), { ...makeManifest(), verdict });
  assert.deepEqual(await source.fetchTensor("decoder.0.cross.pattern"), NUMBERS);
  assert.deepEqual([...(await source.fetchParameter("w", 100, 101))], [300, 301, 302]);
  await assert.rejects(source.fetchTensor("logits"), /logits are not in this file/);
  assert.equal(source.act, undefined);
});

test("a kernel is asked by messages, and answers to others are not heard", async () => {
  const sent: Record<string, unknown>[] = [];
  let hear: Parameters<WidgetModel["on"]>[1] = () => undefined;
  const model: WidgetModel = { send: (content) => sent.push(content as Record<string, unknown>), on: (_, heard) => (hear = heard) };
  const source = widgetSource(model);
  assert.equal(widgetSource(model), source);
  const numbers = source.fetchTensor("logits");
  const whole = new Uint8Array(4 + NUMBERS.byteLength);
  whole.set(new Uint8Array(NUMBERS.buffer), 4);
  hear({ id: 99 }, []);
  hear({ id: sent[0]?.id as number }, [new DataView(whole.buffer, 4)]);
  assert.deepEqual(await numbers, NUMBERS);
  const acted = source.act?.("edit", { edits: [], keep_target: true });
  hear({ id: sent[1]?.id as number, value: makeManifest({ id: "second" }) }, []);
  assert.equal(((await acted) as { id: string }).id, "second");
  const refused = source.fetchParameter("w", 0, 1);
  assert.deepEqual(sent[2], { id: 3, trace: "second", ask: "parameter", name: "w", first: 0, end: 1 });
  hear({ id: 3, problem: "There is no parameter w." }, []);
  await assert.rejects(refused, /There is no parameter w\./);
});
