// Another beginning, "What if it had written ...": it is typed, the search goes on from there, and its trace opens.
import { useEffect, useState } from "preact/hooks";
import type { App } from "../state";
import type { Manifest } from "../types";
import { saveBaseline } from "./compare";

/** Joins pieces into the text that they spell. */
export function spellPieces(pieces: string[]): string {
  return pieces.join("").replaceAll("\u2581", " ").trim();
}

/** Asks for another beginning of the translation; `written` is offered to be changed. */
export function WhatIf({ app, manifest, written }: { app: App; manifest: Manifest; written: string }) {
  const [text, setText] = useState(written && `${written} `);
  useEffect(() => setText(written && `${written} `), [written]);
  if (!app.source.act) return null;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!text.trim()) return;
    const others = manifest.edits.filter((edit) => edit.kind !== "prefix");
    if (others.length === manifest.edits.length) await saveBaseline(app);
    await app.askSource("edit", { edits: [...others, { kind: "prefix", text: text.trim() }], keep_target: false });
  };
  return (
    <form class="row what-if" onSubmit={submit}>
      <label>
        What if it had written{" "}
        <input type="text" value={text} placeholder="another beginning" lang={manifest.languages?.target} autocomplete="off" spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="button" disabled={app.busy.value !== null || !text.trim()}>
        Go on from there
      </button>
    </form>
  );
}
