// Spots: the places where pictures show the numbers of a text. A number of the story is a link that frames its spot.
import type { JSX } from "preact";
import { formatExact, formatNumber, type PlacedNumber, type RichText, type Spot } from "./format";
import { useApp } from "./hooks";
import { findBlock, getSection } from "./network";
import { Value } from "./parts";
import type { App, Place } from "./state";
import type { Manifest, TensorRow } from "./types";

/** Writes a spot as the value of an attribute. */
export function writeSpot({ name, index }: Spot): string {
  return [name, ...index].join(" ");
}

/** Tells whether two spots are the same. */
function isSameSpot(one: Spot | null, other: Spot): boolean {
  return one !== null && writeSpot(one) === writeSpot(other);
}

/** Makes the attribute by which an element is framed while the story speaks of its number; none otherwise. */
export function markSpot(app: App, name: string, ...index: number[]): { "data-spoken"?: string } {
  const spot = { name, index };
  return isSameSpot(app.spoken.value, spot) ? { "data-spoken": writeSpot(spot) } : {};
}

/** Shows rich text; each number that has a spot is a link to it. */
export function RichTextSpan(props: { text: RichText }) {
  return (
    <span>
      {props.text.map((part): JSX.Element | string => {
        if (typeof part === "string") return part;
        if (typeof part === "number") return <Value shown={formatNumber(part)} />;
        if ("guess" in part) return <Value shown={part.guess} />;
        if ("ink" in part) return <b class={`ink-${part.ink}`}>{part.name}</b>;
        return <SpotLink number={part} />;
      })}
    </span>
  );
}

/** A number that frames its cell in the picture. */
function SpotLink({ number: { value, spot } }: { number: PlacedNumber }) {
  const app = useApp();
  const isSpoken = isSameSpot(app.spoken.value, spot);
  return (
    <button
      type="button"
      class="link spot-link"
      aria-pressed={isSpoken}
      data-names={writeSpot(spot)}
      onClick={() => (app.spoken.value = { ...spot })}
    >
      <Value shown={formatNumber(value)} exact={formatExact(value)} />
    </button>
  );
}

/** Finds the picture that shows a spot: a head, or the block of a tensor; null for a part of a view. */
export function findSpotPlace(manifest: Manifest, { name, index }: Spot): Partial<Place> | null {
  const closed = { tensor: undefined, index: undefined };
  const row = manifest.tensors.find((tensor) => tensor.name === name);
  const reads = ({ op }: TensorRow) => ("weight" in op && op.weight === name) || ("table" in op && op.table === name);
  const reader = manifest.tensors.find(reads);
  const section = getSection((row ?? reader)?.name ?? "");
  const block = findBlock(manifest, section || (row ?? reader)?.name) ?? null;
  if (!block) return null;
  if (block.attention && row?.dims.length === 3)
    return { ...closed, view: "head", section: block.key, head: row.dims[0] === "H" ? index[0] : 0 };
  return { ...closed, view: "block", section: block.key };
}

/** Finds the elements that show what is spoken of now, the nearest to the window first. */
export function findSpoken(root: HTMLElement): HTMLElement[] {
  const distance = (element: HTMLElement) => Math.abs(element.getBoundingClientRect().top - innerHeight / 2);
  const found = [...root.querySelectorAll<HTMLElement>(".centre [data-spoken], .scrubber [data-spoken]")];
  return found.sort((one, other) => distance(one) - distance(other));
}
