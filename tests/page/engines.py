"""The engine of a page, asked in Node about the model in a file."""

import atexit
import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.api import Model
from pellucid.interpret.trace.model_page import save_model_page
from tests.page.built import WEB, environment_with_node


class EngineInNode:
    """Answers of the engine about a model that was saved as a page."""

    def __init__(self, model: Model, folder: Path, precision: str = "float32", sentence: str = "Yes."):
        self.page = folder / "model.html"
        save_model_page(model.trace(sentence, beam=1), self.page, precision)

    def ask_all(self, questions: Sequence[tuple[str, Any]]) -> list[Any]:
        """Return the answer to each question; a refusal is its sentence."""
        lines = "\n".join(json.dumps(question) for question in questions)
        words = "node", str(_bundle_engine()), str(self.page)
        answers = map(json.loads, _run_program(*words, stdin=lines).removesuffix("\n").split("\n"))
        return [answer.get("problem") or answer["value"] for answer in answers]


def read_floats(text: str, shape: Sequence[int]) -> np.ndarray:
    """Return the numbers of a tensor that the engine gave."""
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)


@cache
def _bundle_engine() -> Path:
    """Bundle the engine and what answers from it as one script, once for all models."""
    script = Path(tempfile.mkdtemp(prefix="engine-"), "answers.mjs")
    atexit.register(shutil.rmtree, script.parent)
    esbuild = str(WEB / "node_modules" / "esbuild" / "bin" / "esbuild")
    options = ["--bundle", "--platform=node", "--format=esm", f"--outfile={script}", "--log-level=warning"]
    _run_program(esbuild, "test/engine_answers.ts", *options)
    return script


def _run_program(*words: str, stdin: str = "") -> str:
    environment = environment_with_node()
    done = subprocess.run(
        words, cwd=WEB, env=environment, input=stdin, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
