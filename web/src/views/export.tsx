// Export: a picture, the numbers behind it, the whole trace in one file, a link to this place.
import { useState } from "preact/hooks";
import { makeBitmapUrl, savePng } from "../bitmap";
import { makeTensorScale } from "../colour";
import { LONGEST, makeDrawing, VECTOR_CELLS, writeSvg } from "../drawing";
import { makeFileName, makeNamedArray, saveFile, writeCsv, writeNpz } from "../file_formats";
import { formatBytes, formatCount } from "../format";
import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import { makeLink, writeLink } from "../permalink";
import { findMask, makePicture } from "../picture";
import { type App, describeError, type Tensor } from "../state";
import { listAttentions } from "../tensor_graph";
import { getInks, useDark } from "../theme";
import type { Manifest } from "../types";
import { Missing } from "./values";
import { WholeTrace } from "./whole_trace";

export function ExportView() {
  const app = useApp();
  const manifest = app.manifest.value;
  if (!manifest) return null;
  return (
    <div class="stack export-body">
      <h2>Export</h2>
      <TensorExport app={app} manifest={manifest} key={manifest.id} />
      <WholeTrace app={app} manifest={manifest} />
      {app.host !== "widget" && <LinkHere app={app} />}
    </div>
  );
}

function TensorExport({ app, manifest }: { app: App; manifest: Manifest }) {
  const dark = useDark();
  const captured = manifest.tensors.filter((row) => row.captured && !row.shape.includes(0));
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
        <label>
          Tensor{" "}
          <select value={name} onChange={(event) => setName(event.currentTarget.value)}>
            {captured.map((row) => (
              <option value={row.name}>
                {row.name} ({row.shape.join(" × ")})
              </option>
            ))}
          </select>
        </label>
        {heads > 0 && (
          <label>
            Head{" "}
            <select value={String(head)} onChange={(event) => setHead(Number(event.currentTarget.value))}>
              {Array.from({ length: heads }, (_, h) => (
                <option value={String(h)}>{h + 1}</option>
              ))}
            </select>
          </label>
        )}
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
          NPZ for numpy, {formatBytes(4 * row.shape.reduce((a, b) => a * b, 1))}
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
  const link = `${location.href.replace(/#.*/, "")}#${writeLink(makeLink(app))}`;
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
