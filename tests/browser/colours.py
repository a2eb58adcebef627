"""The colour tables of the page, taken from its source, to read pictures back with."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tests.page.built import WEB, environment_with_node

TABLE = (
    "import { getColourTable } from './src/colour';"
    " console.log(JSON.stringify(SCALES.map((scale) => getColourTable(scale))))"
)


def read_colour_tables(into: Path) -> dict[tuple[str, bool], dict[tuple[int, int, int], float]]:
    """For each kind of scale and each theme: the share of the scale from 0 to 1 that a colour stands for."""
    scales: list[dict[str, Any]] = [
        {"kind": kind, "least": least, "largest": 1, "dark": dark}
        for kind, least in (("sequential", 0), ("symmetric", -1))
        for dark in (False, True)
    ]
    script = into / "tables.mjs"
    command = [*("node", "node_modules/esbuild/bin/esbuild", "--bundle", "--format=esm", f"--outfile={script}")]
    more_arguments = [f"--define:SCALES={json.dumps(scales)}", "--log-level=error"]
    run_node([*command, *more_arguments], TABLE)
    colour_lists = json.loads(run_node(["node", str(script)], ""))
    tables = {}
    for scale, colours in zip(scales, colour_lists, strict=True):
        shares = {tuple(colour): share for colour, share in zip(colours, np.linspace(0, 1, len(colours)), strict=True)}
        assert len(shares) == len(colours), "two values have the same colour"
        tables[scale["kind"], scale["dark"]] = shares
    return tables


def run_node(command: list[str], text: str) -> str:
    result = subprocess.run(
        command, cwd=WEB, env=environment_with_node(), input=text, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
