// The style of the page, adopted by the document or the shadow root it stands in; no style element, no exception to a policy.
import frame from "./frame.css";
import sheet from "./sheet.css";
import tokens from "./style.css";
import a from "./views/a.css";
import b from "./views/b.css";
import c from "./views/c.css";

const TEXT = [tokens, frame, sheet, a, b, c].join("\n");

/** Puts the style in, once for each place; gives back how to take it out. */
export function adoptStyle(root: Node): () => void {
  const place = root.getRootNode();
  if (!(place instanceof Document || place instanceof ShadowRoot)) return () => undefined;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(TEXT);
  place.adoptedStyleSheets = [...place.adoptedStyleSheets, sheet];
  return () => {
    place.adoptedStyleSheets = place.adoptedStyleSheets.filter((each) => each !== sheet);
  };
}
