"""The page recomputes every number of a real trace from its inputs, in TypeScript instead of Python."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.interpret.trace.session import Trace
from tests.page.built import WEB, environment_with_node
from tests.trace.traced import small_traced
from tests.variants import mark_others_slow

KINDS = {
    "pre": {"norm": "pre", "positions": "sinusoidal", "activation": "relu", "tie": "all", "output_bias": False},
    "post": {"norm": "post", "positions": "rotary", "activation": "swiglu", "tie": "none"},
    "learned": {"norm": "pre", "positions": "learned", "activation": "gelu", "tie": "decoder"},
    "rms": {"norm": "rms", "positions": "rotary", "activation": "silu", "tie": "all"},
    "none": {"norm": "post", "positions": "none", "activation": "silu", "tie": "none"},
}
SIZES: dict[str, Any] = {"d_model": 12, "d_ff": 7, "heads": 3, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cells") / "cells.mjs"
    arguments = ["test/explain_cells.ts", "--bundle", "--platform=node", "--format=esm", f"--outfile={path}"]
    arguments.append("--log-level=warning")
    run_program(str(WEB / "node_modules" / "esbuild" / "bin" / "esbuild"), *arguments)
    return path


@pytest.mark.parametrize("options", mark_others_slow(KINDS, *list(KINDS)[:3]))
def test_the_page_recomputes_every_cell_of_a_trace_from_its_inputs(options, script, tmp_path):
    trace = make_trace(**options)
    write_trace(trace, tmp_path)
    report = json.loads(run_program("node", str(script), str(tmp_path)))
    assert report["failed"] == []
    assert report["cells"] == sum(trace[name].values.size for name in trace.names)
    assert {"lookup", "norm", "linear", "dot", "scale", "softmax", "mix", "activation", "causal"} <= set(
        report["kinds"]
    )


def test_every_walk_to_the_inputs_ends_at_a_parameter_or_a_position(script, tmp_path):
    trace = make_trace()
    write_trace(trace, tmp_path)
    ends = set(json.loads(run_program("node", str(script), str(tmp_path)))["ends"])
    learned = {row["name"] for row in trace.manifest()["parameters"]}
    assert "source_embedding.weight" in ends
    assert all(end in learned or end.endswith(("positions", "allowed")) for end in ends)


def test_a_planted_number_and_the_cells_computed_from_it_are_found_out(script, tmp_path):
    trace = make_trace()
    write_trace(trace, tmp_path)
    path = tmp_path / "decoder.0.cross.scores.bin"
    scores = np.fromfile(path, "<f4").reshape(trace["decoder.0.cross.scores"].shape)
    scores[1, 2, 0] += 3.0
    scores.tofile(path)
    failed = json.loads(run_program("node", str(script), str(tmp_path)))["failed"]
    assert {"name": "decoder.0.cross.scores", "index": [1, 2, 0]}.items() <= failed[0].items()
    others = {(cell["name"], *cell["index"][:2]) for cell in failed[1:]}
    assert others == {("decoder.0.cross.pattern", 1, 2)}


@pytest.mark.parametrize("options", mark_others_slow({name: KINDS[name] for name in ("pre", "post")}, "pre"))
def test_numbers_stored_as_float16_are_recomputed_within_their_rounding(options, script, tmp_path):
    write_trace(make_trace(**options), tmp_path, stored="<f2")
    assert json.loads(run_program("node", str(script), str(tmp_path)))["failed"] == []


def make_trace(**options) -> Trace:
    """Trace a sentence whose source and given target differ in length; the target keeps it short."""
    return small_traced(**{**SIZES, **options}).trace("The ball is blue.", target="Yes.")


def write_trace(trace: Trace, directory: Path, stored: str = "<f4") -> None:
    """Write the manifest, and one file of numbers for each tensor, stored as `stored`, and each parameter."""
    manifest: dict[str, Any] = trace.manifest()
    manifest["run"]["capture"] = {"<f2": "float16", "<f4": "float32"}[stored]
    (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    for row in manifest["tensors"]:
        trace.tensor(row["name"]).astype(stored).astype("<f4").tofile(directory / f"{row['name']}.bin")
    for row in manifest["parameters"]:
        trace.parameter(row["name"]).astype("<f4").tofile(directory / f"{row['name']}.bin")


def run_program(*command: str) -> str:
    result = subprocess.run(command, cwd=WEB, env=environment_with_node(), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
