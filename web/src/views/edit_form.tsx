// Form for edits: words to hide and heads to silence before the run is repeated.
import { useState } from "preact/hooks";
import { saveBaseline } from "../baseline";
import { describeEdit, listWords } from "../edits";
import { type App, describeError } from "../state";
import { describeSection, listAttentions } from "../tensor_graph";
import type { EditSpec, Manifest } from "../types";

/** Repeats the run with words hidden or heads silenced; the unedited trace is kept for comparison. */
export function EditForm({ app, manifest }: { app: App; manifest: Manifest }) {
  const [edits, setEdits] = useState<EditSpec[]>(manifest.edits);
  const [keepTarget, setKeepTarget] = useState(true);
  if (!app.source.act) return <p class="quiet">Hiding words and silencing heads need the model: open it with “pellucid serve”.</p>;
  const rerun = async (requested: EditSpec[], keepsTarget: boolean) => {
    try {
      if (!manifest.edits.length) await saveBaseline(app);
    } catch (error) {
      app.problem.value = describeError(error);
      return;
    }
    await app.askSource("edit", { edits: requested, keep_target: keepsTarget });
  };
  const addEdit = (edit: EditSpec) => setEdits([...edits.filter((listed) => JSON.stringify(listed) !== JSON.stringify(edit)), edit]);
  return (
    <section class="panel stack" aria-label="Change the run">
      <h2>Change something and run again</h2>
      <div class="row form-row">
        <HideWord manifest={manifest} onAdd={addEdit} />
        <SilenceHead manifest={manifest} onAdd={addEdit} />
      </div>
      <ul class="edit-list">
        {edits.map((edit) => (
          <li>
            {describeEdit(edit, manifest.source)}{" "}
            <button type="button" class="button" onClick={() => setEdits(edits.filter((listed) => listed !== edit))}>
              Remove
            </button>
          </li>
        ))}
      </ul>
      <div class="row form-row">
        <label>
          <input type="checkbox" checked={keepTarget} onChange={(event) => setKeepTarget(event.currentTarget.checked)} /> keep the same
          translation instead of searching for a new one
        </label>
        <button type="button" class="button" disabled={!edits.length || app.busy.value !== null} onClick={() => rerun(edits, keepTarget)}>
          Run with {edits.length === 1 ? "this change" : "these changes"}
        </button>
        {manifest.edits.length > 0 && (
          <button type="button" class="button" disabled={app.busy.value !== null} onClick={() => rerun([], manifest.forced)}>
            Undo all changes
          </button>
        )}
      </div>
    </section>
  );
}

function HideWord({ manifest, onAdd }: { manifest: Manifest; onAdd: (edit: EditSpec) => void }) {
  const [word, setWord] = useState(0);
  return (
    <span class="row">
      <label>
        Hide the word{" "}
        <select value={String(word)} onChange={(event) => setWord(Number(event.currentTarget.value))}>
          {listWords(manifest.source).map((text, i) => (
            <option value={String(i)}>{text}</option>
          ))}
        </select>
      </label>
      <button type="button" class="button" onClick={() => onAdd({ kind: "hide", word })}>
        Add
      </button>
    </span>
  );
}

function SilenceHead({ manifest, onAdd }: { manifest: Manifest; onAdd: (edit: EditSpec) => void }) {
  const attentions = listAttentions(manifest).filter((parts) => parts.heads > 0);
  const [section, setSection] = useState(attentions.at(-1)?.section ?? "");
  const [head, setHead] = useState(0);
  const heads = attentions.find((parts) => parts.section === section)?.heads ?? 0;
  return (
    <span class="row">
      <label>
        Silence in{" "}
        <select value={section} onChange={(event) => setSection(event.currentTarget.value)}>
          {attentions.map((parts) => (
            <option value={parts.section}>{describeSection(parts.section)}</option>
          ))}
        </select>
      </label>
      <label>
        head{" "}
        <select value={String(head)} onChange={(event) => setHead(Number(event.currentTarget.value))}>
          {Array.from({ length: heads }, (_, h) => (
            <option value={String(h)}>{h + 1}</option>
          ))}
        </select>
      </label>
      <button type="button" class="button" onClick={() => onAdd({ kind: "silence", attention: section, head })}>
        Add
      </button>
    </span>
  );
}
