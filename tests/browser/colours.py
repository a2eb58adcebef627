"""The colour tables of the page, out of its own source, to read pictures back with."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tests.page.built import WEB, with_node

TABLE = (
    "import { getColourTable } from './src/colour';"
    " console.log(JSON.stringify(SCALES.map((scale) => getColourTable(scale))))"
)


def tables(into: Path) -> dict[tuple[str, bool], dict[tuple[int, int, int], float]]:
    """For a kind of scale, and for dark or light paper: which share of the scale from 0 to 1 each colour stands for."""
    scales: list[dict[str, Any]] = [
        {"kind": kind, "least": least, "largest": 1, "dark": dark}
        for kind, least in (("sequential", 0), ("symmetric", -1))
        for dark in (False, True)
    ]
    script = into / "tables.mjs"
    build = [*("node", "node_modules/esbuild/bin/esbuild", "--bundle", "--format=esm", f"--outfile={script}")]
    define = [f"--define:SCALES={json.dumps(scales)}", "--log-level=error"]
    run([*build, *define], TABLE)
    found = json.loads(run(["node", str(script)], ""))
    named = {}
    for scale, colours in zip(scales, found, strict=True):
        shares = {tuple(colour): share for colour, share in zip(colours, np.linspace(0, 1, len(colours)), strict=True)}
        assert len(shares) == len(colours), "two values have the same colour"
        named[scale["kind"], scale["dark"]] = shares
    return named


def run(words: list[str], given: str) -> str:
    done = subprocess.run(words, cwd=WEB, env=with_node(), input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
