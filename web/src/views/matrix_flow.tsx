// Matrices side by side, with what happens between them.

import type { ComponentChildren } from "preact";
import { useApp } from "../hooks";
import type { App } from "../state";

interface FigureProps {
  /** What is done to get here from the one before. */
  sign?: string;
  /** How many columns have words above them, or numbers: how much room it needs. */
  words?: number;
  numbers?: number;
  says?: string;
  children: ComponentChildren;
}

export function Figure(props: FigureProps) {
  const app = useApp();
  const { sign, words = 0, numbers = 0, says } = props;
  const letters = lettersOf(app);
  const before = sign ? 22 + 9 * Math.min(sign.length, 14) : 0;
  const column = app.numbers.value ? 46 : (cellFor(app, words) ?? 22 * letters) / letters;
  const narrow = Math.min(512, Math.max(2 * numbers, Math.min(5 * numbers, 160)));
  const room = Math.round(letters * (before + Math.max(190, (words ? 125 : 80) + words * column + narrow)));
  const most = words ? `${Math.round(room * (words > 10 ? 1.05 : 1.25))}px` : undefined;
  return (
    <div class="flow-step" style={{ flexBasis: `${room}px`, maxWidth: most }}>
      {sign ? <span class="flow-sign">{sign}</span> : null}
      <div class="flow-matrix">
        {props.children}
        {says ? <p class="quiet">{says}</p> : null}
      </div>
    </div>
  );
}

/** Room for a matrix with this many rows of words; a longer one scrolls. */
export function heightFor(rows: number): number {
  return Math.min(760, 140 + 40 * rows);
}

/** Smaller cells for long sentences, so that two of their matrices fit side by side; else what the matrix chooses. */
export function cellFor(app: App, words: number): number | undefined {
  return words > MANY && !app.numbers.value ? 15 * lettersOf(app) : undefined;
}

const MANY = 16;

/** How much larger letters are before a class. */
function lettersOf(app: App): number {
  return app.mode.value === "teach" ? 1.35 : 1;
}
