// The style sheets of the page, adopted by its document or shadow root: without a style element, the content policy needs no exception.
import page from "./page.css";
import sheet from "./sheet.css";
import theme from "./theme.css";
import align from "./views/align.css";
import beam from "./views/beam.css";
import cell from "./views/cell.css";
import charts from "./views/charts.css";
import claims from "./views/claims.css";
import heads from "./views/heads.css";
import map from "./views/map.css";
import matrices from "./views/matrices.css";
import output from "./views/output.css";
import shared from "./views/shared.css";
import story from "./views/story.css";
import tokens from "./views/tokens.css";
import verdict from "./views/verdict.css";
import words from "./views/words.css";

// Later sheets overrule earlier ones.
const TEXT = [theme, page, sheet, map, matrices, cell, shared, story, tokens, charts, output, beam, heads, align, verdict, claims, words].join("\n");

/** Adopts the style sheets; gives back a function that removes them. */
export function adoptStyle(root: Node): () => void {
  const owner = root.getRootNode();
  if (!(owner instanceof Document || owner instanceof ShadowRoot)) return () => undefined;
  const adopted = new CSSStyleSheet();
  adopted.replaceSync(TEXT);
  owner.adoptedStyleSheets = [...owner.adoptedStyleSheets, adopted];
  return () => {
    owner.adoptedStyleSheets = owner.adoptedStyleSheets.filter((other) => other !== adopted);
  };
}
