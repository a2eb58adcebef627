// The terms of a sum: operands, products and the running sum; every number links to its own cell.
import { useState } from "preact/hooks";
import { formatExact, formatNumber } from "../format";
import { useApp } from "../hooks";
import type { Operand, Sum, Term } from "../operands";
import { Piece, Strip, Value } from "../parts";

const SHOWN = 8; // largest terms in the table; all of them where there are hardly more
const FEW = 16;

export function SumTerms(props: { sum: Sum }) {
  const { sum } = props;
  const app = useApp();
  const [picked, setPicked] = useState(() => choosePicked(sum.terms));
  const current = Math.min(picked, sum.terms.length - 1);
  const hasPairs = sum.terms.some((term) => term.operands.length > 1);
  const openOperand = (operand: Operand | undefined) => operand && app.goTo(makeCellPlace(operand));
  const onKeyDown = (event: KeyboardEvent) => {
    const delta = { ArrowRight: 1, ArrowLeft: -1, Home: -current, End: sum.terms.length }[event.key];
    if (delta !== undefined) setPicked(Math.min(sum.terms.length - 1, Math.max(0, current + delta)));
    else if (event.key === "Enter" || event.key === " ") openOperand(sum.terms[current]?.operands[event.shiftKey ? 1 : 0]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const strips = sum.operandNames
    .map((name, operand) => ({ name, operand, values: sum.terms.map((term) => term.operands[operand]?.value ?? 0) }))
    .filter(({ values }) => values.some((value) => value !== values[0]));
  const rows = chooseRows(sum, current);
  return (
    <section class="panel sum-panel">
      <h3>{sum.caption}</h3>
      <WorkedLine sum={sum} at={current} />
      <div class="sum-layout">
        {sum.terms.length > 2 ? (
          <div
            class="strips"
            tabIndex={0}
            role="slider"
            aria-label={`terms: ${sum.caption}`}
            aria-valuemin={1}
            aria-valuemax={sum.terms.length}
            aria-valuenow={current + 1}
            aria-valuetext={app.hidden.value ? "hidden until Space" : describeTerm(sum, current)}
            onKeyDown={onKeyDown}
          >
            {strips.map(({ name, operand, values }) => (
              <Strip
                kind="bars"
                label={name}
                values={values}
                picked={current}
                onPick={setPicked}
                onOpen={(index) => openOperand(sum.terms[index]?.operands[operand])}
              />
            ))}
            {hasPairs || sum.termName !== sum.operandNames[0] ? (
              <Strip
                kind="bars"
                label={sum.termName}
                values={sum.terms.map((term) => term.value)}
                masked={sum.terms.map((term) => term.masked === true)}
                picked={current}
                onPick={setPicked}
                onOpen={(index) => openOperand(sum.terms[index]?.operands[0])}
              />
            ) : null}
            <Strip kind="sum" label="running sum" values={computeRunningSums(sum.terms)} picked={current} onPick={setPicked} />
          </div>
        ) : null}
        <table class="terms-table">
          <caption>{describeShown(sum.terms, current)}</caption>
          <thead>
            <tr>
              <th scope="col">at</th>
              {sum.operandNames.map((name) => (
                <th scope="col">{name}</th>
              ))}
              <th scope="col">{sum.termName}</th>
              <th scope="col">sum so far</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((index, i) => (
              <>
                <SkippedRow count={index - (rows[i - 1] ?? -1) - 1} columns={sum.operandNames.length + 3} />
                <TermRow sum={sum} at={index} picked={index === current} />
              </>
            ))}
            <SkippedRow count={sum.terms.length - 1 - (rows.at(-1) ?? 0)} columns={sum.operandNames.length + 3} />
          </tbody>
          <tfoot>
            <tr>
              <th scope="row" colSpan={sum.operandNames.length + 1}>
                sum of all {sum.terms.length}
              </th>
              <td colSpan={2}>
                <Value shown={formatExact(sum.value)} />
              </td>
            </tr>
          </tfoot>
        </table>
      </div>
    </section>
  );
}

/** Says how one term is computed and what it adds to, in one line. */
function WorkedLine(props: { sum: Sum; at: number }) {
  const { sum, at } = props;
  const term = sum.terms[at];
  if (!term) return null;
  const before = computeRunningSums(sum.terms)[at - 1] ?? 0;
  const [first, second] = term.operands;
  const isProduct = first && second && Math.abs(first.value * second.value - term.value) <= 1e-6 * Math.abs(term.value);
  const others = sum.terms.length - 1;
  return (
    <p class="worked-line">
      At <Piece text={term.label} />:{" "}
      {term.masked ? (
        "masked, so nothing is added"
      ) : (
        <>
          {isProduct ? (
            <>
              <ShownNumber value={first.value} /> × <ShownNumber value={second.value} /> = <ShownNumber value={term.value} />
            </>
          ) : (
            <>
              {sum.termName} <ShownNumber value={term.value} />
            </>
          )}
          {at === 0 ? ", the first to be added" : <>, added to <ShownNumber value={before} /> makes <ShownNumber value={before + term.value} /></>}
        </>
      )}
      {others > 0 && (
        <>
          ; all {sum.terms.length} together make <ShownNumber value={sum.value} />
        </>
      )}
      .
    </p>
  );
}

function ShownNumber(props: { value: number }) {
  return <Value shown={formatNumber(props.value)} exact={formatExact(props.value)} />;
}

/** Stands for the terms between two rows of the table. */
function SkippedRow(props: { count: number; columns: number }) {
  if (props.count <= 0) return null;
  return (
    <tr class="skipped-terms quiet">
      <td colSpan={props.columns}>… {props.count === 1 ? "1 smaller term" : `${props.count} smaller terms`} …</td>
    </tr>
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
      {props.sum.operandNames.map((_, i) => (
        <td>{term.operands[i] ? <OperandButton operand={term.operands[i]} /> : null}</td>
      ))}
      <td>
        {term.masked ? "masked" : <Value shown={formatNumber(term.value)} exact={formatExact(term.value)} />}
      </td>
      <td class="quiet">
        <Value shown={formatNumber(computeRunningSums(props.sum.terms)[props.at] ?? 0)} />
      </td>
    </tr>
  );
}

/** Shows a number as a button that opens its own cell. */
export function OperandButton(props: { operand: Operand; named?: boolean }) {
  const app = useApp();
  const { operand } = props;
  const address = `${operand.name}[${operand.index.join(", ")}]`;
  const value = app.hidden.value ? "hidden until Space" : formatExact(operand.value);
  return (
    <button
      type="button"
      class={`operand operand-${operand.from}`}
      title={`${address} = ${value}`}
      aria-label={`${address} ${app.hidden.value ? "?" : formatNumber(operand.value)}, exactly ${value}: open`}
      onClick={() => app.goTo(makeCellPlace(operand))}
    >
      {props.named ? <span class="quiet">{address} </span> : null}
      <Value shown={formatNumber(operand.value)} />
    </button>
  );
}

/** Makes the place where a number is explained. */
export function makeCellPlace(operand: { name: string; index: number[] }) {
  return { view: "cell" as const, tensor: operand.name, index: operand.index };
}

function describeShown(terms: Term[], picked: number): string {
  if (terms.length <= FEW) return "term by term, in the order they are added";
  const isAmongLargest = sortBySize(terms).slice(0, SHOWN).includes(picked);
  return `the ${SHOWN} largest of ${terms.length}${isAmongLargest ? "" : " and the one picked"}, in the order they are added`;
}

/** Chooses the term that is picked at first: the cell's own, else the largest. */
function choosePicked(terms: Term[]): number {
  const ownIndex = terms.findIndex((term) => term.own);
  return ownIndex < 0 ? (sortBySize(terms)[0] ?? 0) : ownIndex;
}

function sortBySize(terms: Term[]): number[] {
  const order = terms.map((_, i) => i);
  return order.sort((one, other) => Math.abs(terms[other]?.value ?? 0) - Math.abs(terms[one]?.value ?? 0));
}

/** Chooses the largest terms and the one picked, in the order they are added, so that the running sum can be followed. */
function chooseRows(sum: Sum, picked: number): number[] {
  if (sum.terms.length <= FEW) return sum.terms.map((_, i) => i);
  const top = sortBySize(sum.terms).slice(0, SHOWN);
  return [...new Set([...top, picked])].sort((one, other) => one - other);
}

function computeRunningSums(terms: Term[]): number[] {
  let sum = 0;
  return terms.map((term) => (sum += term.value));
}

function describeTerm(sum: Sum, index: number): string {
  const term = sum.terms[index] as Term;
  const numbers = term.operands.map((operand, i) => `${sum.operandNames[i]} ${formatNumber(operand.value)}`).join(", ");
  return `${term.label}: ${numbers}, ${sum.termName} ${term.masked ? "masked" : formatNumber(term.value)}`;
}
