"""The README of an export for CTranslate2: its program translates as the model does, and nobody adds the end twice."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.api import load
from pellucid.cli.export import export_ctranslate2, translate_converted
from pellucid.data.corpus import read_lines
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.evaluate.scores import corpus_scores
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.store.directory import Bundle, load_bundle, save_bundle
from tests.decode.models import LINES, random_model
from tests.demo_model import DEMO, needs_demo

ctranslate2 = pytest.importorskip("ctranslate2")

LONGEST = 70  # so short that the program and `translate_converted` stop at the same length
TOKENIZERS = {
    "joint": {},
    "separate": {"joint": False},
    "lower case": {"lowercase": True},
    "multilingual": {"languages": ["es", "de"]},
}


def save_random_model(directory: Path, languages=(), **settings) -> Bundle:
    config = TokenizerConfig(vocabulary=311, **settings)
    tokenizer = Tokenizer.train(LINES[::2], LINES[1::2], config, seed=1, max_sentences=99, languages=languages)
    sizes = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    save_bundle(directory, random_model(3, *sizes, max_positions=LONGEST), tokenizer)
    return load_bundle(directory)


def run_readme(export: Path, lines: list[str], change=lambda program: program) -> list[str]:
    """Run the program of an export's README as its reader would, and return what it writes."""
    [program] = re.findall(r"```python\n(.*?)```", (export / "README.md").read_text("utf-8"), re.DOTALL)
    # Nothing of Pellucid is on the path: the folder must be enough.
    command = [sys.executable, "-X", "utf8", "-c", change(program)]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, cwd=export, input=text, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("settings", TOKENIZERS.values(), ids=TOKENIZERS)
def test_the_program_of_the_readme_translates_as_the_model_does(settings, tmp_path: Path):
    bundle = save_random_model(tmp_path / "best", **settings)
    export_ctranslate2(bundle, tmp_path / "out", "float32", None, None)
    lines = [*LINES, "", "WHERE is «the» house — 37 % of 日本?"]
    if bundle.tokenizer.languages:
        bundle.tokenizer = bundle.tokenizer.into("es")
    expected = translate_converted(bundle, tmp_path / "out", lines)
    assert len(set(expected)) > 3
    assert run_readme(tmp_path / "out", lines) == [" ".join(text.split(" ")).strip() for text in expected]


def test_an_export_of_before_which_lacks_the_setting_translates_as_a_new_one(tmp_path: Path):
    bundle = save_random_model(tmp_path / "best")
    export_ctranslate2(bundle, tmp_path / "new", "float32", None, None)
    convert_to_ctranslate2(
        bundle.model,
        bundle.tokenizer,
        tmp_path / "old",
        "float32",
        also=lambda folder: set_source_end(folder / "config.json", added=False),
        exported={"format": "ctranslate2", "sha256": bundle.manifest["sha256"]},
    )
    new, old = (
        [
            (line.text, line.score)
            for line in load(tmp_path / "best", engine="ctranslate2", exported=tmp_path / name).translate(LINES)
        ]
        for name in ("new", "old")
    )
    torch = load(tmp_path / "best", engine="torch").translate(LINES)
    assert new == old
    assert [text for text, _ in new] == [line.text for line in torch]


def set_source_end(path: Path, added: bool) -> None:
    config = json.loads(path.read_text("utf-8"))
    assert config["add_source_eos"] is True
    path.write_text(json.dumps({**config, "add_source_eos": added}), encoding="utf-8")


@needs_demo
@pytest.mark.slow  # the program translates as the model does, below
def test_on_the_phrasebook_the_program_has_the_score_of_pellucid(tmp_path: Path):
    sources, references = (list(read_lines(DEMO / "data" / f"test.{code}"))[:300] for code in ("en", "es"))
    english, spanish = (list(read_lines(DEMO / "data" / f"train.{code}"))[:3000] for code in ("en", "es"))
    export_ctranslate2(load_bundle(DEMO / "best"), tmp_path / "out", "float32", None, (english, spanish))

    def measure(texts: list[str]) -> float:
        return corpus_scores(texts, [references])["bleu"]["score"]

    # The program reads each line as it is.
    ours = [line.text for line in load(DEMO / "best").translate(sources, beam=4, sentences="keep")]
    theirs = run_readme(tmp_path / "out", sources)
    # CTranslate2 weighs length a little differently.
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) >= 0.98 * len(sources)
    assert measure(theirs) == pytest.approx(measure(ours), abs=0.5)
    # The same search, and so the same texts.
    greedy = [line.text for line in load(DEMO / "best").translate(sources, method="greedy", sentences="keep")]
    assert run_readme(tmp_path / "out", sources, lambda text: text.replace("beam_size=4", "beam_size=1")) == greedy
    # What the setting is for: without the end of the source more translations are wrong.
    set_source_end(tmp_path / "out" / "config.json", added=False)
    endless = run_readme(tmp_path / "out", sources)
    assert endless != theirs
