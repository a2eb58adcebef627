"""What CTranslate2 translates is translated without torch; what it cannot is translated with torch, as ever."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pellucid import bundle
from pellucid.api import load
from pellucid.data.tokenizer import EOS
from pellucid.model import Transformer
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


def ending_model(seed: int) -> Transformer:
    """What it writes comes to an end, and is never a close call in these tests."""
    vocabulary = small_tokenizer().source_vocabulary
    model = random_model(seed, vocabulary, vocabulary, d_model=20, heads=5, output_bias=True)
    with torch.no_grad():
        model.get_parameter("output_bias")[EOS] += 12.0
    return model


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A model directory that has been converted before."""
    directory = tmp_path / "runs" / "best"
    bundle.save_bundle(directory, ending_model(3), small_tokenizer())
    load(directory, engine="ctranslate2")
    return directory


def translated(place: Path, *options: str) -> tuple[list[str], bool]:
    """What `pellucid translate` prints in a process of its own, and whether that has imported torch."""
    lines = "".join(line + "\n" for line in LINES)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "translate", str(place), *options],
        input=lines.encode(),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().splitlines(), {"True": True, "False": False}[done.stderr.decode().strip()]


def test_ctranslate2_translates_without_torch(place: Path):
    expected = [each.text for each in load(place).translate(LINES)]
    assert translated(place) == (expected, False)
    assert translated(place, "--precision", "int8")[1], "it had yet to be converted"
    assert not translated(place, "--precision", "int8")[1]


def test_what_ctranslate2_cannot_do_is_done_with_torch(place: Path):
    expected = [each.text for each in load(place).translate(LINES, method="sample", max_extra=5)]
    assert translated(place, "--method", "sample", "--max-extra", "5") == (expected, True)


def test_weights_read_late_are_those_that_were_there_early(place: Path):
    drawn = {"method": "sample", "max_extra": 5}
    expected = [each.text for each in load(place).translate(LINES, **drawn)]
    early = load(place, engine="ctranslate2")
    bundle.save_bundle(place, ending_model(2), small_tokenizer())
    assert [each.text for each in early.translate(LINES, **drawn)] == expected
    assert [each.text for each in load(place, engine="ctranslate2").translate(LINES, **drawn)] != expected


def test_a_model_waits_and_is_then_the_same(place: Path):
    waiting, loaded = load(place, engine="auto"), load(place)
    assert waiting.manifest == loaded.manifest
    assert waiting.directory == loaded.directory
    assert waiting.score(LINES, LINES) == loaded.score(LINES, LINES)
    parameters = dict(waiting.bundle.model.named_parameters())
    for name, weight in loaded.bundle.model.named_parameters():
        assert torch.equal(parameters[name], weight)
    assert waiting.bundle.model is waiting.translator.models[0]
    assert waiting.trace(LINES[0]).facts.text == loaded.trace(LINES[0]).facts.text
