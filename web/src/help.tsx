// A dialog that lists all keys.
import { useEffect, useRef } from "preact/hooks";
import { KEYS } from "./keyboard";

export function Help(props: { onClose: () => void }) {
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    close.current?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <div class="overlay" onClick={(event) => event.target === event.currentTarget && props.onClose()}>
      <div role="dialog" aria-modal="true" aria-labelledby="pellucid-help" class="panel help">
        <h2 id="pellucid-help">Keys</h2>
        <dl>
          {KEYS.map((key) => (
            <div key={key.shown}>
              <dt>
                <kbd>{key.shown}</kbd>
              </dt>
              <dd>{key.meaning}</dd>
            </div>
          ))}
        </dl>
        <p class="quiet">
          Attention weights show what a position reads, not why the model chose a piece; the Output view shows what each
          part adds to the logit.
        </p>
        <button ref={close} type="button" class="button" onClick={props.onClose}>
          Close
        </button>
      </div>
    </div>
  );
}
