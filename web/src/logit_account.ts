// Sums over the parts of a logit: by kind of part, by head, by the word a head has read.

import type { Account, AccountPart, Manifest, Side } from "./types";

export interface Share {
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

/** One sum for each kind of part there is, in the order of the model. */
export function byGroup(account: Account): Share[] {
  const groups = Object.keys(GROUPS) as AccountPart["group"][];
  return groups.flatMap((group) => {
    const parts = account.parts.filter((part) => part.group === group);
    return parts.length ? [{ label: GROUPS[group], value: total(parts.map((part) => part.value)) }] : [];
  });
}

/** The parts of some groups, those of the largest size first. */
export function bySize(account: Account, groups: AccountPart["group"][]): AccountPart[] {
  const parts = account.parts.filter((part) => groups.includes(part.group));
  return parts.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

/** What all heads of a group that say so have added from each position they read; null where none says so. */
export function byKey(account: Account, group: "self" | "cross"): number[] | null {
  const keyed = account.parts.filter((part) => part.group === group && part.by_key);
  if (!keyed.length) return null;
  const size = Math.max(...keyed.map((part) => part.by_key?.length ?? 0));
  return Array.from({ length: size }, (_, key) => total(keyed.map((part) => part.by_key?.[key] ?? 0)));
}

/** Sums over the pieces of each word of the source; marks stand for themselves. */
export function byWord(values: number[], side: Side): Share[] {
  const spelled = side.text.split(/\s+/).filter(Boolean);
  const found = new Map<string, Share>();
  values.forEach((value, index) => {
    const word = side.words[index] ?? null;
    const key = word === null ? `mark ${index}` : `word ${word}`;
    const label = word === null ? (side.pieces[index] ?? String(index)) : (spelled[word] ?? side.pieces[index] ?? "");
    const share = found.get(key) ?? { label, value: 0 };
    share.value += value;
    found.set(key, share);
  });
  return [...found.values()];
}

/** Where a head's part can be looked at: "decoder.3.cross.head.2" is head 2 of decoder.3.cross. */
export function headOf(part: AccountPart): { section: string; head: number } | null {
  const [, section, head] = /^(.+)\.head\.(\d+)$/.exec(part.name) ?? [];
  return section === undefined ? null : { section, head: Number(head) };
}

/** Pieces one may ask about: those on the list of the step, the chosen one left out. */
export function rivals(manifest: Manifest, step: number): { id: number; piece: string; prob: number }[] {
  const here = manifest.steps[step];
  return here ? here.top.filter((each) => each.id !== here.chosen.id) : [];
}

function total(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
