// Runs the tests of the page: esbuild makes each test file plain JavaScript, Node's own runner does the rest.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const asked = process.argv.slice(2);
const files = readdirSync(here).filter(
  (name) => name.endsWith(".test.ts") && (!asked.length || asked.some((part) => name.includes(part))),
);
const into = mkdtempSync(join(tmpdir(), "pellucid-web-"));
try {
  buildSync({
    entryPoints: files.map((name) => join(here, name)),
    outdir: into,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node18",
    jsx: "automatic",
    jsxImportSource: "preact",
    loader: { ".css": "text" },
    sourcemap: "inline",
    logLevel: "warning",
  });
  const made = readdirSync(into).map((name) => join(into, name));
  const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...made], { stdio: "inherit", cwd: dirname(here) });
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(into, { recursive: true });
}
