// The controls of the play, and the parts of pictures that move with it: light behind pieces, the frame in every head, growing bars.
import type { RefObject } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { useApp, usePainter, useTensor } from "./hooks";
import { averageHeads, makePattern } from "./measures";
import { easeWithin, GROWING, READING, setStyle, WRITING } from "./play";
import { findLastCross } from "./play_line";
import type { Tensor } from "./trace_cache";

export function PlayButton() {
  const { player } = useApp();
  const isPlaying = player.state.value === "playing";
  return (
    <button type="button" class="button play-button" aria-keyshortcuts="k" aria-pressed={isPlaying} onClick={() => player.toggle()}>
      {isPlaying ? "❚❚ Pause" : "▶ Play"}
    </button>
  );
}

const LIT = "Lit: the source pieces that the last layer reads most, averaged over its heads. K pauses, comma and full stop go from step to step.";

/** A line that fills while the play goes on, on which it can be moved; shown once the play has begun. */
export function PlayBar() {
  const app = useApp();
  const { player } = app;
  const filled = useRef<HTMLSpanElement>(null);
  const [, setMoved] = useState(0);
  const rows = app.manifest.value?.axes[app.stage.getDim()]?.size ?? 1;
  usePainter(filled, () => filled.current && setStyle(filled.current, "transform", `scaleX(${player.getPlayhead() / rows})`));
  if (player.state.value === "off") return null;
  const onInput = (event: { currentTarget: HTMLInputElement }) => {
    player.seek(event.currentTarget.valueAsNumber);
    setMoved(player.getPlayhead()); // the handle stands where it was put
  };
  return (
    <div class="play-bar">
      <label class="play-track" title={LIT}>
        <span class="unseen">Place in the play. {LIT}</span>
        <span ref={filled} class="play-filled" />
        <input type="range" min={0} max={rows} step={0.05} value={player.getPlayhead()} onInput={onInput} />
      </label>
      <button type="button" class="link" onClick={() => player.stop()}>
        End the play
      </button>
    </div>
  );
}

/** Lights up behind a source piece by how much the last cross-attention reads it, compared with the piece that it reads most. */
export function ReadingLight({ position }: { position: number }) {
  const app = useApp();
  return app.player.state.value === "off" || app.hidden.value ? null : <LightBehind position={position} />;
}

function LightBehind({ position }: { position: number }) {
  const app = useApp();
  const manifest = app.manifest.value;
  const light = useRef<HTMLSpanElement>(null);
  const name = manifest ? findLastCross(manifest)?.pattern : undefined;
  const loaded = useTensor(name ?? "");
  const lights = useMemo(() => (loaded.state === "ready" ? computeLights(loaded.value, position) : []), [loaded.state, name, manifest?.id]);
  usePainter(light, (frame) => {
    if (!light.current) return;
    const getLight = (step: number) => lights[step] ?? 0;
    const isOfSteps = frame?.dim === "T";
    const moved = isOfSteps ? easeWithin(READING, frame.share) : 0;
    const opacity = isOfSteps ? getLight(frame.row - 1) * (1 - moved) + getLight(frame.row) * moved : 0;
    setStyle(light.current, "opacity", opacity.toFixed(3));
  });
  return <span ref={light} class="reading-light" aria-hidden="true" />;
}

/** Computes for each step how much a piece is read, as a share of what the most-read piece gets; averaged over the heads. */
function computeLights({ values, row }: Tensor, position: number): number[] {
  const pattern = makePattern(values, row.shape);
  const { queries, keys } = pattern;
  const mean = averageHeads(pattern);
  return Array.from({ length: queries }, (_, query) => {
    const weights = mean.subarray(query * keys, (query + 1) * keys);
    return (weights[position] ?? 0) / Math.max(...weights);
  });
}

/** Frames the row of a head's thumbnail that is looked at; while the play goes on, the frame moves from row to row. */
export function RowMark({ dim, rows }: { dim: string; rows: number }) {
  const app = useApp();
  const mark = useRef<HTMLSpanElement>(null);
  usePainter(mark, (frame) => {
    if (!mark.current) return;
    const followed = app.followed.value?.dim === dim ? app.followed.value.index : null;
    const row = followed ?? (dim === "T" ? app.step.value : null);
    const isPlayed = frame?.dim === dim;
    const place = isPlayed ? Math.max(0, frame.row - 1 + easeWithin(READING, frame.share)) : row;
    setStyle(mark.current, "opacity", place === null ? "0" : "1");
    // Not a transform: over a hundred moving layers take longer to put together than a hundred frames to lay out.
    if (place !== null) setStyle(mark.current, "top", `${((100 * place) / rows).toFixed(4)}%`);
  });
  return <span ref={mark} class="head-row-mark" style={{ height: `${100 / rows}%` }} />;
}

/** Lets the bars inside an element grow from nothing to their length while a step is played; what is `revealed` then appears. */
export function useGrowth(box: RefObject<HTMLElement | null>, revealed: string, bars = ""): void {
  usePainter(box, (frame) => {
    const isOfStep = frame?.dim === "T";
    const grown = isOfStep ? easeWithin(GROWING, frame.share).toFixed(3) : null;
    const shown = isOfStep ? easeWithin(WRITING, frame.share).toFixed(3) : "";
    for (const bar of (bars && box.current?.querySelectorAll(bars)) || []) setStyle(bar, "transform", grown === null ? "" : `scaleX(${grown})`);
    for (const element of box.current?.querySelectorAll(revealed) ?? []) setStyle(element, "opacity", shown);
  });
}
