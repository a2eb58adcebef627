"""Translating with CTranslate2 does not import torch; what CTranslate2 cannot do is done with torch."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from pellucid.api import load
from pellucid.data.tokenizer import EOS
from pellucid.model import Transformer
from pellucid.store.directory import save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer

pytest.importorskip("ctranslate2")

SOURCE = Path(__file__).resolve().parents[2] / "src"
COMMAND = f"""
import contextlib, sys
sys.path.insert(0, {str(SOURCE)!r})
from pellucid.cli import main
with contextlib.suppress(SystemExit):
    main()
print("torch" in sys.modules, file=sys.stderr)
"""


def make_ending_model(seed: int) -> Transformer:
    """Return a model whose translations end, and are never a close call in these tests."""
    vocabulary = small_tokenizer().source_vocabulary
    model = random_model(seed, vocabulary, vocabulary, d_model=20, heads=5, output_bias=True)
    with torch.no_grad():
        model.get_parameter("output_bias")[EOS] += 14.0
    return model


@pytest.fixture
def model_directory(tmp_path: Path) -> Path:
    """Model directory that has been converted for CTranslate2 before."""
    directory = tmp_path / "runs" / "best"
    save_bundle(directory, make_ending_model(3), small_tokenizer())
    load(directory, engine="ctranslate2")
    return directory


def run_translate(model_directory: Path, *options: str, lines: Sequence[str] = LINES) -> tuple[list[str], bool]:
    """Run `pellucid translate` in a process of its own; return what it prints, and whether it has imported torch."""
    process = subprocess.run(
        [sys.executable, "-c", COMMAND, "translate", str(model_directory), *options],
        input="".join(line + "\n" for line in lines).encode(),
        capture_output=True,
        check=True,
    )
    # Before it stands what the command says of its translations.
    imported = process.stderr.decode().splitlines()[-1]
    return process.stdout.decode().splitlines(), {"True": True, "False": False}[imported]


def test_ctranslate2_translates_without_torch(model_directory: Path):
    expected = [translation.text for translation in load(model_directory).translate(LINES)]
    assert run_translate(model_directory) == (expected, False)
    assert run_translate(model_directory, "--precision", "int8")[1], "it had yet to be converted"
    assert not run_translate(model_directory, "--precision", "int8")[1]


def test_what_looks_like_markup_needs_no_torch(model_directory: Path):
    # In a time of day stands what may be an emoticon.
    lines = [f"{line} 2:30" for line in LINES]
    expected = [translation.text for translation in load(model_directory).translate(lines)]
    assert run_translate(model_directory, lines=lines) == (expected, False)


def test_the_stages_of_a_translation_are_imported_without_torch():
    stages = [f"pellucid.decode.stages.{path.stem}" for path in (SOURCE / "pellucid/decode/stages").glob("[a-z]*.py")]
    program = f"import sys, {', '.join([*stages, 'pellucid.localize.terminology'])}\nprint('torch' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True
    )
    assert (len(stages) > 10, process.stdout) == (True, b"False\n")


def test_torch_does_what_ctranslate2_cannot(model_directory: Path):
    expected = [
        translation.text for translation in load(model_directory).translate(LINES, method="sample", max_extra=5)
    ]
    assert run_translate(model_directory, "--set", "method=sample", "--set", "max_extra=5") == (expected, True)


def test_weights_read_late_are_those_of_the_moment_of_loading(model_directory: Path):
    options = {"method": "sample", "max_extra": 5}
    expected = [translation.text for translation in load(model_directory).translate(LINES, **options)]
    early = load(model_directory, engine="ctranslate2")
    save_bundle(model_directory, make_ending_model(2), small_tokenizer())
    assert [translation.text for translation in early.translate(LINES, **options)] == expected
    assert [
        translation.text for translation in load(model_directory, engine="ctranslate2").translate(LINES, **options)
    ] != expected


def test_a_model_loaded_late_is_the_model_loaded_at_once(model_directory: Path):
    waiting, loaded = load(model_directory, engine="auto"), load(model_directory)
    assert waiting.manifest == loaded.manifest
    assert waiting.directory == loaded.directory
    assert waiting.score(LINES, LINES) == loaded.score(LINES, LINES)
    parameters = dict(waiting.bundle.model.named_parameters())
    for name, weight in loaded.bundle.model.named_parameters():
        assert torch.equal(parameters[name], weight)
    assert waiting.bundle.model is waiting.translator.models.loaded[0]
    assert waiting.trace(LINES[0]).facts.text == loaded.trace(LINES[0]).facts.text
