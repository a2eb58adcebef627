"""A model of another program is named for what it is, with the way to convert it, wherever a model can be named."""

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from pellucid.interop.marian import import_marian
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.store.foreign_models import explain_foreign_model
from tests.cli.conftest import call as call
from tests.decode.models import random_model, small_tokenizer
from tests.interop.marian_models import quiet, write_marian_model

pytestmark = quiet
SCRIPT = "python convert_marian_to_pytorch.py --src {} --dest NEW"
HUB = "pellucid import Helsinki-NLP/opus-mt-en-es OUT"
OURS = "make a model of Pellucid of it: pellucid import {} OUT"


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


# Marian keeps its settings as the bytes of a YAML text, beside the weights.
MARIAN = npz(
    **{
        "encoder_l1_self_Wq": np.zeros((3, 3), np.float32),
        "special:model.yml": np.frombuffer(b"dim-emb: 3\ntype: transformer\n\0", np.int8),
    }
)
CTRANSLATE2_HEAD = b"\6\0\0\0\x10\0TransformerSpec\0\7\0\0\0"


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def assert_named(path: Path, *parts: str) -> None:
    """The import and whatever loads a model say the same sentence, with these parts, and nothing is written."""
    sentence = explain_foreign_model(path)
    assert sentence is not None
    assert sentence.startswith(f"{path} ")
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence, sentence
    out = path.parent / "imported"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        import_marian(path, out)
    assert not out.exists()
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        load_bundle(path)


OPUS = {
    "decoder.yml": b"models:\n  - opus.npz\nvocabs:\n  - opus.vocab.yml\n  - opus.vocab.yml\n",
    "opus.npz": MARIAN,
    "opus.vocab.yml": b'"</s>": 0\n',
    "source.spm": b"",
    "target.spm": b"",
}


@pytest.mark.parametrize(
    "files",
    [
        OPUS,
        {"model.npz": MARIAN},
        {"model.npz.best-chrf.npz": MARIAN, "vocab.spm": b""},
        {"model.npz.decoder.yml": b"models: []"},
        {"config.json": b"{}", **{name: OPUS[name] for name in ("decoder.yml", "opus.npz")}},
    ],
)
def test_a_directory_of_marian_itself_is_named_with_the_script_that_converts_it(
    tmp_path: Path, files: dict[str, bytes]
):
    directory = write_files(tmp_path / "opus", files)
    assert_named(
        directory, "is a model in Marian's own format", SCRIPT.format(directory), "pellucid import NEW OUT", HUB
    )


@pytest.mark.parametrize(("name", "what"), [("opus.npz", "the weights"), ("decoder.yml", "the settings")])
def test_a_file_of_marian_itself_is_named_and_its_directory_converted(tmp_path: Path, name: str, what: str):
    directory = write_files(tmp_path / "opus", OPUS)
    assert_named(directory / name, f"has {what} of a model in Marian's own format", SCRIPT.format(directory))


def test_a_packed_model_of_marian_is_unpacked_first(tmp_path: Path):
    path = write_zip(tmp_path / "opus-2020-02-11.zip", OPUS)
    unpacked = tmp_path / "opus-2020-02-11"
    assert_named(
        path, "is a packed model in Marian's own format", f"(unzip {path} -d {unpacked})", SCRIPT.format(unpacked)
    )


def test_pieces_of_subword_nmt_are_said_to_have_no_converter(tmp_path: Path):
    files = {name: OPUS[name] for name in ("decoder.yml", "opus.npz")} | {"source.bpe": b"", "target.bpe": b""}
    for path in (write_files(tmp_path / "old", files), write_zip(tmp_path / "old.zip", files)):
        assert_named(path, "its pieces are those of subword-nmt (.bpe), which cannot be converted", HUB)


ARGOS = {
    "translate-en_es/metadata.json": b'{"from_code": "en", "to_code": "es"}',
    "translate-en_es/sentencepiece.model": b"",
    "translate-en_es/model/model.bin": CTRANSLATE2_HEAD,
}


@pytest.mark.parametrize("name", ["en_es.argosmodel", "en_es.zip"])
def test_a_package_of_argos_translate_is_named(tmp_path: Path, name: str):
    path = write_zip(tmp_path / name, ARGOS)
    assert_named(path, "is a package of Argos Translate; ", OURS.format(path))


def test_an_unpacked_package_of_argos_translate_is_named(tmp_path: Path):
    write_files(tmp_path, ARGOS)
    folder = tmp_path / "translate-en_es"
    assert_named(folder, "is a package of Argos Translate, unpacked; ", OURS.format(folder))


def test_a_package_of_argos_translate_that_did_not_arrive_whole_is_fetched_again(tmp_path: Path):
    write_files(tmp_path, {"en_es.argosmodel": b"<!doctype html>"})
    assert_named(tmp_path / "en_es.argosmodel", "is no ZIP archive; download it again")


@pytest.mark.parametrize(
    "files",
    [
        {"model.bin": CTRANSLATE2_HEAD},
        {"model.bin": b"\2\0\0\0\x0c\0WhisperSpec\0", "vocabulary.json": b"[]"},
        {"model.bin": b"version https://git-lfs.github.com/spec/v1\n", "shared_vocabulary.json": b"[]"},
        # As converters write a model of Hugging Face, with its tokenizer beside.
        {"model.bin": CTRANSLATE2_HEAD, "config.json": b"{}", "source.spm": b"", "source_vocabulary.json": b"[]"},
    ],
)
def test_a_directory_of_ctranslate2_is_named(tmp_path: Path, files: dict[str, bytes]):
    directory = write_files(tmp_path / "ct2", files)
    assert_named(directory, "is a model of CTranslate2 that pellucid did not export; ", OURS.format(directory))


def test_weights_of_ctranslate2_are_known_by_their_first_bytes(tmp_path: Path):
    write_files(tmp_path, {"weights": CTRANSLATE2_HEAD})
    assert_named(tmp_path / "weights", "has the weights of a model of CTranslate2; ", OURS.format(tmp_path))
    write_files(tmp_path, {"dictionary/model.bin": b"\1\0\0\0 a dictionary of another program"})
    assert explain_foreign_model(tmp_path / "dictionary") is None
    assert explain_foreign_model(tmp_path / "dictionary" / "model.bin") is None


def test_what_ctranslate2s_own_writer_wrote_is_known(tmp_path: Path):
    pytest.importorskip("ctranslate2")
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2

    vocabulary = small_tokenizer().source_vocabulary
    convert_to_ctranslate2(random_model(5, vocabulary, vocabulary), small_tokenizer(), tmp_path / "ct2", "float32")
    sentence = explain_foreign_model(tmp_path / "ct2" / "model.bin")
    assert sentence is not None
    assert "has the weights of a model of CTranslate2" in sentence
    with pytest.raises(ValueError, match=r"ct2 is a model of CTranslate2; make a model of Pellucid of it"):
        import_marian(tmp_path / "ct2", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.pt", "is a file of PyTorch, a pickle, which can run any program when it is opened"),
        ("step_100.pth", "is a file of PyTorch, a pickle"),
        ("last.ckpt", "is a checkpoint of another program, a pickle"),
        ("encoder.onnx", "is a model in ONNX"),
        ("model.gguf", "is a model in GGUF"),
        ("model.enes.intgemm.alphas.bin", "is a model of Firefox or Bergamot"),
    ],
)
def test_files_of_other_programs_are_named_too(tmp_path: Path, name: str, part: str):
    write_files(tmp_path, {name: b"\0" * 99})
    assert_named(tmp_path / name, part, HUB)


def test_a_directory_of_firefox_is_named(tmp_path: Path):
    files: dict[str, bytes] = dict.fromkeys(
        ("model.enes.intgemm.alphas.bin", "lex.50.50.enes.s2t.bin", "vocab.enes.spm"), b""
    )
    assert_named(write_files(tmp_path / "enes", files), "is a model of Firefox or Bergamot", "cannot be converted back")


def test_what_can_be_read_is_not_taken_for_another_programs_model(tmp_path: Path):
    """Files of other formats may lie beside those that are read."""
    theirs = write_marian_model(tmp_path / "theirs")
    write_files(theirs, {"decoder.yml": b"models: []", "opus.npz": MARIAN, "model.pt": b""})
    assert explain_foreign_model(theirs) is None
    ours = import_marian(theirs, tmp_path / "ours").directory
    save_bundle(tmp_path / "own", random_model(1, 63, 63), small_tokenizer())
    for path in (ours, tmp_path / "own", tmp_path, tmp_path / "nowhere", ours / "config.json"):
        assert explain_foreign_model(path) is None
    write_files(tmp_path / "numbers", {"some.npz": npz(a=np.zeros(3))})
    assert explain_foreign_model(tmp_path / "numbers") is None
    assert explain_foreign_model(tmp_path / "numbers" / "some.npz") is None


def test_the_commands_say_it_in_one_line_with_exit_code_2(call, tmp_path: Path):
    path = write_zip(tmp_path / "opus.zip", OPUS)
    for words in (("import", path, tmp_path / "ours"), ("translate", path), ("serve", path)):
        result = call(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"pellucid: {explain_foreign_model(path)}\n"
    assert not (tmp_path / "ours").exists()
