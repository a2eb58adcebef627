// Formulas as MathML elements, written in a small notation; and the formula of each kind of operation.

import { h, type JSX } from "preact";
import type { Ink } from "./format";
import type { Op } from "./types";

/** A formula, or a piece of one in the notation of `line`. */
type Formula = JSX.Element | string;

/**
 * Sets words that are separated by spaces side by side: `line("K^T / d_k")`. A word is a number, a name or a sign; `_` makes the
 * rest of it a subscript, `^` a superscript, braces keep several words together: `x_{p,2i}`. Plain words stand in double quotes.
 */
export function line(...parts: Formula[]): JSX.Element {
  return h("mrow", null, parts.flatMap((part) => (typeof part === "string" ? makeWords(part) : [part])));
}

export function fraction(over: Formula, under: Formula): JSX.Element {
  return h("mfrac", null, line(over), line(under));
}

export function root(inside: Formula): JSX.Element {
  return h("msqrt", null, line(inside));
}

/** Makes the sign of a sum or product with its index beneath. */
export function over(sign: "∑" | "∏", index: Formula): JSX.Element {
  return h("munder", null, h("mo", null, sign), line(index));
}

export function power(base: Formula, exponent: Formula): JSX.Element {
  return h("msup", null, line(base), line(exponent));
}

/** Makes a part of a formula in the colour of queries, keys or values. */
export function inked(ink: Ink, formula: Formula): JSX.Element {
  return h("mrow", { class: `ink-${ink}` }, line(formula));
}

/** Displays formulas as a block, each on a line of its own. */
export function display(...lines: Formula[]): JSX.Element {
  return h(
    "div",
    { class: "formula", tabIndex: 0, role: "group", "aria-label": "formula" }, // it may scroll sideways
    lines.map((formula) => h("math", { display: "block" }, line(formula))),
  );
}

/** Makes the formula of an operation, with index letters p, q, k for positions and d, e, i, j for numbers of a vector. */
export function makeFormula(op: Op): JSX.Element {
  switch (op.kind) {
    case "lookup":
      return display(line("x_{p,d} =", makeRootOrNumber(op.scale), "· table [ id_p , d ]"));
    case "sinusoid": {
      const angle = fraction("p", power("10000", "2 i / D"));
      return display(line("x_{p,2i} = sin (", angle, ")"), line("x_{p,2i+1} = cos (", angle, ")"));
    }
    case "row":
      return display("x_{p,d} = table [ p , d ]");
    case "add":
      return display(line("x =", op.inputs.map(makeShortName).join(" + ")));
    case "norm":
      if (op.rms) return display(line("y =", fraction("x", root(line("mean ( x^2 ) +", String(op.eps)))), "· γ"));
      return display(line("y =", fraction("x - μ", root(line("σ^2 +", String(op.eps)))), "· γ + β"));
    case "linear":
      return display(line("y_{p,j} =", over("∑", "i"), "x_{p,i} W_{j,i}", op.bias === null ? "" : "+ b_j"));
    case "dot":
      return display(line("s_{q,k} =", over("∑", "e"), "q_{q,e} k_{k,e}"));
    case "scale":
      return display(
        line(
          "s_{q,k} =",
          fraction(makeShortName(op.inputs[0]), makeRootOrNumber(op.divisor)),
          op.inputs[1] ? `+ ${makeShortName(op.inputs[1])}` : "",
        ),
      );
    case "present":
      return display('a_k = 1 "for every piece"');
    case "causal":
      return display('a_{q,k} = 1 "where" k ≤ q , "else" 0');
    case "softmax":
      return display(
        line("α_{q,k} =", fraction(power("e", "s_{q,k}"), line(over("∑", '"allowed" j'), power("e", "s_{q,j}")))),
      );
    case "mix":
      return display(line("z_{q,e} =", over("∑", "k"), "α_{q,k} v_{k,e}"));
    case "activation":
      return display(ACTIVATIONS[op.function]);
    case "same":
      return display("y = x");
    case "given":
      return display('"given by the model"');
  }
}

const ACTIVATIONS: Record<Extract<Op, { kind: "activation" }>["function"], string> = {
  relu: "y = max ( 0 , x )",
  gelu: "y = x · Φ ( x )",
  silu: "y = x · sigmoid ( x )",
  swiglu: "y_j = x_j · sigmoid ( x_j ) · x_{F+j}",
};

/** Writes a number as the square root of an integer where it is one: 5.6568542 is √32. */
export function makeRootOrNumber(value: number): Formula {
  const square = Math.round(value * value);
  const isInteger = Number.isInteger(value);
  return !isInteger && Math.abs(Math.sqrt(square) - value) < 1e-6 * value ? root(String(square)) : String(value);
}

function makeShortName(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1).replaceAll("_", " ");
}

const WORD = /"[^"]*"|(?:[^\s{}_^]|[_^](?:\{[^}]*\})?)+/g;

function makeWords(text: string): JSX.Element[] {
  return (text.match(WORD) ?? []).map(makeWord);
}

function makeWord(text: string): JSX.Element {
  if (text.startsWith('"')) return h("mtext", null, `\u00a0${text.slice(1, -1)}\u00a0`);
  const [, base = "", below, above] = /^([^_^]+)(?:_(\{[^}]*\}|[^\^]+))?(?:\^(\{[^}]*\}|.+))?$/.exec(text) ?? [, text];
  const under = below === undefined ? null : makeScript(below);
  const upper = above === undefined ? null : makeScript(above);
  if (under && upper) return h("msubsup", null, makeSign(base), under, upper);
  if (under) return h("msub", null, makeSign(base), under);
  return upper ? h("msup", null, makeSign(base), upper) : makeSign(base);
}

/** Makes a subscript or superscript of its separate signs: `{p,2i}` is p , 2 i. */
function makeScript(text: string): JSX.Element {
  const inside = text.startsWith("{") ? text.slice(1, -1) : text;
  return h("mrow", null, (inside.match(/[\d.]+|[A-Za-zα-ωΑ-Ω]+|\S/g) ?? []).map(makeSign));
}

function makeSign(text: string): JSX.Element {
  if (/^[\d.]+(e[-+]?\d+)?$/.test(text)) return h("mn", null, text);
  if (/^[\p{L}][\p{L}\d]*$/u.test(text)) return h("mi", null, text);
  return h("mo", null, text === "-" ? "−" : text);
}
