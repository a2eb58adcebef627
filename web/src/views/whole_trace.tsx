// Download of the whole trace as a file, with its size estimated beforehand.
import { makeFileName, makeNamedArray, saveFile, writeNpz } from "../file_formats";
import { formatBytes } from "../format";
import { type App, describeError } from "../state";
import { listAttentions } from "../tensor_graph";
import type { Manifest, TensorRow } from "../types";

export function WholeTrace({ app, manifest }: { app: App; manifest: Manifest }) {
  const download = app.source.downloadUrl?.bind(app.source);
  const captured = manifest.tensors.filter((row) => row.captured);
  const saveAll = async () => {
    const arrays = await Promise.all(captured.map(async (row) => makeNamedArray(row, (await app.loadTensor(row.name)).values)));
    saveFile(makeFileName(manifest.model.name, `${manifest.id}.npz`), writeNpz(arrays), "application/zip");
  };
  const weights = manifest.parameters.some((row) => row.captured);
  return (
    <section class="panel stack" aria-label="The whole trace">
      <h3>The whole trace</h3>
      {download ? (
        <ul class="downloads">
          {FILES.filter((file) => file.what !== "html-weights" || weights).map((file) => (
            <li>
              <a class="button" href={download(file.what)} download={makeFileName(manifest.model.name, manifest.id, file.what.replace("html-", "")) + ".html"}>
                {file.label}
              </a>{" "}
              <span>{file.holds}; about {formatBytes(estimateSize(manifest, file.what))}</span>
            </li>
          ))}
        </ul>
      ) : (
        <p class="quiet">To save the page with its numbers in one file, run “pellucid explain --html” or call trace.save_html() where the model is.</p>
      )}
      <div class="row">
        <button type="button" class="button" onClick={() => saveAll().catch((error) => (app.problem.value = describeError(error)))}>
          NPZ of all {captured.length} tensors, {formatBytes(captured.reduce((sum, row) => sum + 4 * row.shape.reduce((a, b) => a * b, 1), 0))}
        </button>
      </div>
    </section>
  );
}

const FILES = [
  { what: "html-maps", label: "HTML: maps", holds: "the page with all attention weights, candidates, the tree and the accounts" },
  { what: "html-float16", label: "HTML: all, float16", holds: "the page with every captured number, rounded to three digits" },
  { what: "html-float32", label: "HTML: all, float32", holds: "the page with every captured number, unrounded" },
  { what: "html-weights", label: "HTML: all and the weights", holds: "the same with the model's own weights, so that every number can be recomputed" },
] as const;

const MAP_KINDS = new Set(["softmax", "present", "causal"]);

/** Estimates the bytes of a file: base64 writes four characters for three bytes; what compression saves is not counted. */
export function estimateSize(manifest: Manifest, what: (typeof FILES)[number]["what"]): number {
  const countNumbers = (shape: number[]) => shape.reduce((a, b) => a * b, 1);
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
