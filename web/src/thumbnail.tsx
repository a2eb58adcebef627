// A sheet as a thumbnail: no words, no keys, empty while values are hidden.
import { useLayoutEffect, useRef } from "preact/hooks";
import { useApp } from "./hooks";
import type { SheetProps } from "./picture";
import { getInks, useDark } from "./theme";
import { paintThumbnail } from "./thumbnail_painting";

export function Thumbnail(props: SheetProps) {
  const dark = useDark();
  const hidden = useApp().hidden.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const side = props.cell ?? Math.max(1, Math.ceil(96 / Math.max(props.rows.size, props.cols.size)));
    if (!canvas.current) return;
    if (hidden) canvas.current.width = canvas.current.width; // empties it
    else paintThumbnail(canvas.current, props, props.scale, Math.round(side), getInks(dark));
  }, [props.values, props.scale.largest, props.scale.kind, dark, hidden]);
  return <canvas ref={canvas} class="thumbnail" role="img" aria-label={props.label} />;
}
