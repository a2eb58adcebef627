// Text that a translation must repeat unchanged, as in src/pellucid/data/text/protected.py, where each pattern is explained.
import { WHITE } from "./sentences";

export const W = "\\p{L}\\p{N}_"; // what a pattern of Python calls a letter of a word
const LETTER = "[\\p{L}\\p{Nl}\\p{No}_]";
const IN_URL = "[A-Za-z0-9_.~:\\/?#\\[\\]@!$&'*+,;=%\\-]";
const GROUP = `\\(${IN_URL}*\\)|\\{${IN_URL}*\\}`;
const SIZE = "(?:hh?|ll?|[zjtqL])?";
export const ADDRESS = [
  `(?:(?:https?|ftp):\\/\\/|(?<![A-Za-z0-9])www\\.)(?:${IN_URL}|${GROUP})*(?:[A-Za-z0-9_\\/#=&~+%$@\\-]|${GROUP})`,
  "(?<![A-Za-z0-9_.+\\-])[A-Za-z0-9_.+\\-]+@[A-Za-z0-9\\-]+(?:\\.[A-Za-z0-9\\-]+)+",
].join("|");
const PATTERNS = [
  ADDRESS,
  "(?<latex>\\\\[A-Za-z]{2,}\\*?(?:\\{[A-Za-z][" + W + "]*\\})+)",
  `(?<![\`${W}])(?:(?<!:):[A-Za-z][${W}.+\\-]*:(?:[A-Za-z][${W}.+\\-]*:)*)?(?:\`\`(?![\`${WHITE}])(?:[^\`]|\`(?!\`))+?(?<![${WHITE}])\`\`(?!\`)` +
    `|\`(?![\`${WHITE}])[^\`]+(?<![${WHITE}])\`_{0,2})(?![\`${W}])`,
  "\\{\\{\\{[^{}]*\\}\\}\\}|\\{\\{[^{}]*\\}\\}",
  "\\{%(?:[^{}%]|%(?!\\}))*%\\}|\\{#(?:[^{}#]|#(?!\\}))*#\\}|\\[%(?:[^\\[\\]%]|%(?!\\]))*%\\]",
  "<%(?:[^%<]|%(?!>))*%>|<\\?(?:[^?<]|\\?(?!>))*\\?>",
  `\\$t\\([^()]*\\)|\\$\\([${W}.\\-]+\\)`,
  `\\$\\{[^{}]*\\}|#\\{[^{}${WHITE}]+\\}`,
  `%\\{${LETTER}[${W}.\\-]*\\}|%<${LETTER}[${W}]*>(?:[\\-+#0]?\\p{Nd}*(?:\\.\\p{Nd}+)?[a-zA-Z])?`,
  `\\{[${WHITE}]*[$!][${W}.$\\-]+[${WHITE}]*\\}|\\{[${WHITE}]*-[A-Za-z][${W}\\-]*[${WHITE}]*\\}|\\{[${WHITE}]*[A-Z]+\\([${WHITE}]*\\$[^{}()]*\\)[${WHITE}]*\\}`,
  `\\{[${WHITE}]+(?!(?:and|et|o|oder|or|ou|und|y)[${WHITE}])${LETTER}[${W}.\\-]*[${WHITE}]+\\}`,
  `\\{[${WHITE}]*[${W}]+[${WHITE}]*,[${WHITE}]*(?:number|date|time|duration|ordinal|spellout)[${WHITE}]*(?:,[^{}]*)?\\}`,
  `\\{[${WHITE}]*[${W}]+[${WHITE}]*,[${WHITE}]*choice[${WHITE}]*,(?:[^{}]|\\{[^{}]*\\})*\\}`,
  `\\{\\p{Nd}+(?:,[${WHITE}]*-?\\p{Nd}+)?(?::[^{}]*)?\\}`,
  `\\{[${W}]+:[^${WHITE}{}]*(?:\\{[${W}]*\\}[^${WHITE}{}]*)+\\}|\\{[${W}]+:%[^{}]*\\}`,
  `\\{(?:[${W}](?:[${W}.\\-]|\\[[^\\[\\]{}${WHITE}]*\\])*)?(?:![rsa])?(?::[^${WHITE}{}]*)?\\}`,
  "[\\[{]\\p{Nd}{1,3}[}\\]](?!\\()",
  `(?<![${W}%])%[A-Za-z_][${W}.\\-]*[${W}]%(?![${W}%])`,
  `(?<![\\p{Nd}%])%(?:\\([${W}.\\-]+\\)|\\p{Nd}+\\$)[\\-+#0']*\\p{Nd}*(?:\\.\\p{Nd}+)?${SIZE}[a-zA-Z@]`,
  `(?<![\\p{Nd}%])%[\\-+#0']*(?:\\p{Nd}+|\\*)?(?:\\.(?:\\p{Nd}+|\\*))?${SIZE}[diouxXeEfFgGcrs@](?![A-Za-z]{3})`,
  `(?<![\\p{Nd}%])(?<!\\p{Nd}[${WHITE}])%-?[AaBbHIjMmpSUWYyZ](?![A-Za-z])`,
  `(?:(?<![${W}%])|(?<=%\\p{Nd}))%(?:L?[1-9](?![${W}]|[.,]\\p{Nd})(?:%(?![${W}]))?|n(?![${W}]))`,
  `(?<![${W}$\\\\])\\$(?!(?:US|CAN?|AU?|NZ|HK|C|[kKmMbB]n?)(?![${W}]))[A-Za-z_][${W}]*\\$?`,
  `(?<![^${WHITE}("'“‘«„¿¡\\/=>]):(?:[a-z][A-Za-z0-9_]+(?![${W}:])|(?:[a-z0-9_+\\-]*[a-z][a-z0-9_+\\-]*|[+\\-]1):(?![${W}:\`]))`,
  `(?<![${W}])__[${W}]+(?<=__)(?![${W}])`,
  `(?<![${W}#&])#(?:st|nd|rd|th)?(?![${W}#{]|[${WHITE}]*\\p{Nd})`,
  `'[{}]'|'\\{[${W}.]*\\}'`,
  "&(?:amp|lt|gt|quot|apos|copy|reg|trade|hellip|[mn]dash|[lr][sd]quo|[sb]dquo|sbquo|[lr]aquo|middot|bull|deg|euro|pound|sect|times|shy|zwn?j|[lrud]arr|#(?!160;|[xX][aA]0;)(?:[0-9]{1,6}|[xX][0-9a-fA-F]{1,5}));",
];
const FIRST_PLACE = /%L?1(?!\p{Nd})/u;
const PERCENT_FIRST = new RegExp(`(?<![${W}%])%(?:[0-9]{2}(?![0-9.]*[a-zA-Z$])|[0-9][.,][0-9]+(?![a-zA-Z])|[2-9]['’][a-zçğıöşü])|[ğĞıİşŞ]`, "u");
const PROTECTED = new RegExp(PATTERNS.join("|"), "gu");

/** Finds the spans of what must stay as it is; LaTeX, whose braces hold text, is looked for and left out. */
export function findProtected(text: string): [start: number, end: number][] {
  const isPercent = (place: string) => /^%[2-9]$/u.test(place) && !FIRST_PLACE.test(text) && PERCENT_FIRST.test(text);
  return [...text.matchAll(PROTECTED)]
    .filter((match) => match.groups?.latex === undefined && !isPercent(match[0]))
    .map((match) => [match.index, match.index + match[0].length]);
}

/** Replaces what stands outside of protected text by one function, and protected text by another. */
export function replaceParts(text: string, outside: (part: string) => string, inside: (part: string) => string = (part) => part): string {
  let [out, end] = ["", 0];
  for (const [start, stop] of findProtected(text)) {
    out += outside(text.slice(end, start)) + inside(text.slice(start, stop));
    end = stop;
  }
  return out + outside(text.slice(end));
}
