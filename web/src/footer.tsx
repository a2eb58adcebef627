// The footer: results of the checks, how the numbers were computed, export and link.
import { useState } from "preact/hooks";
import { useApp } from "./hooks";
import { makeLink, writeLink } from "./permalink";
import type { Manifest } from "./types";

export function Footer(props: { manifest: Manifest }) {
  const app = useApp();
  const { checks, run, model } = props.manifest;
  const performed = checks.filter((check) => check.value !== null || !check.passed);
  const passed = performed.filter((check) => check.passed).length;
  const [message, setMessage] = useState("");
  const copyLink = async () => {
    const link = `${location.href.split("#")[0]}#${writeLink(makeLink(app))}`;
    try {
      await navigator.clipboard.writeText(link);
      setMessage("copied");
    } catch {
      setMessage("the browser does not allow copying here; copy the link from the address bar");
    }
  };
  return (
    <footer class="footer">
      <button type="button" class="link" onClick={() => app.goTo({ view: "checks" })}>
        <span class={passed === performed.length ? "good" : "bad"}>{passed === performed.length ? "✓" : "✗"}</span> checks: {passed} of{" "}
        {performed.length} passed
        {performed.length < checks.length ? `, ${checks.length - performed.length} not run` : ""}
      </button>
      <span class="quiet">
        {run.dtype}, {run.device}, dropout {run.dropout} · model <span class="mono">{model.sha256.slice(0, 8)}</span> ·
        tokenizer <span class="mono">{model.tokenizer_sha256.slice(0, 8)}</span> · pellucid {run.pellucid}, torch{" "}
        {run.torch}
        {run.capture === "float16" ? " · numbers stored as float16" : ""}
      </span>
      <span class="spring" />
      <button type="button" class="link" onClick={() => app.goTo({ view: "export" })}>
        export
      </button>
      {app.host === "widget" ? null : (
        <button type="button" class="link" onClick={copyLink}>
          copy link
        </button>
      )}
      <span role="status" class="quiet">
        {message}
      </span>
    </footer>
  );
}
