// Taking things away: a picture, the numbers behind it, the whole trace in one file, a link to this place.
import { useState } from "preact/hooks";
import { bitmapOf, savePng } from "../bitmap";
import { scaleOf } from "../colour";
import { drawingOf, LONGEST, svgOf, VECTOR_CELLS } from "../drawing";
import { arrayOf, csvOf, fileName, npzOf, save } from "../file_formats";
import { bytes, count } from "../format";
import { useApp } from "../hooks";
import { Matrix } from "../matrix";
import { linkOf, written } from "../permalink";
import { maskOf, pictureOf } from "../picture";
import { type App, sentence, type Tensor } from "../state";
import { attentions } from "../tensor_graph";
import { inksOf, useDark } from "../theme";
import type { Manifest } from "../types";
import { Missing } from "./values";
import { WholeTrace } from "./whole_trace";

export function ExportView() {
  const app = useApp();
  const manifest = app.manifest.value;
  if (!manifest) return null;
  return (
    <div class="stack export-body">
      <h2>Take it away</h2>
      <OneTensor app={app} manifest={manifest} key={manifest.id} />
      <WholeTrace app={app} manifest={manifest} />
      {app.host !== "widget" && <LinkHere app={app} />}
    </div>
  );
}

function OneTensor({ app, manifest }: { app: App; manifest: Manifest }) {
  const dark = useDark();
  const captured = manifest.tensors.filter((row) => row.captured && !row.shape.includes(0));
  const { place } = app;
  const section = place.value.section;
  const begin = captured.find((row) => row.name === place.value.tensor) ?? captured.find((row) => row.name === `${section}.pattern`);
  const first = begin?.name ?? attentions(manifest).at(-1)?.pattern ?? captured[0]?.name ?? "";
  const [name, setName] = useState(first);
  const [head, setHead] = useState(place.value.head ?? 0);
  const row = captured.find((each) => each.name === name);
  if (!row) return <Missing says="No tensor was captured in this trace." />;
  const heads = row.dims.length === 3 ? (row.shape[0] ?? 0) : 0;
  const take = heads ? { [row.dims[0] ?? ""]: Math.min(head, heads - 1) } : undefined;
  const cells = (row.shape.at(-1) ?? 1) * (row.shape.at(-2) ?? 1);
  const tall = Math.max(...row.shape.slice(-2)) > LONGEST;
  const file = (ending: string) => fileName(manifest.model.name, name, heads && ending !== "csv" && ending !== "npz" ? `head${head + 1}` : "", `.${ending}`).replace("-.", ".");
  const withNumbers = (use: (tensor: Tensor) => void | Promise<void>) => () =>
    app.tensor(name).then(use).catch((error) => (app.problem.value = sentence(error)));
  const drawn = async (tensor: Tensor) => {
    const mask = maskOf(manifest, name);
    const allowed = mask?.captured ? await app.tensor(mask.name) : null;
    const { rows, cols, values, masked } = pictureOf(manifest, tensor.row, tensor.values, allowed, take);
    const subtitle = `${manifest.source.text} → ${manifest.target.text}${heads ? `, head ${head + 1}` : ""}`;
    const panel = { title: `${name}: ${row.means}`, subtitle, rows, cols, values, masked, scale: scaleOf(row, dark), inks: inksOf(dark), numbers: app.numbers.value };
    return drawingOf(panel);
  };
  return (
    <section class="panel stack" aria-label="One tensor">
      <div class="row form-row">
        <label>
          Tensor{" "}
          <select value={name} onChange={(event) => setName(event.currentTarget.value)}>
            {captured.map((each) => (
              <option value={each.name}>
                {each.name} ({each.shape.join(" × ")})
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
      <Matrix tensor={name} {...(take ? { take } : {})} maxHeight={380} />
      <div class="row">
        <button type="button" class="button" disabled={tall} onClick={withNumbers(async (tensor) => savePng(await drawn(tensor), file("png")))}>
          PNG, twice as fine
        </button>
        <button type="button" class="button" disabled={tall} onClick={withNumbers(async (tensor) => save(file("svg"), svgOf(await drawn(tensor), bitmapOf), "image/svg+xml"))}>
          SVG{cells > VECTOR_CELLS ? " with a bitmap" : ""}
        </button>
        <button type="button" class="button" onClick={withNumbers((tensor) => save(file("csv"), csvOf(row, tensor.values, manifest.axes), "text/csv"))}>
          CSV, all numbers
        </button>
        <button type="button" class="button" onClick={withNumbers((tensor) => save(file("npz"), npzOf([arrayOf(row, tensor.values)]), "application/zip"))}>
          NPZ for numpy, {bytes(4 * row.shape.reduce((a, b) => a * b, 1))}
        </button>
      </div>
      {tall && <p class="quiet">{count(Math.max(...row.shape.slice(-2)))} cells side by side are too many for a picture; take the numbers.</p>}
    </section>
  );
}

/** The address of this very place, its picture, step and pinned piece. */
function LinkHere({ app }: { app: App }) {
  const [copied, setCopied] = useState(false);
  const before = app.place.value;
  const link = `${location.href.replace(/#.*/, "")}#${written(linkOf(app))}`;
  const copy = () =>
    navigator.clipboard.writeText(link).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  return (
    <section class="panel stack" aria-label="Link">
      <h3>A link to here</h3>
      <p class="quiet">
        What is looked at stands behind the # and is not sent to a server. The link works where the same model is served, and in an exported file.
      </p>
      <div class="row">
        <input class="export-link mono" type="text" readOnly value={link} aria-label={`Link to ${before.view}`} onFocus={(event) => event.currentTarget.select()} />
        {"clipboard" in navigator && (
          <button type="button" class="button" onClick={copy}>
            {copied ? "Copied" : "Copy"}
          </button>
        )}
      </div>
    </section>
  );
}
