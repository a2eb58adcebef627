// Matrices side by side, with what happens between them.

import type { ComponentChildren } from "preact";
import { useApp } from "../hooks";
import type { App } from "../state";

interface FlowStepProps {
  /** What is done to get here from the one before. */
  sign?: string;
  /** How many columns have words above them, or numbers: how much room it needs. */
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

/** Room for a matrix with this many rows of words; a longer one scrolls. */
export function chooseHeight(rows: number): number {
  return Math.min(760, 140 + 40 * rows);
}

/** Smaller cells for long sentences, so that two of their matrices fit side by side; else what the matrix chooses. */
export function chooseCellSize(app: App, words: number): number | undefined {
  return words > MANY_WORDS && !app.numbers.value ? 15 * getLetterScale(app) : undefined;
}

const MANY_WORDS = 16;

/** How much larger letters are before a class. */
function getLetterScale(app: App): number {
  return app.mode.value === "teach" ? 1.35 : 1;
}
