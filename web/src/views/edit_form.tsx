// The run again with something changed: words to hide, heads to silence.
import { useState } from "preact/hooks";
import { keep } from "../baseline";
import { editInWords, wordsOf } from "../edits";
import { type App, sentence } from "../state";
import { attentions, sectionInWords } from "../tensor_graph";
import type { EditSpec, Manifest } from "../types";

/** The run again with a word hidden or a head silent; what it was before is put aside for comparison. */
export function Changes({ app, manifest }: { app: App; manifest: Manifest }) {
  const [edits, setEdits] = useState<EditSpec[]>(manifest.edits);
  const [keepTarget, setKeepTarget] = useState(true);
  if (!app.source.act) return <p class="quiet">Hiding words and silencing heads need the model: open it with “pellucid serve”.</p>;
  const run = async (wanted: EditSpec[], keepIt: boolean) => {
    try {
      if (!manifest.edits.length) await keep(app);
    } catch (error) {
      app.problem.value = sentence(error);
      return;
    }
    await app.ask("edit", { edits: wanted, keep_target: keepIt });
  };
  const add = (edit: EditSpec) => setEdits([...edits.filter((each) => JSON.stringify(each) !== JSON.stringify(edit)), edit]);
  return (
    <section class="panel stack" aria-label="Change the run">
      <h2>Change something and run again</h2>
      <div class="row form-row">
        <HideWord manifest={manifest} onAdd={add} />
        <SilenceHead manifest={manifest} onAdd={add} />
      </div>
      <ul class="edit-list">
        {edits.map((edit) => (
          <li>
            {editInWords(edit, manifest.source)}{" "}
            <button type="button" class="button" onClick={() => setEdits(edits.filter((each) => each !== edit))}>
              Remove
            </button>
          </li>
        ))}
      </ul>
      <div class="row form-row">
        <label>
          <input type="checkbox" checked={keepTarget} onChange={(event) => setKeepTarget(event.currentTarget.checked)} /> read the same translation
          again, do not search for a new one
        </label>
        <button type="button" class="button" disabled={!edits.length || app.busy.value !== null} onClick={() => run(edits, keepTarget)}>
          Run with {edits.length === 1 ? "this change" : "these changes"}
        </button>
        {manifest.edits.length > 0 && (
          <button type="button" class="button" disabled={app.busy.value !== null} onClick={() => run([], manifest.forced)}>
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
          {wordsOf(manifest.source).map((text, i) => (
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
  const all = attentions(manifest).filter((parts) => parts.heads > 0);
  const [section, setSection] = useState(all.at(-1)?.section ?? "");
  const [head, setHead] = useState(0);
  const heads = all.find((parts) => parts.section === section)?.heads ?? 0;
  return (
    <span class="row">
      <label>
        Silence in{" "}
        <select value={section} onChange={(event) => setSection(event.currentTarget.value)}>
          {all.map((parts) => (
            <option value={parts.section}>{sectionInWords(parts.section)}</option>
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
