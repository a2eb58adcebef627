// Sums over the parts of a logit: by kind of part, by head, by the word that a head reads.

import type { AccountPart, LogitAccount, Manifest, Side } from "./types";

export interface LabelledValue {
  label: string;
  value: number;
}

const GROUPS: Record<AccountPart["group"], string> = {
  embedding: "embedding of the piece read",
  positions: "its position",
  self: "self-attention",
  cross: "cross-attention",
  ffn: "feed-forward",
  norm: "shifts of the norms",
  bias: "biases",
};

/** Sums the parts of each kind, in the order of the model. */
export function sumByGroup(account: LogitAccount): LabelledValue[] {
  const groups = Object.keys(GROUPS) as AccountPart["group"][];
  return groups.flatMap((group) => {
    const parts = account.parts.filter((part) => part.group === group);
    return parts.length ? [{ label: GROUPS[group], value: sumOf(parts.map((part) => part.value)) }] : [];
  });
}

/** Sorts the parts of some groups by absolute value, the largest first. */
export function sortBySize(account: LogitAccount, groups: AccountPart["group"][]): AccountPart[] {
  const parts = account.parts.filter((part) => groups.includes(part.group));
  return parts.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

/** Sums what the heads of a group add from each position they read; null where no head is split by position. */
export function sumByKey(account: LogitAccount, group: "self" | "cross"): number[] | null {
  const keyed = account.parts.filter((part) => part.group === group && part.by_key);
  if (!keyed.length) return null;
  const size = Math.max(...keyed.map((part) => part.by_key?.length ?? 0));
  return Array.from({ length: size }, (_, key) => sumOf(keyed.map((part) => part.by_key?.[key] ?? 0)));
}

/** Sums values over the pieces of each source word; special tokens stand for themselves. */
export function sumByWord(values: number[], side: Side): LabelledValue[] {
  const words = side.text.split(/\s+/).filter(Boolean);
  const shares = new Map<string, LabelledValue>();
  values.forEach((value, index) => {
    const word = side.words[index] ?? null;
    const key = word === null ? `mark ${index}` : `word ${word}`;
    const label = word === null ? (side.pieces[index] ?? String(index)) : (words[word] ?? side.pieces[index] ?? "");
    const share = shares.get(key) ?? { label, value: 0 };
    share.value += value;
    shares.set(key, share);
  });
  return [...shares.values()];
}

/** Parses the name of a head's part: "decoder.3.cross.head.2" is head 2 of decoder.3.cross. */
export function parseHeadPart(part: AccountPart): { section: string; head: number } | null {
  const [, section, head] = /^(.+)\.head\.(\d+)$/.exec(part.name) ?? [];
  return section === undefined ? null : { section, head: Number(head) };
}

/** Lists the candidates of a step without the chosen one. */
export function listRivals(manifest: Manifest, step: number): { id: number; piece: string; prob: number }[] {
  const current = manifest.steps[step];
  return current ? current.top.filter((candidate) => candidate.id !== current.chosen.id) : [];
}

function sumOf(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
