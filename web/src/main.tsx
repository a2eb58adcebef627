// Entry points: the page of a server, a file, the widget of a notebook.
import { effect } from "@preact/signals";
import { render as draw } from "preact";
import { Page } from "./app";
import { AppContext } from "./hooks";
import { applyLink, openLink, readLink, syncAddress } from "./permalink";
import { type App, type Host, makeApp } from "./state";
import { adoptStyle } from "./style_sheets";
import { fileSource, httpSource, type WidgetModel, widgetSource } from "./trace_source";
import type { TraceSource } from "./types";

export { fileSource, httpSource, widgetSource };

/** Draws the page into `root`; gives back a function that removes it. */
export function mount(root: HTMLElement | ShadowRoot, source: TraceSource, options: { host: Host }): () => void {
  const link = options.host === "widget" ? null : readLink(location.hash);
  const app = makeApp(source, options.host);
  if (link) applyLink(app, link);
  if (app.story.value === null && !location.hash && options.host !== "widget") app.story.value = 1;
  const removeStyle = adoptStyle(root);
  const stopAddress = options.host === "widget" ? () => undefined : syncAddress(app);
  const stopTitle = options.host === "widget" ? () => undefined : keepTitle(app);
  draw(
    <AppContext.Provider value={app}>
      <Page />
    </AppContext.Provider>,
    root,
  );
  if (link) void openLink(app, link);
  else void app.showTrace();
  return () => {
    draw(null, root);
    removeStyle();
    stopAddress();
    stopTitle();
  };
}

/** Keeps the title of the tab up to date with the sentence and the model; gives back a function that stops it. */
function keepTitle(app: App): () => void {
  return effect(() => {
    const manifest = app.manifest.value;
    if (manifest) document.title = `${manifest.sentence.trim()} · ${manifest.model.name} · Pellucid`;
  });
}

/** Draws one view of the widget; called by anywidget. */
function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  return mount(el, widgetSource(model), { host: "widget" });
}

export default { render };

const root = typeof document === "undefined" ? null : document.getElementById("pellucid");
if (root?.dataset.host === "page")
  mount(root, httpSource(), { host: "page" });
else if (root?.dataset.host === "file") mount(root, fileSource(document), { host: "file" });
