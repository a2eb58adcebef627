"""A package for Argos Translate translates there as the model itself does, and is refused where it could not."""

import json
import os
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from pellucid.cli.export import export_argos, translate_converted
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.decode.request import SearchConfig
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.store.directory import load_bundle, save_bundle
from tests.cli.conftest import call as call
from tests.cli.conftest import model as model
from tests.decode.models import LINES, random_model

ctranslate2 = pytest.importorskip("ctranslate2")


def write_package(directory: Path, joint: bool = True, **settings: Any) -> tuple[Path, Path]:
    """Save a model that writes nonsense and its package; return both paths."""
    config = TokenizerConfig(vocabulary=311, joint=joint, **settings)
    tokenizer = Tokenizer.train(LINES[::2], LINES[1::2], config, seed=1, max_sentences=99)
    model = random_model(3, tokenizer.source_vocabulary, tokenizer.target_vocabulary, max_positions=300)
    save_bundle(directory / "best", model, tokenizer, languages={"source": "en", "target": "pt-BR"})
    export_argos(load_bundle(directory / "best"), directory / "out.argosmodel", "float32", None)
    return directory / "best", directory / "out.argosmodel"


def unpack(package: Path, into: Path) -> Path:
    """Unpack as Argos Translate installs; return the folder of the package."""
    with zipfile.ZipFile(package) as archive:
        archive.extractall(into)
    (folder,) = into.iterdir()
    return folder


def join_as_argos_does(pieces: sentencepiece.SentencePieceProcessor, target: list[str]) -> str:
    return pieces.decode_pieces(target).replace("▁", " ").replace("_", " ").removeprefix(" ")


def translate_as_argos_does(folder: Path, lines: list[str], **search: Any) -> list[str]:
    """Translate as Argos Translate 1.11 does, with the files of a package alone."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder / "model"), intra_threads=1, compute_type="float32")
    cut = [pieces.encode(line, out_type=str) for line in lines]
    results = translator.translate_batch(cut, replace_unknowns=True, beam_size=4, **search)
    return [join_as_argos_does(pieces, result.hypotheses[0]) for result in results]


@pytest.mark.parametrize("joint", [True, False])
def test_the_package_translates_as_the_model_does(joint: bool, tmp_path: Path):
    model, package = write_package(tmp_path, joint)
    folder, bundle = unpack(package, tmp_path / "packages"), load_bundle(model)
    convert_to_ctranslate2(bundle.model, bundle.tokenizer, tmp_path / "converted", "float32")
    expected = translate_converted(bundle, tmp_path / "converted", LINES)
    # Argos stops at 256 pieces, this model after so many more than the source has.
    longest = max(map(len, bundle.tokenizer.encode_source(LINES))) + SearchConfig.max_extra
    assert translate_as_argos_does(folder, LINES, max_decoding_length=longest) == expected
    assert len(set(expected)) > 3


@pytest.mark.parametrize("joint", [True, False])
def test_pieces_are_joined_to_the_text_that_was_cut(joint: bool, tmp_path: Path):
    model, package = write_package(tmp_path, joint)
    folder, tokenizer = unpack(package, tmp_path / "packages"), load_bundle(model).tokenizer
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    lines = [*LINES, "El «ñandú» de 日本 — 37 %", "🙂 sí"]  # most of these characters are spelled as bytes
    written = [tokenizer.target_pieces(ids[:-1]) for ids in tokenizer.encode_target(lines)]
    assert [join_as_argos_does(pieces, names) for names in written] == lines


def test_the_package_says_what_it_is(tmp_path: Path):
    model, package = write_package(tmp_path)
    folder = unpack(package, tmp_path / "packages")
    assert folder.name == "translate-en_pt-BR-1_0"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "metadata.json",
        "model",
        "sentencepiece.model",
    ]
    description = json.loads((folder / "metadata.json").read_text("utf-8"))
    assert description["pellucid"]["sha256"] == load_bundle(model).manifest["sha256"]
    assert (description["from_code"], description["to_code"]) == ("en", "pt-BR")
    assert (description["from_name"], description["to_name"]) == ("English", "Portuguese (BR)")
    assert "install_from_path('out.argosmodel')" in (folder / "README.md").read_text("utf-8")


def test_the_command_writes_it_and_refuses_in_one_sentence(call: Any, model: Path, tmp_path: Path):
    result = call("export", model, "a.argosmodel", "--to", "argos", "--languages", "en:de")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"a.argosmodel: {(tmp_path / 'a.argosmodel').stat().st_size:,} bytes; to install")
    before = (tmp_path / "a.argosmodel").read_bytes()
    bundle = load_bundle(model)
    lower = replace(bundle.tokenizer, config=replace(bundle.tokenizer.config, lowercase=True))
    save_bundle(tmp_path / "lower", bundle.model, lower)
    for arguments, message in {
        "a.argosmodel": "does not say its languages; name them: --languages en:es",
        "a.argosmodel --languages en": "--languages is 'en', it must be two codes",
        "a.argosmodel --languages en:x!": "'x!' is not a language code",
        "a.argosmodel --languages en:de --shortlist-source a.en --shortlist-target a.de": "does not take --shortlist",
        "a.argosmodel --languages en:de --precision int8": "so it is measured first: give --dev-source",
        "a.zip --languages en:de": "a.zip must end in .argosmodel",
        "nowhere/a.argosmodel --languages en:de": "nowhere is not a folder",
    }.items():
        result = call("export", model, *arguments.split(), "--to", "argos")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), arguments
        assert message in result.stderr
    result = call("export", "lower", "a.argosmodel", "--to", "argos", "--languages", "en:de")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "the model reads lower case only" in result.stderr
    assert (
        "--to marian does not take --languages"
        in call("export", model, "out", "--to", "marian", "--languages", "en:de").stderr
    )
    assert (tmp_path / "a.argosmodel").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"a.argosmodel", "lower"}


# Argos fetches a model that splits text into sentences, which there is no network for.
USE_ARGOS = """
import json, sys
from argostranslate import package, sbd, translate
sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
package.install_from_path(sys.argv[1])
print(json.dumps([translate.translate(line, "en", "pt-BR") for line in json.loads(sys.argv[2])]))
"""


@pytest.mark.slow
def test_argos_translate_itself_loads_it(tmp_path: Path):
    """ARGOS_PYTHON names the interpreter of an environment with argostranslate."""
    if (python := os.environ.get("ARGOS_PYTHON")) is None:
        pytest.skip("ARGOS_PYTHON names no environment with argostranslate")
    _, package = write_package(tmp_path)
    folders = {f"XDG_{name}_HOME": str(tmp_path / "argos") for name in ("DATA", "CONFIG", "CACHE")}
    answer = subprocess.run(
        [python, "-c", USE_ARGOS, str(package), json.dumps(LINES)],
        env={**folders, "ARGOS_COMPUTE_TYPE": "float32", "PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
    )
    folder = unpack(package, tmp_path / "packages")
    expected = translate_as_argos_does(folder, LINES, length_penalty=0.2)
    assert json.loads(answer.stdout) == expected
