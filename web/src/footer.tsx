// What was checked, how the numbers were made, and how to take them along.
import { useState } from "preact/hooks";
import { useApp } from "./hooks";
import { linkOf, written } from "./permalink";
import type { Manifest } from "./types";

export function Footer(props: { manifest: Manifest }) {
  const app = useApp();
  const { checks, run, model } = props.manifest;
  const made = checks.filter((check) => check.value !== null || !check.passed);
  const passed = made.filter((check) => check.passed).length;
  const [said, setSaid] = useState("");
  const copy = async () => {
    const link = `${location.href.split("#")[0]}#${written(linkOf(app))}`;
    try {
      await navigator.clipboard.writeText(link);
      setSaid("copied");
    } catch {
      setSaid("copying is not allowed here: take it from the address bar");
    }
  };
  return (
    <footer class="footer">
      <button type="button" class="link" onClick={() => app.go({ view: "checks" })}>
        <span class={passed === made.length ? "good" : "bad"}>{passed === made.length ? "✓" : "✗"}</span> checks: {passed} of{" "}
        {made.length} passed
        {made.length < checks.length ? `, ${checks.length - made.length} not made` : ""}
      </button>
      <span class="quiet">
        {run.dtype}, {run.device}, dropout {run.dropout} · model <span class="mono">{model.sha256.slice(0, 8)}</span> ·
        tokenizer <span class="mono">{model.tokenizer_sha256.slice(0, 8)}</span> · pellucid {run.pellucid}, torch{" "}
        {run.torch}
        {run.capture === "float16" ? " · numbers kept as float16" : ""}
      </span>
      <span class="spring" />
      <button type="button" class="link" onClick={() => app.go({ view: "export" })}>
        export
      </button>
      {app.host === "widget" ? null : (
        <button type="button" class="link" onClick={copy}>
          copy link
        </button>
      )}
      <span role="status" class="quiet">
        {said}
      </span>
    </footer>
  );
}
