// Export: a picture, the numbers behind it, the whole trace in one file, a link to this place.
import { useState } from "preact/hooks";
import { getInks, makeTensorScale } from "../colour";
import { LONGEST, makeBitmapUrl, makeDrawing, savePng, VECTOR_CELLS, writeSvg } from "../drawing";
import { makeFileName, makeNamedArray, saveFile, writeCsv, writeNpz } from "../file_formats";
import { describeError, formatBytes, formatCount } from "../format";
import { useApp, useDark } from "../hooks";
import { Matrix } from "../matrix";
import { listAttentions } from "../network";
import { HeadMenu, Menu, Missing } from "../parts";
import { makeAddress, traceAgain } from "../permalink";
import { findMask, makePicture } from "../picture";
import type { App } from "../state";
import type { Tensor } from "../trace_cache";
import type { Manifest, TensorRow } from "../types";

export function ExportView() {
  const app = useApp();
  const manifest = app.manifest.value;
  if (!manifest) return null;
  return (
    <div class="stack export-body">
      <h2>Export</h2>
      <WholeTrace app={app} manifest={manifest} />
      <TensorExport app={app} manifest={manifest} key={manifest.id} />
      {app.host !== "widget" && <LinkHere app={app} />}
    </div>
  );
}

function TensorExport({ app, manifest }: { app: App; manifest: Manifest }) {
  const dark = useDark();
  const captured = manifest.tensors.filter((row) => row.captured);
  const { place } = app;
  const section = place.value.section;
  const looked = captured.find((row) => row.name === place.value.tensor) ?? captured.find((row) => row.name === `${section}.pattern`);
  const initialName = looked?.name ?? listAttentions(manifest).at(-1)?.pattern ?? captured[0]?.name ?? "";
  const [name, setName] = useState(initialName);
  const [head, setHead] = useState(place.value.head ?? 0);
  const row = captured.find((row) => row.name === name);
  if (!row) return <Missing message="No tensor was captured in this trace." />;
  const heads = row.dims.length === 3 ? (row.shape[0] ?? 0) : 0;
  const take = heads ? { [row.dims[0] ?? ""]: Math.min(head, heads - 1) } : undefined;
  const cellCount = (row.shape.at(-1) ?? 1) * (row.shape.at(-2) ?? 1);
  const isTooLarge = Math.max(...row.shape.slice(-2)) > LONGEST;
  const nameFile = (ending: string) => makeFileName(manifest.model.name, name, heads && ending !== "csv" && ending !== "npz" ? `head${head + 1}` : "", `.${ending}`).replace("-.", ".");
  const withNumbers = (use: (tensor: Tensor) => void | Promise<void>) => () =>
    app.loadTensor(name).then(use).catch((error) => (app.problem.value = describeError(error)));
  const draw = async (tensor: Tensor) => {
    const mask = findMask(manifest, name);
    const allowed = mask?.captured ? await app.loadTensor(mask.name) : null;
    const { rows, cols, values, masked } = makePicture(manifest, tensor.row, tensor.values, allowed, take);
    const subtitle = `${manifest.source.text} → ${manifest.target.text}${heads ? `, head ${head + 1}` : ""}`;
    const panel = { title: `${name}: ${row.means}`, subtitle, rows, cols, values, masked, scale: makeTensorScale(row, dark), inks: getInks(dark), numbers: app.numbers.value };
    return makeDrawing(panel);
  };
  return (
    <section class="panel stack" aria-label="One tensor">
      <div class="row form-row">
        <Menu label="Tensor" value={name} options={captured.map((row) => [row.name, `${row.name} (${row.shape.join(" × ")})`])} onPick={setName} />
        {heads > 0 && <HeadMenu label="Head" heads={heads} head={head} onHead={setHead} />}
      </div>
      <Matrix tensor={name} {...(take ? { fixed: take } : {})} maxHeight={380} />
      <div class="row">
        <button type="button" class="button" disabled={isTooLarge} onClick={withNumbers(async (tensor) => savePng(await draw(tensor), nameFile("png")))}>
          PNG, double resolution
        </button>
        <button type="button" class="button" disabled={isTooLarge} onClick={withNumbers(async (tensor) => saveFile(nameFile("svg"), writeSvg(await draw(tensor), makeBitmapUrl), "image/svg+xml"))}>
          SVG{cellCount > VECTOR_CELLS ? " with a bitmap" : ""}
        </button>
        <button type="button" class="button" onClick={withNumbers((tensor) => saveFile(nameFile("csv"), writeCsv(row, tensor.values, manifest.axes), "text/csv"))}>
          CSV, all numbers
        </button>
        <button type="button" class="button" onClick={withNumbers((tensor) => saveFile(nameFile("npz"), writeNpz([makeNamedArray(row, tensor.values)]), "application/zip"))}>
          NPZ for numpy, {formatBytes(4 * countNumbers(row.shape))}
        </button>
      </div>
      {isTooLarge && <p class="quiet">{formatCount(Math.max(...row.shape.slice(-2)))} cells side by side are too many for a picture; export the numbers instead.</p>}
    </section>
  );
}

/** Shows a link to the current view, with its step and the followed piece. */
function LinkHere({ app }: { app: App }) {
  const [copied, setCopied] = useState(false);
  const place = app.place.value;
  const link = makeAddress(app);
  const copyLink = () =>
    navigator.clipboard.writeText(link).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  return (
    <section class="panel stack" aria-label="Link">
      <h3>A link to here</h3>
      <p class="quiet">
        The part after the # says what you are looking at and is not sent to a server. The link works where the same model is served, and in an exported file.
      </p>
      <div class="row">
        <input class="export-link mono" type="text" readOnly value={link} aria-label={`Link to ${place.view}`} onFocus={(event) => event.currentTarget.select()} />
        {"clipboard" in navigator && (
          <button type="button" class="button" onClick={copyLink}>
            {copied ? "Copied" : "Copy"}
          </button>
        )}
      </div>
    </section>
  );
}

function WholeTrace({ app, manifest }: { app: App; manifest: Manifest }) {
  const download = manifest.computed_here ? undefined : app.source.downloadUrl?.bind(app.source);
  const captured = manifest.tensors.filter((row) => row.captured);
  const saveAll = async () => {
    const arrays = await Promise.all(captured.map(async (row) => makeNamedArray(row, (await app.loadTensor(row.name)).values)));
    saveFile(makeFileName(manifest.model.name, `${manifest.id}.npz`), writeNpz(arrays), "application/zip");
  };
  const weights = manifest.parameters.some((row) => row.captured);
  const best = estimateSize(manifest, "html-float16") <= LARGEST_FILE ? "html-float16" : "html-maps";
  const nameFile = (what: string) => `${makeFileName(manifest.model.name, manifest.id, what.replace("html-", ""))}.html`;
  return (
    <section class="panel stack" aria-label="The whole page">
      <h3>The whole page</h3>
      {download ? (
        <p>
          <a class="button primary" href={download(best)} download={nameFile(best)}>
            Save this page
          </a>{" "}
          One file for any browser, which needs no network; about {formatBytes(estimateSize(manifest, best))}.
        </p>
      ) : manifest.computed_here ? (
        <button type="button" class="button" onClick={() => void traceAgain(app, manifest)}>
          Let the server compute it too, to save the page with it
        </button>
      ) : (
        <p class="quiet">To save the page with its numbers in one file, run “pellucid explain --html” or call trace.save_html() where the model is.</p>
      )}
      <details>
        <summary>More or fewer numbers, and other files</summary>
        {download && (
          <ul class="downloads">
            {FILES.filter((file) => file.what !== "html-weights" || weights).map((file) => (
              <li>
                <a class="button" href={download(file.what)} download={nameFile(file.what)}>
                  {file.label}
                </a>{" "}
                <span>
                  {file.holds}; about {formatBytes(estimateSize(manifest, file.what))}
                </span>
              </li>
            ))}
          </ul>
        )}
        <button type="button" class="button" onClick={() => saveAll().catch((error) => (app.problem.value = describeError(error)))}>
          NPZ of all {captured.length} tensors, {formatBytes(captured.reduce((sum, row) => sum + 4 * countNumbers(row.shape), 0))}
        </button>
      </details>
    </section>
  );
}

const LARGEST_FILE = 3e6; // bytes of a file with all numbers, as in a notebook

const FILES = [
  { what: "html-maps", label: "HTML: maps", holds: "the page with all attention weights, candidates, the tree and the accounts" },
  { what: "html-float16", label: "HTML: all, float16", holds: "the page with every captured number, rounded to three digits" },
  { what: "html-float32", label: "HTML: all, float32", holds: "the page with every captured number, unrounded" },
  { what: "html-weights", label: "HTML: all and the weights", holds: "the same with the model's own weights, so that every number can be recomputed" },
] as const;

const MAP_KINDS = new Set(["softmax", "present", "causal"]);

/** Counts the numbers of a tensor of this shape. */
function countNumbers(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Estimates the bytes of a file: base64 writes four characters for three bytes; what compression saves is not counted. */
export function estimateSize(manifest: Manifest, what: (typeof FILES)[number]["what"]): number {
  const rows = manifest.tensors.filter((row) => row.captured && (what !== "html-maps" || MAP_KINDS.has(row.op.kind)));
  const tensorBytes = (row: TensorRow) => countNumbers(row.shape) * (row.dtype === "bool" ? 1 : what === "html-float16" ? 2 : 4);
  const tensors = rows.reduce((sum, row) => sum + tensorBytes(row), 0);
  const weights = what === "html-weights" ? manifest.parameters.reduce((sum, row) => sum + (row.captured ? 4 * countNumbers(row.shape) : 0), 0) : 0;
  return ((tensors + weights) * 4) / 3 + JSON.stringify(manifest).length + estimateAnswerBytes(manifest) + measurePageBytes();
}

/** Estimates two accounts for each step: about 60 characters for a head and 20 for each position that it reads. */
function estimateAnswerBytes(manifest: Manifest): number {
  const writing = listAttentions(manifest).filter((parts) => parts.queryDim === "T");
  const accountBytes = writing.reduce((sum, parts) => sum + parts.heads * (60 + 20 * (manifest.axes[parts.keyDim]?.size ?? 0)), 0);
  return 2 * manifest.steps.length * accountBytes;
}

/** Measures the page's own script, where the browser reports its size. */
function measurePageBytes(): number {
  const loaded = performance.getEntriesByType("resource").filter((entry) => /\/pellucid\.js$/.test(entry.name));
  return (loaded[0] as PerformanceResourceTiming | undefined)?.decodedBodySize ?? 0;
}
