// One captured tensor as a sheet: two of its dimensions, the others fixed.
import { useMemo } from "preact/hooks";
import { scaleOf } from "./colour";
import { useApp, useLoaded, useTensor } from "./hooks";
import { maskOf, pictureOf } from "./picture";
import { Sheet } from "./sheet";
import { tensorRow } from "./state";
import { useDark } from "./theme";

export interface MatrixProps {
  tensor: string;
  /** Dimensions that are fixed, by letter: {H: 2}. Of what remains the last two are drawn, or the one. */
  take?: Record<string, number>;
  /** The first of the two runs across, the second down: K as its transpose. */
  turned?: boolean;
  /** Said above the picture; the tensor's name where absent. */
  label?: string;
  cell?: number;
  maxHeight?: number;
  /** A thumbnail: no words, no keys. */
  bare?: boolean;
  /** Instead of opening the cell view: the whole index of the cell. */
  onOpen?: (index: number[]) => void;
}

export function Matrix(props: MatrixProps) {
  const app = useApp();
  const dark = useDark();
  const manifest = app.manifest.value;
  const row = tensorRow(manifest, props.tensor);
  const label = props.label ?? props.tensor;
  const maskName = (manifest && maskOf(manifest, props.tensor)?.name) ?? "";
  const loaded = useTensor(props.tensor);
  const mask = useLoaded(
    async () => (maskName ? app.tensor(maskName) : null),
    `${manifest?.id} ${maskName}`,
    maskName ? app.peek(maskName) : null,
  );
  const tensor = loaded.state === "ready" ? loaded.value : null;
  const allowed = mask.state === "ready" ? mask.value : null;
  const picture = useMemo(
    () =>
      manifest && tensor && mask.state !== "loading"
        ? pictureOf(manifest, tensor.row, tensor.values, allowed, props.take, props.turned)
        : null,
    [manifest, tensor, allowed, mask.state, JSON.stringify(props.take), props.turned],
  );
  if (row?.shape.includes(0)) return <NotCaptured label={label} says="no heads left here" bare={props.bare} />;
  if (!row || (loaded.state === "missing" && row.captured) || !row.captured)
    return <NotCaptured label={label} says={loaded.state === "missing" ? loaded.says : undefined} bare={props.bare} />;
  if (!picture) return props.bare ? <span class="thumbnail waiting" /> : <div class="sheet waiting">{label}</div>;
  const open = (r: number, c: number) => {
    const index = picture.index(r, c);
    if (props.onOpen) props.onOpen(index);
    else app.go({ view: "cell", tensor: props.tensor, index });
  };
  const sizes = [picture.rows, picture.cols].filter((axis) => axis.dim !== "1").map((axis) => axis.size);
  return (
    <Sheet
      values={picture.values}
      rows={picture.rows}
      cols={picture.cols}
      masked={picture.masked}
      scale={scaleOf(row, dark)}
      label={label}
      note={[sizes.join(" × "), ...(row.edited ? ["replaced by an edit"] : [])].join(" · ")}
      cell={props.cell}
      maxHeight={props.maxHeight}
      bare={props.bare}
      onOpen={open}
    />
  );
}

/** Hatching where numbers would stand. */
export function NotCaptured(props: { label: string; says?: string; bare?: boolean }) {
  if (props.bare) return <span class="thumbnail hatched" role="img" aria-label={`${props.label}: ${props.says ?? "not captured"}`} />;
  return (
    <div class="sheet missing hatched" role="note">
      <span class="plate">
        <b>{props.label}</b> {props.says ?? "not captured"}
      </span>
    </div>
  );
}
