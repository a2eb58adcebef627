// The column of pieces that the encoder and the decoder read; a pressed piece is outlined wherever it occurs.
import { toggleFollow } from "./followed_piece";
import { useApp } from "./hooks";
import { Piece } from "./piece";
import type { Manifest } from "./types";

export function PieceColumn(props: { manifest: Manifest }) {
  const app = useApp();
  const { source, inputs } = props.manifest;
  return (
    <aside class="side" aria-label="Pieces">
      <Pieces title="Source" dim="S" pieces={source.pieces} unknown={source.unknown} />
      <Pieces title="Decoder reads" dim="T" pieces={inputs.pieces} current={app.step.value} />
      <p class="quiet hint">Click a piece to follow it through every picture; press Esc to stop.</p>
    </aside>
  );
}

function Pieces(props: { title: string; dim: "S" | "T"; pieces: string[]; unknown?: boolean[]; current?: number }) {
  const app = useApp();
  const follow = app.followed.value;
  return (
    <section>
      <h2>{props.title}</h2>
      <ol>
        {props.pieces.map((piece, index) => {
          const isFollowed = follow?.dim === props.dim && follow.index === index;
          const marks = [props.current === index ? "current" : "", props.unknown?.[index] ? "unknown" : ""];
          return (
            <li key={`${index} ${piece}`}>
              <button
                type="button"
                class={["piece", ...marks].join(" ")}
                aria-pressed={isFollowed}
                title={props.unknown?.[index] ? "unknown to the model" : undefined}
                onClick={() => toggleFollow(app, { dim: props.dim, size: props.pieces.length }, index)}
              >
                <span class="pointer" aria-hidden="true">
                  {isFollowed ? "▸" : ""}
                </span>
                <Piece text={piece} />
              </button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
