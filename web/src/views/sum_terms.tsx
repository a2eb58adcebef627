// A sum laid open: its operands, its products and how it grows, with every number a way back to its own cell.

import { useState } from "preact/hooks";
import type { Operand, Sum, Term } from "../cell_terms";
import { figure } from "../format";
import { useApp } from "../hooks";
import { Piece } from "../piece";
import { exact } from "../readout";
import { Strip } from "./number_strip";
import { Value } from "./values";

const SHOWN = 8; // largest terms in the table; all of them where there are hardly more
const FEW = 16;

export function Terms(props: { sum: Sum }) {
  const { sum } = props;
  const app = useApp();
  const [picked, setPicked] = useState(() => firstPicked(sum.terms));
  const place = Math.min(picked, sum.terms.length - 1);
  const pair = sum.terms.some((term) => term.operands.length > 1);
  const open = (operand: Operand | undefined) => operand && app.go(cellOf(operand));
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -place, End: sum.terms.length }[event.key];
    if (by !== undefined) setPicked(Math.min(sum.terms.length - 1, Math.max(0, place + by)));
    else if (event.key === "Enter" || event.key === " ") open(sum.terms[place]?.operands[event.shiftKey ? 1 : 0]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const strips = sum.operands
    .map((name, operand) => ({ name, operand, values: sum.terms.map((term) => term.operands[operand]?.value ?? 0) }))
    .filter(({ values }) => values.some((value) => value !== values[0]));
  return (
    <section class="panel sum-panel">
      <h3>{sum.says}</h3>
      <div class="sum-layout">
        {sum.terms.length > 2 ? (
        <div
          class="strips"
          tabIndex={0}
          role="slider"
          aria-label={`terms: ${sum.says}`}
          aria-valuemin={1}
          aria-valuemax={sum.terms.length}
          aria-valuenow={place + 1}
          aria-valuetext={app.hidden.value ? "hidden until Space" : spoken(sum, place)}
          onKeyDown={move}
        >
          {strips.map(({ name, operand, values }) => (
            <Strip
              kind="bars"
              label={name}
              values={values}
              picked={place}
              onPick={setPicked}
              onOpen={(at) => open(sum.terms[at]?.operands[operand])}
            />
          ))}
          {pair || sum.term !== sum.operands[0] ? (
            <Strip
              kind="bars"
              label={sum.term}
              values={sum.terms.map((term) => term.value)}
              masked={sum.terms.map((term) => term.masked === true)}
              picked={place}
              onPick={setPicked}
              onOpen={(at) => open(sum.terms[at]?.operands[0])}
            />
          ) : null}
          <Strip kind="sum" label="running sum" values={running(sum.terms)} picked={place} onPick={setPicked} />
        </div>
      ) : null}
      <table class="terms-table">
        <caption>{captionOf(sum.terms.length)}</caption>
        <thead>
          <tr>
            <th scope="col">at</th>
            {sum.operands.map((name) => (
              <th scope="col">{name}</th>
            ))}
            <th scope="col">{sum.term}</th>
            <th scope="col">sum so far</th>
          </tr>
        </thead>
        <tbody>
          {rowsShown(sum, place).map((at) => (
            <TermRow sum={sum} at={at} picked={at === place} />
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={sum.operands.length + 1}>
              sum of all {sum.terms.length}
            </th>
            <td colSpan={2}>
              <Value shown={exact(sum.value)} />
            </td>
          </tr>
        </tfoot>
      </table>
      </div>
    </section>
  );
}

function TermRow(props: { sum: Sum; at: number; picked: boolean }) {
  const term = props.sum.terms[props.at] as Term;
  return (
    <tr class={[props.picked ? "picked-row" : "", term.own ? "own-term" : ""].join(" ")}>
      <th scope="row">
        <Piece text={term.label} />
        {term.own ? <span class="quiet"> ← this cell</span> : null}
      </th>
      {props.sum.operands.map((_, i) => (
        <td>{term.operands[i] ? <OperandButton operand={term.operands[i]} /> : null}</td>
      ))}
      <td>
        {term.masked ? "masked" : <Value shown={figure(term.value)} exact={exact(term.value)} />}
      </td>
      <td class="quiet">
        <Value shown={figure(running(props.sum.terms)[props.at] ?? 0)} />
      </td>
    </tr>
  );
}

/** A number that leads to its own cell. */
export function OperandButton(props: { operand: Operand; named?: boolean }) {
  const app = useApp();
  const { operand } = props;
  const where = `${operand.name}[${operand.index.join(", ")}]`;
  const value = app.hidden.value ? "hidden until Space" : exact(operand.value);
  return (
    <button
      type="button"
      class={`operand operand-${operand.from}`}
      title={`${where} = ${value}`}
      aria-label={`${where}, ${value}: open`}
      onClick={() => app.go(cellOf(operand))}
    >
      {props.named ? <span class="quiet">{where} </span> : null}
      <Value shown={figure(operand.value)} />
    </button>
  );
}

/** The place where a number is explained. */
export function cellOf(operand: { name: string; index: number[] }) {
  return { view: "cell" as const, tensor: operand.name, index: operand.index };
}

function captionOf(terms: number): string {
  return terms > FEW ? `the ${SHOWN} largest of ${terms} and the one picked out` : "term by term";
}

/** The term of the cell itself, else the largest. */
function firstPicked(terms: Term[]): number {
  const own = terms.findIndex((term) => term.own);
  return own < 0 ? (largest(terms)[0] ?? 0) : own;
}

function largest(terms: Term[]): number[] {
  const order = terms.map((_, i) => i);
  return order.sort((a, b) => Math.abs(terms[b]?.value ?? 0) - Math.abs(terms[a]?.value ?? 0));
}

function rowsShown(sum: Sum, picked: number): number[] {
  if (sum.terms.length <= FEW) return sum.terms.map((_, i) => i);
  const top = largest(sum.terms).slice(0, SHOWN);
  return top.includes(picked) ? top : [...top, picked];
}

function running(terms: Term[]): number[] {
  let sum = 0;
  return terms.map((term) => (sum += term.value));
}

function spoken(sum: Sum, at: number): string {
  const term = sum.terms[at] as Term;
  const numbers = term.operands.map((operand, i) => `${sum.operands[i]} ${figure(operand.value)}`).join(", ");
  return `${term.label}: ${numbers}, ${sum.term} ${term.masked ? "masked" : figure(term.value)}`;
}
