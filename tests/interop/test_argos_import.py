"""A package of Argos Translate becomes a model that computes what Argos computes, or is refused with a reason."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pellucid.data.tokenizer import EOS
from pellucid.interop.argos import import_argos_package
from pellucid.store.directory import load_bundle
from tests.cli.conftest import call as call
from tests.interop.marian_models import quiet
from tests.interop.test_argos import unpack, write_package
from tests.interop.test_ctranslate2_import import assert_same_scores, write_opennmt_model

pytestmark = quiet
pytest.importorskip("ctranslate2")

METADATA = {"package_version": "1.0", "argos_version": "1.9", "from_code": "en", "to_code": "pb"}


def pack(folder: Path, path: Path, metadata: dict[str, Any] = METADATA, root: str = "translate-en_pb-1_0/") -> Path:
    """Pack a directory of CTranslate2 with its SentencePiece model as the packages of Argos's index are packed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{root}metadata.json", json.dumps(metadata))
        archive.writestr(f"{root}README.md", "A package.")
        for file in sorted(folder.iterdir()):
            inside = file.name if file.name == "sentencepiece.model" else f"model/{file.name}"
            archive.write(file, root + inside)
        archive.writestr(f"{root}stanza/resources.json", "{}")
    return path


@pytest.mark.parametrize("rounding", [None, "int8"])
def test_a_package_as_argos_makes_them_computes_the_same(call: Any, tmp_path: Path, rounding: str | None):
    write_opennmt_model(tmp_path / "ct2", rounding)
    package = pack(tmp_path / "ct2", tmp_path / "translate-en_pb-1_0.argosmodel")
    result = call("import", package, tmp_path / "ours")
    assert result.exit_code == 0, result.stderr
    bundle = load_bundle(tmp_path / "ours")
    assert_same_scores(tmp_path / "ct2", bundle)
    # Argos hands over the pieces of a text and nothing behind them.
    assert EOS not in bundle.tokenizer.encode_source(["A red ball."])[0]
    assert bundle.manifest["languages"] == {"source": "en", "target": "pb"}
    assert bundle.manifest["imported"]["from"] == package.name
    assert bundle.manifest["imported"]["format"] == "argos"


def test_a_package_is_read_unpacked_and_under_another_name_too(tmp_path: Path):
    write_opennmt_model(tmp_path / "ct2")
    package = pack(tmp_path / "ct2", tmp_path / "download.zip")
    folder = unpack(package, tmp_path / "packages")
    first, second = (import_argos_package(path, tmp_path / "ours") for path in (package, folder))
    assert first.manifest["files"] == second.manifest["files"]
    flat = pack(tmp_path / "ct2", tmp_path / "flat.argosmodel", root="")
    assert import_argos_package(flat, tmp_path / "ours").manifest["files"] == first.manifest["files"]


def test_our_own_package_comes_back(tmp_path: Path):
    original, package = write_package(tmp_path)
    bundle, model = import_argos_package(package, tmp_path / "back"), load_bundle(original).model
    ours = dict(bundle.model.named_parameters())
    assert all(bool((weight == ours[name]).all()) for name, weight in model.named_parameters())
    assert bundle.tokenizer.config.source_end


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"type": "sbd"}, "its type is 'sbd', and only packages that translate are imported"),
        ({"target_prefix": "__es__"}, "each translation is to begin with '__es__'"),
        ({"from_code": None, "to_code": None, "source_languages": []}, "does not name one language to read"),
    ],
)
def test_other_packages_are_refused(tmp_path: Path, changes: dict[str, Any], part: str):
    write_opennmt_model(tmp_path / "ct2")
    metadata = {key: value for key, value in {**METADATA, **changes}.items() if value is not None}
    package = pack(tmp_path / "ct2", tmp_path / "en_pb.argosmodel", metadata)
    with pytest.raises(ValueError, match=part):
        import_argos_package(package, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_pieces_of_subword_nmt_are_not_read(tmp_path: Path):
    write_opennmt_model(tmp_path / "ct2")
    (tmp_path / "ct2" / "sentencepiece.model").unlink()
    package = pack(tmp_path / "ct2", tmp_path / "en_pb.argosmodel")
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr("translate-en_pb-1_0/bpe.model", "#version: 0.2\n")
    with pytest.raises(ValueError, match=r"has no sentencepiece.model, and bpe.model, of subword-nmt, is not read"):
        import_argos_package(package, tmp_path / "ours")


def test_a_sentence_names_the_package_and_not_where_it_was_unpacked(tmp_path: Path):
    write_opennmt_model(tmp_path / "ct2")
    (tmp_path / "ct2" / "shared_vocabulary.json").write_text("{}", encoding="utf-8")
    package = pack(tmp_path / "ct2", tmp_path / "en_pb.argosmodel")
    with pytest.raises(ValueError, match=r"en_pb.argosmodel, model/shared_vocabulary.json is not a list of pieces"):
        import_argos_package(package, tmp_path / "ours")


def test_an_archive_that_unpacks_to_far_more_than_a_model_is_refused_before_it_is(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "en_es.argosmodel", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/metadata.json", json.dumps(METADATA))
        archive.writestr("x/model/model.bin", b"\0" * 4_000_000)
    with pytest.raises(ValueError, match=r"and unpacks to 4,000,\d+, more than any model would"):
        import_argos_package(tmp_path / "en_es.argosmodel", tmp_path / "ours")


def test_a_package_that_is_cut_or_changed_is_refused(tmp_path: Path):
    write_opennmt_model(tmp_path / "ct2")
    package = pack(tmp_path / "ct2", tmp_path / "en_pb.argosmodel")
    content = package.read_bytes()
    damaged = [content[: len(content) // 2], b"<html>", content[:3000] + b"\0" * 300 + content[3300:]]
    for number, bytes_ in enumerate(damaged):
        path = tmp_path / f"{number}.argosmodel"
        path.write_bytes(bytes_)
        with pytest.raises(ValueError, match="download it again"):
            import_argos_package(path, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
