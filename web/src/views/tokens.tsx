// From text to numbers: the sentence as written, normalised, in pieces, and with the id of each piece.
import { formatQuantity, quotePiece } from "../format";
import { useApp } from "../hooks";
import { listWords } from "../network";
import { markSpot } from "../spots";
import type { App } from "../state";
import type { Side } from "../types";

const MANY_PIECES = 4; // from here on a word is worth a warning

export function TokensView() {
  const app = useApp();
  const manifest = app.manifest.value;
  if (!manifest) return null;
  const targetTitle = manifest.forced ? "Target (given)" : "Target (written by the model)";
  return (
    <div class="stack tokens-body">
      <SidePanel app={app} side={manifest.source} title="Source" dim="S" />
      <SidePanel app={app} side={manifest.target} title={targetTitle} dim={null} />
      <p class="quiet">
        The decoder reads its own text one position later, after BOS, the start token:{" "}
        {manifest.inputs.pieces.map((piece) => quotePiece(piece)).join(" ")}. So row 0 of every decoder picture is the start token, and at
        that row the model writes {quotePiece(manifest.target.pieces[0])}.
      </p>
    </div>
  );
}

function SidePanel({ app, side, title, dim }: { app: App; side: Side; title: string; dim: "S" | null }) {
  return (
    <section class="panel stack" aria-label={title} data-subject={dim === "S" ? "pieces" : undefined}>
      <h2>{title}</h2>
      <dl class="token-stages">
        <dt>As written</dt>
        <dd class="token-text">{side.text}</dd>
        <dt>Normalised</dt>
        <dd class="token-text">{side.normalised === side.text ? <span class="quiet">the same</span> : side.normalised}</dd>
        <dt>
          Pieces <span class="quiet">and ids</span>
        </dt>
        <dd>
          <ol class="token-words">
            {groupPieces(side).map((word) => (
              <li class={`token-word${word.pieces.length >= MANY_PIECES ? " token-word-many" : ""}`} key={word.pieces[0]}>
                <span class="token-word-text quiet">{word.text}</span>
                <span class="row token-pieces">
                  {word.pieces.map((index) => (
                    <PieceButton app={app} side={side} index={index} dim={dim} />
                  ))}
                </span>
              </li>
            ))}
          </ol>
        </dd>
      </dl>
      {!!side.context && <p class="quiet">The first {formatQuantity(side.context, "piece")} are the sentence before, up to {quotePiece(side.pieces[side.context - 1])}: read, but not translated.</p>}
      <ul class="token-warnings">
        {listWarnings(side).map((warning) => (
          <li>{warning}</li>
        ))}
      </ul>
    </section>
  );
}

function PieceButton({ app, side, index, dim }: { app: App; side: Side; index: number; dim: "S" | null }) {
  const unknown = side.unknown[index];
  const follow = app.followed.value;
  const pinned = dim !== null && follow?.dim === dim && follow.index === index;
  const kind = `token-piece${unknown ? " token-unknown" : ""}`;
  const current = dim === null ? app.step.value === index : pinned;
  const pick = () => {
    if (dim === null) app.step.value = index;
    else app.followed.value = pinned ? null : { dim, index };
  };
  return (
    <button type="button" class={kind} aria-pressed={current} onClick={pick} {...(dim === "S" && markSpot(app, "pieces", index))}>
      <span class="token-piece-text">{side.pieces[index]}</span>
      <span class="unseen">, id</span>
      <span class="token-id mono">{side.ids[index]}</span>
      <span class="unseen">
        {unknown ? ", not covered by a piece of its own" : ""}
        {dim === null ? ": go to its step" : ""}
      </span>
    </button>
  );
}

/** Groups the pieces of each word, in the order of the sentence; special tokens stand alone. */
export function groupPieces(side: Side): { word: number | null; text: string; pieces: number[] }[] {
  const words = listWords(side);
  const groups: { word: number | null; text: string; pieces: number[] }[] = [];
  side.pieces.forEach((_, index) => {
    const word = side.words[index] ?? null;
    const previous = groups.at(-1);
    if (previous && word !== null && previous.word === word) previous.pieces.push(index);
    else groups.push({ word, text: word === null ? "special" : (words[word] ?? ""), pieces: [index] });
  });
  return groups;
}

/** Lists signs of a bad translation that the pieces already show: words in many pieces, characters without a piece. */
export function listWarnings(side: Side): string[] {
  const splitWords = groupPieces(side)
    .filter((word) => word.pieces.length >= MANY_PIECES)
    .map((word) => `The word “${word.text}” became ${formatQuantity(word.pieces.length, "piece")}: the vocabulary has no larger parts of it.`);
  const unknownPieces = side.pieces.filter((_, index) => side.unknown[index]);
  const unknown = unknownPieces.length
    ? [`${formatQuantity(unknownPieces.length, "piece")} (${unknownPieces.slice(0, 8).join(" ")}${unknownPieces.length > 8 ? " …" : ""}) stand for characters that have no piece of their own.`]
    : [];
  return [...splitWords, ...unknown];
}
