// Entry points: the page of a server, a file, the widget of a notebook.
import { effect } from "@preact/signals";
import { render as draw } from "preact";
import { Page } from "./app";
import { engineSource } from "./engine_source";
import { AppContext } from "./hooks";
import { applyLink, openLink, readLink, syncAddress } from "./permalink";
import { servedSource } from "./served_source";
import { App, type Host } from "./state";
import { fileSource, httpSource, type WidgetModel, widgetSource } from "./trace_source";
import type { TraceSource } from "./types";
import network from "./network.css";
import page from "./page.css";
import phone from "./phone.css";
import shared from "./shared.css";
import study from "./study.css";
import theme from "./theme.css";
import translation from "./translation.css";

export { fileSource, httpSource, widgetSource };

/** Draws the page into `root`; gives back a function that removes it. */
export function mount(root: HTMLElement | ShadowRoot, source: TraceSource, options: { host: Host }): () => void {
  const link = options.host === "widget" ? null : readLink(location.hash);
  const app = new App(source, options.host);
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
  if (!link) void app.showTrace();
  else if (options.host === "page" && !location.hash) void app.openExample();
  else void openLink(app, link).then(() => app.openExample());
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

// Later sheets overrule earlier ones.
const STYLE = [theme, page, shared, network, translation, study, phone].join("\n");

/** Adopts the style sheets, so that the content policy needs no exception for a style element; gives back a function that removes them. */
function adoptStyle(root: Node): () => void {
  const owner = root.getRootNode();
  if (!(owner instanceof Document || owner instanceof ShadowRoot)) return () => undefined;
  const adopted = new CSSStyleSheet();
  adopted.replaceSync(STYLE);
  owner.adoptedStyleSheets = [...owner.adoptedStyleSheets, adopted];
  return () => {
    owner.adoptedStyleSheets = owner.adoptedStyleSheets.filter((other) => other !== adopted);
  };
}

const root = typeof document === "undefined" ? null : document.getElementById("pellucid");
if (root?.dataset.host === "page") mount(root, servedSource(httpSource()), { host: "page" });
else if (root?.dataset.host === "file") {
  const engine = engineSource(document);
  if (engine) Object.assign(window, { pellucid: engine.api });
  // With a model inside, a file is a page that translates, and links lead to what it is asked.
  mount(root, engine?.source ?? fileSource(document), { host: engine ? "page" : "file" });
}
