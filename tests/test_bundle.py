"""Model directories: what is saved is loaded, a save is whole or not at all, and damaged files are refused."""

import json
import os
import re
import shutil
import struct
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import save_file

from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.model import ModelConfig, Transformer
from pellucid.store import atomic
from pellucid.store import directory as bundle
from tests.decode.models import LINES, random_model, small_tokenizer


def make_model(seed: int = 1, tie: str = "all", **sizes) -> Transformer:
    torch.manual_seed(seed)
    vocabulary = small_tokenizer().source_vocabulary
    defaults = {"d_model": 6, "d_ff": 11, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "max_positions": 53}
    return Transformer(ModelConfig(vocabulary, vocabulary, tie=tie, **{**defaults, **sizes}))  # pyright: ignore[reportArgumentType]


@pytest.fixture
def model_directory(tmp_path: Path) -> Path:
    bundle.save_bundle(tmp_path / "model", make_model(), small_tokenizer(), step=7, dev={"bleu": 31.5})
    return tmp_path / "model"


def logits(transformer: Transformer) -> torch.Tensor:
    return transformer(torch.tensor([[5, 7, 11, 3], [13, 3, 0, 0]]), torch.tensor([[2, 17, 19], [2, 23, 29]]))


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize(("norm", "activation"), [("pre", "relu"), ("post", "swiglu")])
def test_a_loaded_model_computes_what_the_saved_one_did(tmp_path, tie, positions, norm, activation):
    before = make_model(tie=tie, positions=positions, norm=norm, activation=activation).eval()
    bundle.save_bundle(tmp_path / "m", before, small_tokenizer())
    generator = torch.get_rng_state()
    after = bundle.load_bundle(tmp_path / "m").model
    assert torch.equal(torch.get_rng_state(), generator)
    assert not after.training
    assert after.config == before.config
    assert torch.equal(logits(after), logits(before))
    assert (after.source_embedding is after.target_embedding) == (tie == "all")
    assert (after.output_embedding is after.target_embedding) == (tie != "none")
    assert all(parameter.requires_grad for parameter in after.parameters())


def test_rotary_positions_are_saved_and_loaded(tmp_path):
    before = make_model(positions="rotary", d_model=12).eval()
    bundle.save_bundle(tmp_path / "m", before, small_tokenizer())
    assert torch.equal(logits(bundle.load_bundle(tmp_path / "m").model), logits(before))


def test_two_vocabularies_are_saved_and_loaded(tmp_path):
    config = TokenizerConfig(kind="unigram", vocabulary=293, joint=False)
    tokenizer = Tokenizer.train(LINES, [line.upper() for line in LINES], config, seed=1, max_sentences=100)
    bundle.save_bundle(
        tmp_path / "m", random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer
    )
    loaded = bundle.load_bundle(tmp_path / "m")
    assert loaded.tokenizer.config == config
    assert loaded.tokenizer.encode_target(LINES) == tokenizer.encode_target(LINES)
    assert {path.name for path in (tmp_path / "m").iterdir()} == {
        "model.safetensors",
        "config.json",
        "manifest.json",
        "tokenizer.source.model",
        "tokenizer.target.model",
    }


def test_shared_weights_are_stored_once(model_directory: Path):
    numbers = sum(parameter.numel() for parameter in make_model().parameters())
    header = struct.unpack("<Q", (model_directory / "model.safetensors").read_bytes()[:8])[0]
    assert (model_directory / "model.safetensors").stat().st_size == 8 + header + 4 * numbers


def test_the_manifest_says_what_is_known_of_a_model(model_directory: Path):
    manifest = bundle.load_bundle(model_directory).manifest
    assert manifest == atomic.read_manifest(model_directory)
    assert (manifest["step"], manifest["dev"]) == (7, {"bleu": 31.5})
    assert set(manifest["files"]) == {"model.safetensors", "config.json", "tokenizer.model"}
    assert manifest["versions"]["torch"] == torch.__version__


def test_files_written_by_the_caller_are_part_of_the_bundle(tmp_path):
    def write_training_state(folder: Path) -> None:
        (folder / "training.json").write_text("{}", encoding="utf-8")

    bundle.save_bundle(tmp_path / "m", make_model(), small_tokenizer(), also=write_training_state)
    bundle.load_bundle(tmp_path / "m")
    (tmp_path / "m" / "training.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"training\.json was changed"):
        bundle.load_bundle(tmp_path / "m")


def test_every_file_of_a_model_can_be_read_by_whoever_reads_the_first(model_directory: Path):
    assert len({path.stat().st_mode for path in model_directory.iterdir()}) == 1


# Replacing


def test_a_save_replaces_the_model_that_is_there_and_leaves_nothing_beside_it(model_directory: Path):
    bundle.save_bundle(model_directory, make_model(seed=2), small_tokenizer(), step=8)
    assert torch.equal(logits(bundle.load_bundle(model_directory).model), logits(make_model(seed=2).eval()))
    assert [path.name for path in model_directory.parent.iterdir()] == ["model"]


def test_nothing_but_a_model_is_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="holds other things than a model"):
        bundle.save_bundle(tmp_path, make_model(), small_tokenizer())
    with pytest.raises(ValueError, match="is a file"):
        bundle.save_bundle(tmp_path / "notes.txt", make_model(), small_tokenizer())
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_failure_while_writing_leaves_the_old_model(model_directory: Path):
    def fail_to_write(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(atomic.WriteFailed, match=r"written: no space left on device; what stood there is"):
        bundle.save_bundle(model_directory, make_model(seed=2), small_tokenizer(), also=fail_to_write)
    assert bundle.load_bundle(model_directory).manifest["step"] == 7
    assert [path.name for path in model_directory.parent.iterdir()] == ["model"]


class Crash(BaseException):
    """Crash of the machine: no call after it has an effect."""


@pytest.mark.parametrize("existing", [False, True])
def test_a_crash_at_any_call_leaves_one_whole_model(tmp_path, monkeypatch, existing: bool):
    calls = 0
    while True:
        path = tmp_path / f"{calls}" / "model"
        if existing:
            bundle.save_bundle(path, make_model(), small_tokenizer(), step=7)
        with monkeypatch.context() as patch:
            remaining = calls

            def crash_when_none_remain(function):
                def call(*arguments, **keywords):
                    nonlocal remaining
                    if remaining == 0:
                        raise Crash
                    remaining -= 1
                    return function(*arguments, **keywords)

                return call

            for owner, name in (
                (Path, "rename"),
                (Path, "mkdir"),
                (Path, "write_text"),
                (os, "fsync"),
                (shutil, "rmtree"),
            ):
                patch.setattr(owner, name, crash_when_none_remain(getattr(owner, name)))
            try:
                bundle.save_bundle(path, make_model(seed=2), small_tokenizer(), step=8)
            except Crash:
                finished = False
            else:
                finished = True
        if existing or finished:
            steps = {8} if finished else {7, 8}
            assert bundle.load_bundle(path).manifest["step"] in steps
        bundle.save_bundle(path, make_model(seed=2), small_tokenizer(), step=9)
        assert bundle.load_bundle(path).manifest["step"] == 9
        assert [file.name for file in path.parent.iterdir()] == ["model"]
        if finished:
            break
        calls += 1
    assert calls >= 9


def test_a_model_replaced_while_it_is_read_is_read_again(model_directory: Path, monkeypatch):
    real_read, reads = bundle._read_bundle, 0

    def replace_and_read(directory: Path, lazy: bool):
        nonlocal reads
        reads += 1
        if reads == 1:
            bundle.save_bundle(model_directory, make_model(seed=2), small_tokenizer(), step=8)
        return real_read(directory, lazy)

    monkeypatch.setattr(bundle, "_read_bundle", replace_and_read)
    assert bundle.load_bundle(model_directory).manifest["step"] == 8
    assert reads == 2


# Hostile and damaged


def test_any_changed_byte_is_noticed(model_directory: Path):
    draw, manifest = Random(5), bundle.load_bundle(model_directory).manifest
    for path in sorted(model_directory.iterdir()):
        good = path.read_bytes()
        for _ in range(60):
            bad = bytearray(good)
            bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
            path.write_bytes(bad)
            try:
                loaded = bundle.load_bundle(model_directory)
            except ValueError:
                continue
            else:  # a space of the manifest became another white space
                assert path.name == "manifest.json"
                assert loaded.manifest == manifest
        for _ in range(20):
            path.write_bytes(good[: draw.randrange(len(good) - 1)])
            with pytest.raises(ValueError, match="model"):
                bundle.load_bundle(model_directory)
        path.write_bytes(good)
    bundle.load_bundle(model_directory)


def sign_files(directory: Path) -> None:
    """Replace the manifest by one that is true to the changed files, as a stranger would write it."""
    (directory / "manifest.json").unlink()
    atomic.write_manifest(directory, {})


def test_changed_files_with_a_true_manifest_load_as_valid_models_or_not_at_all(model_directory: Path):
    draw = Random(7)
    for name in ("model.safetensors", "config.json", "tokenizer.model"):
        good = (model_directory / name).read_bytes()
        header = 8 + struct.unpack("<Q", good[:8])[0] if name == "model.safetensors" else len(good)
        for _ in range(40):
            bad = bytearray(good)
            bad[draw.randrange(header)] ^= 1 << draw.randrange(8)
            (model_directory / name).write_bytes(bad[: draw.choice([len(bad), draw.randrange(len(bad))])])
            sign_files(model_directory)
            try:
                loaded = bundle.load_bundle(model_directory)
            except ValueError:
                with pytest.raises(ValueError, match="model"):
                    _ = bundle.load_bundle(model_directory, lazy=True).model
                continue
            assert logits(loaded.model).isfinite().all()
            assert torch.equal(logits(bundle.load_bundle(model_directory, lazy=True).model), logits(loaded.model))
        (model_directory / name).write_bytes(good)


def rewrite_sizes(directory: Path, **changes) -> None:
    tables = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    tables["model"] = {key: value for key, value in {**tables["model"], **changes}.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(tables), encoding="utf-8")
    sign_files(directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_modle": 6}, "unknown key 'd_modle'; did you mean 'd_model'?"),
        ({"d_ff": None}, "d_ff is missing"),
        ({"d_model": "6"}, "d_model is '6', which it cannot be"),
        ({"d_model": True}, "d_model is True, which it cannot be"),
        ({"dropout": float("nan")}, "dropout is nan, which it cannot be"),
        ({"norm": ["pre"]}, "norm is ['pre'], which it cannot be"),
        ({"norm": "sandwich"}, "norm is 'sandwich', which it cannot be"),
        ({"heads": 4}, "d_model 6 cannot be split into 4 heads"),
        ({"d_ff": 13}, "parameters expected"),
        ({"d_ff": 10**15}, "parameters expected"),
        ({"d_ff": 10**30}, "d_ff is 1000000000000000000000000000000, which it cannot be"),
        ({"encoder_layers": 10**9}, "a model of 1,000,000,002 layers; at most 1,000 are read"),
        ({"encoder_layers": 400, "decoder_layers": 400}, "parameters expected"),
        ({"encoder_layers": 3}, "encoder.1.ffn.inner.weight is missing"),
        ({"decoder_layers": 1}, "'decoder.1.cross.qkv.weight' is unknown"),
        ({"max_positions": 10**12}, "makes a table of positions of more than"),
        ({"positions": "learned"}, "source_positions.table is missing"),
        ({"source_vocabulary": 311, "target_vocabulary": 311}, "source_vocabulary is 311, its tokenizer has"),
        ({"d_model": None, "heads": None, "norm": 1}, "norm is 1, which it cannot be; d_model is missing; heads is"),
    ],
)
def test_sizes_that_do_not_fit_the_weights_are_refused_before_memory_is_taken(
    model_directory: Path, changes, message: str
):
    rewrite_sizes(model_directory, **changes)
    with pytest.raises(ValueError, match=re.escape(message)):
        bundle.load_bundle(model_directory)
    with pytest.raises(ValueError, match=re.escape(message)):
        _ = bundle.load_bundle(model_directory, lazy=True).model


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": 1}', '{"format": 2}', '{"format": 1, "model": 3}', "[" * 10_000, '"\\ud800"']
)
def test_a_malformed_config_is_refused(model_directory: Path, text: str):
    (model_directory / "config.json").write_text(text, encoding="utf-8")
    sign_files(model_directory)
    with pytest.raises(ValueError, match=r"config\.json"):
        bundle.load_bundle(model_directory)


def test_a_config_that_is_too_large_is_not_read(model_directory: Path):
    (model_directory / "config.json").write_text(" " * (2**20 + 1), encoding="utf-8")
    sign_files(model_directory)
    with pytest.raises(ValueError, match="it should have less than 1,048,576"):
        bundle.load_bundle(model_directory)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_infinite_or_nan_are_neither_saved_nor_loaded(model_directory: Path, value: float):
    broken = make_model()
    with torch.no_grad():
        broken.get_parameter("decoder.1.cross.output.weight")[2, 3] = value
    with pytest.raises(ValueError, match=r"infinite or not a number, in decoder\.1\.cross\.output\.weight"):
        bundle.save_bundle(model_directory, broken, small_tokenizer())
    weights = {name: parameter.detach() for name, parameter in broken.named_parameters()}
    save_file(weights, model_directory / "model.safetensors")
    sign_files(model_directory)
    with pytest.raises(ValueError, match="infinite or not a number"):
        bundle.load_bundle(model_directory)
    with pytest.raises(ValueError, match="infinite or not a number"):
        _ = bundle.load_bundle(model_directory, lazy=True).model


def test_weights_of_another_precision_are_refused(model_directory: Path):
    weights = {name: parameter.detach().half() for name, parameter in make_model().named_parameters()}
    save_file(weights, model_directory / "model.safetensors")
    sign_files(model_directory)
    with pytest.raises(ValueError, match="is F16, not F32"):
        bundle.load_bundle(model_directory)
    with pytest.raises(ValueError, match="is F16, not F32"):
        _ = bundle.load_bundle(model_directory, lazy=True).model


def write_hostile_layers(model_directory: Path) -> None:
    """Write many layers into the sizes, and an empty tensor into the file for each name that they would have."""
    rewrite_sizes(model_directory, encoder_layers=499, decoder_layers=499)
    empty = {f"{stack}.{n}.ffn.inner.bias": torch.zeros(0) for stack in ("encoder", "decoder") for n in range(499)}
    save_file(empty, model_directory / "model.safetensors")
    sign_files(model_directory)


def write_hostile_file(model_directory: Path) -> None:
    """Make the weights many gigabytes that take no room on the disk, of the size that the manifest names."""
    with (model_directory / "model.safetensors").open("r+b") as file:
        file.truncate(50 * 2**30)
    manifest = json.loads((model_directory / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["model.safetensors"]["bytes"] = 50 * 2**30
    manifest["sha256"] = atomic.manifest_sha256(manifest)
    (model_directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def write_hostile_table(model_directory: Path) -> None:
    rewrite_sizes(model_directory, max_positions=2**22)


@pytest.mark.parametrize("write_hostile", [write_hostile_layers, write_hostile_file, write_hostile_table])
@pytest.mark.parametrize("load", [bundle.load_bundle, partial(bundle.load_bundle, lazy=True)])
def test_a_model_made_to_cost_much_is_refused_before_it_is_hashed_read_or_built(
    model_directory: Path, monkeypatch, write_hostile, load
):
    write_hostile(model_directory)
    hashed_sizes, sha256, read_bytes = [], atomic.file_sha256, Path.read_bytes

    def read_small_file(path: Path) -> bytes:
        assert path.stat().st_size < 2**20
        return read_bytes(path)

    monkeypatch.setattr(atomic, "file_sha256", lambda path: hashed_sizes.append(path.stat().st_size) or sha256(path))
    monkeypatch.setattr(Path, "read_bytes", read_small_file)
    monkeypatch.setattr("pellucid.store.weights.Transformer", None)
    with pytest.raises(ValueError, match=r"the same model|not a safetensors file|a table of positions"):
        load(model_directory)
    assert max(hashed_sizes) < 2**20


LONG_TEXT = "".join(f"{n:05}" for n in range(400))


def with_long_texts(table, keys: tuple = ()):
    """Yield the keys that lead to each place of a table, and the table with a long text or number put there."""
    for key, value in table.items():
        yield (*keys, key), {**table, key: LONG_TEXT}
        yield (*keys, key), {**{name: table[name] for name in table if name != key}, LONG_TEXT: value}
        yield (*keys, key), {**table, key: [LONG_TEXT]}
        yield (*keys, key), {**table, key: 10**4200}
        if isinstance(value, dict):
            yield from (
                (location, {**table, key: changed}) for location, changed in with_long_texts(value, (*keys, key))
            )


@pytest.mark.parametrize("file", ["config.json", "manifest.json"])
@pytest.mark.parametrize("load", [bundle.load_bundle, partial(bundle.load_bundle, lazy=True)])
def test_no_message_repeats_more_than_a_line_of_a_damaged_file(model_directory: Path, file: str, load):
    good = (model_directory / file).read_bytes()
    for location, table in with_long_texts(json.loads(good)):
        if file == "manifest.json" and location != ("sha256",):
            table["sha256"] = atomic.manifest_sha256(table)
        (model_directory / file).write_text(json.dumps(table), encoding="utf-8")
        if file == "config.json":
            sign_files(model_directory)
        try:
            load(model_directory)
        except ValueError as error:
            message = str(error).replace(str(model_directory), "")
            assert len(message) < 1000, location
            assert not any(LONG_TEXT[n : n + 100] in message for n in range(0, len(LONG_TEXT), 100)), location
        (model_directory / file).write_bytes(good)
        if file == "config.json":
            sign_files(model_directory)


def test_a_manifest_may_not_name_files_elsewhere(model_directory: Path):
    for name in ("../secret", "/etc/passwd", "a/b", "..", "", "c:\\x"):
        manifest = json.loads((model_directory / "manifest.json").read_text(encoding="utf-8"))
        manifest["files"][name] = {"bytes": 0, "sha256": ""}
        manifest["sha256"] = atomic.manifest_sha256(manifest)
        (model_directory.parent / "hostile").mkdir(exist_ok=True)
        (model_directory.parent / "hostile" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        with pytest.raises(ValueError, match="does not list the files of this directory"):
            bundle.load_bundle(model_directory.parent / "hostile")


def test_a_path_that_is_not_a_model_is_refused_with_what_it_is(model_directory: Path, tmp_path):
    bundle.save_bundle(tmp_path / "run" / "best", make_model(), small_tokenizer())
    (tmp_path / "empty").mkdir()
    newest = tmp_path / "checkpoints" / "step-00000020"
    for path in (newest, newest.with_name("step-00000010")):
        bundle.save_bundle(path, make_model(), small_tokenizer())
    exported = {"exported": {"from": "best"}}
    for name, files, manifest in (
        ("ct2", ("model.bin", "config.json"), exported),
        ("marian", ("source.spm", "config.json", "model.safetensors"), exported),
        ("shards", ("0.bin",), {"kind": "pellucid shards"}),
        ("trace", ("trace.json", "tensors.safetensors"), {}),
        ("opus", ("source.spm", "config.json"), None),
        ("stranger", ("model.bin", "shared_vocabulary.json"), None),
    ):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_bytes(b"")
        if manifest is not None:
            atomic.write_manifest(tmp_path / name, manifest)
    cases = {
        tmp_path / "nowhere": "does not exist; a model is a directory such as runs/demo/best",
        model_directory / "config.json": "is a file; a model is a directory such as",
        tmp_path / "run": f"is a run, not a model; did you mean {tmp_path / 'run' / 'best'}?",
        tmp_path / "empty": "is not a model directory: manifest.json is missing",
        tmp_path / "checkpoints": f"holds checkpoints, each of them a model; did you mean {newest}?",
        tmp_path / "ct2": "is an export to CTranslate2 without the tokenizer; name the model it was made of ('best')",
        tmp_path / "marian": "is an export to Marian; name the model it was made of ('best'), or make a model of it",
        tmp_path / "shards": "holds text prepared for training, not a model; a run reads it with data.shards",
        tmp_path / "trace": "is a saved trace, not a model",
        tmp_path / "opus": f"is a Marian model of Hugging Face; `pellucid import {tmp_path / 'opus'} OUT` makes",
        tmp_path / "stranger": "is a model of CTranslate2 that pellucid did not export",
    }
    for path, message in cases.items():
        with pytest.raises(ValueError, match=re.escape(f"{path} {message}")):
            bundle.load_bundle(path)


def test_all_missing_files_are_named_at_once(model_directory: Path):
    (model_directory / "config.json").unlink()
    (model_directory / "tokenizer.model").unlink()
    with pytest.raises(ValueError, match=r"config\.json is missing; tokenizer\.model is missing; restore it"):
        bundle.load_bundle(model_directory)


def test_a_model_without_its_tokenizer_is_refused(model_directory: Path):
    (model_directory / "tokenizer.model").unlink()
    sign_files(model_directory)
    with pytest.raises(ValueError, match=r"lacks tokenizer\.model"):
        bundle.load_bundle(model_directory)


def test_the_settings_of_a_model_are_those_it_was_saved_with(model_directory: Path):
    tables = json.loads((model_directory / "config.json").read_text(encoding="utf-8"))
    assert tables["model"] == asdict(make_model().config)
    assert tables["tokenizer"] == asdict(small_tokenizer().config)
