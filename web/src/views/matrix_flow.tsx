// Matrices side by side, with the operations between them.

import type { ComponentChildren } from "preact";
import { useApp } from "../hooks";
import type { App } from "../state";

interface FlowStepProps {
  /** Operation that leads here from the matrix before. */
  sign?: string;
  /** Number of columns with words above them, and with numbers: they decide how much room is needed. */
  words?: number;
  numbers?: number;
  caption?: string;
  children: ComponentChildren;
}

export function FlowStep(props: FlowStepProps) {
  const app = useApp();
  const { sign, words = 0, numbers = 0, caption } = props;
  const letterScale = getLetterScale(app);
  const before = sign ? 22 + 9 * Math.min(sign.length, 14) : 0;
  const column = app.numbers.value ? 46 : (chooseCellSize(app, words) ?? 22 * letterScale) / letterScale;
  const narrow = Math.min(512, Math.max(2 * numbers, Math.min(5 * numbers, 160)));
  const room = Math.round(letterScale * (before + Math.max(190, (words ? 125 : 80) + words * column + narrow)));
  const maxWidth = words ? `${Math.round(room * (words > 10 ? 1.05 : 1.25))}px` : undefined;
  return (
    <div class="flow-step" style={{ flexBasis: `${room}px`, maxWidth }}>
      {sign ? <span class="flow-sign">{sign}</span> : null}
      <div class="flow-matrix">
        {props.children}
        {caption ? <p class="quiet">{caption}</p> : null}
      </div>
    </div>
  );
}

/** Chooses the height of a matrix with this many rows of words; a longer one scrolls. */
export function chooseHeight(rows: number): number {
  return Math.min(760, 140 + 40 * rows);
}

/** Chooses smaller cells for long sentences, so that two matrices fit side by side; otherwise leaves it to the matrix. */
export function chooseCellSize(app: App, words: number): number | undefined {
  return words > MANY_WORDS && !app.numbers.value ? 15 * getLetterScale(app) : undefined;
}

const MANY_WORDS = 16;

/** Gets how much larger letters are in teach mode. */
function getLetterScale(app: App): number {
  return app.mode.value === "teach" ? 1.35 : 1;
}
