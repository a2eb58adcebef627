// The ways in: the page of a server, one file, the widget of a notebook.
import { render as draw } from "preact";
import { Page } from "./app";
import { follow, keepAddress, questionOf, read } from "./permalink";
import { fileSource, type HttpSource, httpSource, type WidgetModel, widgetSource } from "./source";
import { AppContext, type Host, makeApp } from "./state";
import { adoptStyle } from "./style";
import type { TraceSource } from "./types";

export { fileSource, httpSource, widgetSource };

/** Draws the page into `root`; gives back how to take it away again. */
export function mount(root: HTMLElement | ShadowRoot, source: TraceSource, options: { host: Host }): () => void {
  const link = options.host === "widget" ? null : read(location.hash);
  const begin = source.kind !== "http" || (source as HttpSource).id !== null;
  const app = makeApp(source, options.host);
  if (link) follow(app, link);
  if (app.story.value === null && !location.hash && options.host !== "widget") app.story.value = 1;
  const forget = adoptStyle(root);
  const leave = options.host === "widget" ? () => undefined : keepAddress(app);
  draw(
    <AppContext.Provider value={app}>
      <Page />
    </AppContext.Provider>,
    root,
  );
  const question = link && questionOf(link);
  if (begin) void app.begin(question);
  else if (question) void app.ask("trace", question);
  return () => {
    draw(null, root);
    forget();
    leave();
  };
}

/** What anywidget calls for each view of the widget. */
function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  return mount(el, widgetSource(model), { host: "widget" });
}

export default { render };

const root = typeof document === "undefined" ? null : document.getElementById("pellucid");
if (root?.dataset.host === "page")
  mount(root, httpSource("", read(location.hash).trace ?? root.dataset.trace ?? null), { host: "page" });
else if (root?.dataset.host === "file") mount(root, fileSource(document), { host: "file" });
