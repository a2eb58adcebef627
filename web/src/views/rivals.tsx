// What the search finished and did not choose: each can be compared with the translation, so that the room is not
// empty.
import { formatNumber } from "../format";
import { useApp } from "../hooks";
import { Value } from "../parts";
import type { Manifest, TreeNode } from "../types";
import { findPath, openCandidate } from "./beam";
import { spellPieces } from "./candidates";

const SHOWN = 5;

/** Lists the finished candidates of the search beside the translation, the best first. */
export function Rivals({ manifest }: { manifest: Manifest }) {
  const app = useApp();
  const { tree } = manifest;
  const rivals = tree ? listRivals(tree.nodes) : [];
  if (!tree || !app.source.act || !rivals.length) return null;
  const spell = (node: TreeNode) => spellPieces(findPath(tree, node.id).slice(0, -1).map((each) => each.piece)); // without EOS
  return (
    <section class="panel stack" aria-label="What the search also finished">
      <h3>What the search also finished</h3>
      <p>The translation has the score {formatNumber(manifest.score)}. Click another to see both side by side.</p>
      <ul class="stack">
        {rivals.slice(0, SHOWN).map((node) => (
          <li key={node.id}>
            <button
              type="button"
              class="button"
              lang={manifest.languages?.target}
              disabled={app.busy.value !== null}
              onClick={() => void openCandidate(app, { manifest, tree }, manifest, node)}
            >
              {spell(node)}
            </button>{" "}
            <span class="quiet">
              score <Value shown={formatNumber(node.score)} exact={String(node.score)} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Lists the finished candidates that did not win, the best score first. */
export function listRivals(nodes: readonly TreeNode[]): TreeNode[] {
  return nodes.filter((node) => node.fate === "finished" && !node.best).sort((one, other) => other.score - one.score);
}
