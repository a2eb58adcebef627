"""Conversion to CTranslate2: the same function as the model, refusals, and the cache of conversions."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.decode.torch_engine import score_targets
from pellucid.interop import conversion_cache
from pellucid.interop import ctranslate2 as conversion
from pellucid.interop.conversion_cache import converted_directory
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.ctranslate2_library import precision_of
from pellucid.model import Transformer
from pellucid.store.directory import Bundle, load_bundle, save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.model.models import add_noise
from tests.tolerances import approx_log_prob, relative_rounding

ctranslate2 = pytest.importorskip("ctranslate2")

OPTIONS = [
    {"norm": "pre", "positions": "sinusoidal", "activation": "relu", "encoder_layers": 1},
    {"norm": "post", "positions": "sinusoidal", "activation": "relu", "output_bias": True},
    {"norm": "pre", "positions": "learned", "activation": "gelu", "decoder_layers": 1},
    {"norm": "post", "positions": "learned", "activation": "swiglu", "output_bias": True},
    {"norm": "pre", "positions": "rotary", "activation": "silu"},
    {"norm": "post", "positions": "rotary", "activation": "gelu"},
    {"norm": "pre", "positions": "none", "activation": "swiglu"},
    {"norm": "post", "positions": "none", "activation": "silu"},
    {"norm": "rms", "positions": "rotary", "activation": "swiglu", "output_bias": True},
]


def model_for(tokenizer: Tokenizer, **options) -> Transformer:
    """Return a small random model with no weight at a special value and five heads of width four."""
    sizes = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    return add_noise(random_model(1, *sizes, **{"d_model": 20, "heads": 5, **options}))


def separate_tokenizer() -> Tokenizer:
    return Tokenizer.train(
        LINES[::2], LINES[1::2], TokenizerConfig(vocabulary=293, joint=False), seed=1, max_sentences=9
    )


def largest_error(model: Transformer, tokenizer: Tokenizer, directory: Path) -> float:
    """Return the largest difference of the log-probabilities of conversion and model, as a share of the largest."""
    sources, targets = tokenizer.encode_source(LINES), tokenizer.encode_target(LINES[::-1])
    scored = ctranslate2.Translator(str(directory), intra_threads=1, compute_type="float32").score_batch(
        [tokenizer.source_pieces(ids[:-1]) for ids in sources],
        [tokenizer.target_pieces(ids[:-1]) for ids in targets],
        max_input_length=0,
    )
    with torch.inference_mode():
        expected = score_targets(model, sources, targets)
    assert [len(scores.log_probs) for scores in scored] == [len(row) for row in expected]
    ours, theirs = (np.concatenate(rows) for rows in (expected, [scores.log_probs for scores in scored]))
    return np.abs(theirs - ours).max() / np.abs(ours).max()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(map(str, options.values())))
def test_a_converted_model_gives_each_piece_the_same_probability(options, tmp_path: Path):
    tokenizer = small_tokenizer()
    model = model_for(tokenizer, **options)
    convert_to_ctranslate2(model, tokenizer, tmp_path / "out", "float32")
    assert largest_error(model, tokenizer, tmp_path / "out") < relative_rounding()


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_every_way_of_tying_is_converted(tie, tmp_path: Path):
    tokenizer = small_tokenizer() if tie == "all" else separate_tokenizer()
    torch.manual_seed(2)
    config = model_for(tokenizer, output_bias=True).config
    model = add_noise(Transformer(replace(config, tie=tie)).eval())
    convert_to_ctranslate2(model, tokenizer, tmp_path / "out", "float32")
    assert largest_error(model, tokenizer, tmp_path / "out") < relative_rounding()


def test_odd_pieces_keep_their_numbers(tmp_path: Path):
    odd = [
        'say "no" \\ or \\u0041',
        "a\u00a0b\u2028c\td\x0b\x1f",
        "</s> <unk> <0x0A>",
        "\U0001f600\u200d\u0301 \ufeff",
        "'  # : -",
    ]
    tokenizer = Tokenizer.train(odd, odd, TokenizerConfig(vocabulary=360), seed=1, max_sentences=9)
    model = model_for(tokenizer, max_positions=400)
    convert_to_ctranslate2(model, tokenizer, tmp_path / "out", "float32")
    all_ids = [*range(4, tokenizer.source_vocabulary), EOS]
    [scored] = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1).score_batch(
        [tokenizer.source_pieces(all_ids[:-1])], [tokenizer.target_pieces(all_ids[:80])], max_input_length=0
    )
    with torch.inference_mode():
        [expected] = score_targets(model, [all_ids], [[*all_ids[:80], EOS]])
    assert scored.log_probs == approx_log_prob(expected)


def test_a_smaller_precision_makes_a_smaller_file_and_a_larger_difference(tmp_path: Path):
    tokenizer = small_tokenizer()
    model = model_for(tokenizer)
    sizes, errors = {}, {}
    for precision in ("float32", "bfloat16", "int8"):
        convert_to_ctranslate2(model, tokenizer, tmp_path / precision, precision)
        sizes[precision] = (tmp_path / precision / "model.bin").stat().st_size
        errors[precision] = largest_error(model, tokenizer, tmp_path / precision)
        assert precision_of(tmp_path / precision) == precision
    assert sizes["int8"] < 0.7 * sizes["float32"] > sizes["bfloat16"]
    assert errors["float32"] < relative_rounding() < errors["bfloat16"] < errors["int8"] < 0.5


def test_every_reason_against_a_conversion_is_named_before_anything_is_written(tmp_path: Path):
    tokenizer = small_tokenizer()
    model = random_model(1, 283, tokenizer.target_vocabulary).bfloat16()
    with pytest.raises(ValueError, match="CTranslate2 cannot hold this model") as refusal:
        convert_to_ctranslate2(model, tokenizer, tmp_path / "out", "int4", vmap=tmp_path / "absent")
    for reason in (
        "precision is 'int4', it must be one of float32, bfloat16, int8",
        "the model was loaded as bfloat16; load it in float32",
        f"the model knows 283 source pieces, the tokenizer {tokenizer.source_vocabulary}",
        f"there is no file {tmp_path / 'absent'}",
    ):
        assert reason in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_pieces_with_the_same_text_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tokenizer = small_tokenizer()
    names = tokenizer.target_names
    monkeypatch.setattr(Tokenizer, "target_names", property(lambda self: [*names[:-1], "<s>"]))
    with pytest.raises(ValueError, match="target pieces repeat: '<s>'"):
        convert_to_ctranslate2(model_for(tokenizer), tokenizer, tmp_path / "out", "float32")


def test_weights_that_are_no_numbers_or_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tokenizer = small_tokenizer()
    model = model_for(tokenizer)
    with torch.no_grad():
        model.decoder_norm.get_parameter("bias")[3] = torch.nan
    with pytest.raises(ValueError, match=r"not a number, in decoder_norm\.bias"):
        convert_to_ctranslate2(model, tokenizer, tmp_path / "out", "float32")
    monkeypatch.setattr(conversion, "_LARGEST_TENSOR", 4 * 20 * tokenizer.source_vocabulary - 1)
    with pytest.raises(ValueError, match=r"does not fit its files: source_embedding\.weight; target_embedding"):
        convert_to_ctranslate2(model, tokenizer, tmp_path / "out", "float32")
    assert not list(tmp_path.iterdir())


def test_a_missing_library_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ValueError, match=r"pip install 'pellucid\[ctranslate2\]'"):
        convert_to_ctranslate2(model_for(small_tokenizer()), small_tokenizer(), tmp_path / "out", "float32")


def test_a_directory_of_something_else_is_no_conversion(tmp_path: Path):
    save_bundle(tmp_path / "model", model_for(small_tokenizer()), small_tokenizer())
    with pytest.raises(ValueError, match="not a model converted for CTranslate2"):
        precision_of(tmp_path / "model")


@pytest.fixture
def model(tmp_path: Path) -> Bundle:
    return save_model(tmp_path / "run" / "best", seed=1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def save_model(directory: Path, seed: int) -> Bundle:
    tokenizer = small_tokenizer()
    save_bundle(directory, random_model(seed, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    return load_bundle(directory)


def test_a_conversion_is_kept_beside_the_model_and_found_again(model: Bundle):
    directory = converted_directory(model, "float32")
    assert directory.parent == model.directory.parent / ".best.ctranslate2"
    assert largest_error(model.model, model.tokenizer, directory) < relative_rounding()
    written_at = (directory / "model.bin").stat().st_mtime_ns
    assert converted_directory(load_bundle(model.directory), "float32") == directory
    assert (directory / "model.bin").stat().st_mtime_ns == written_at


@pytest.mark.parametrize("damage", ["changed", "cut off", "missing", "no manifest"])
def test_a_damaged_conversion_is_made_anew(model: Bundle, damage: str):
    directory = converted_directory(model, "float32")
    content = (directory / "model.bin").read_bytes()
    if damage == "changed":
        (directory / "model.bin").write_bytes(content[:-9] + b"\x55" + content[-8:])
    elif damage == "cut off":
        (directory / "model.bin").write_bytes(content[:-1])
    else:
        (directory / ("model.bin" if damage == "missing" else "manifest.json")).unlink()
    assert converted_directory(model, "float32") == directory
    assert (directory / "model.bin").read_bytes() == content
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


def test_another_model_in_the_same_directory_gets_a_conversion_of_its_own(model: Bundle):
    first, other_precision = converted_directory(model, "float32"), converted_directory(model, "int8")
    retrained = save_model(model.directory, seed=2)
    second = converted_directory(retrained, "float32")
    assert second != first
    assert largest_error(retrained.model, retrained.tokenizer, second) < relative_rounding()
    assert {path.name for path in second.parent.iterdir()} == {second.name, other_precision.name}
    assert converted_directory(model, "float32") == first  # a process that still holds the old model goes on with it


def test_a_folder_that_cannot_be_written_is_replaced_by_the_next(model: Bundle, tmp_path: Path):
    (model.directory.parent / ".best.ctranslate2").write_text("a file where a folder should be")
    directory = converted_directory(model, "float32")
    assert directory.parent.parent == tmp_path / "cache" / "pellucid"
    assert converted_directory(model, "float32") == directory


@pytest.mark.parametrize("home", ["cannot be written", "does not exist"])
def test_without_any_folder_a_conversion_is_removed_when_the_program_ends(
    model: Bundle, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (model.directory.parent / ".best.ctranslate2").write_text("a file")
    if home == "cannot be written":
        (tmp_path / "cache").write_text("a file")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "~nobody-of-this-name/cache")
    at_exit = []
    monkeypatch.setattr(
        conversion_cache.atexit, "register", lambda *arguments, **options: at_exit.append((arguments, options))
    )
    directory = converted_directory(model, "float32")
    assert largest_error(model.model, model.tokenizer, directory) < relative_rounding()
    ((remove, *remove_arguments), options) = at_exit[0]
    remove(*remove_arguments, **options)
    assert not directory.exists()


def test_conversions_at_the_same_time_do_not_break_each_other(model: Bundle):
    with ThreadPoolExecutor(8) as threads:
        directories = set(threads.map(lambda _: converted_directory(model, "float32"), range(16)))
    (directory,) = directories
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]
    assert largest_error(model.model, model.tokenizer, directory) < relative_rounding()


def test_remains_of_a_crash_are_removed_a_day_later(model: Bundle, monkeypatch: pytest.MonkeyPatch):
    folder = model.directory.parent / ".best.ctranslate2"
    (folder / "new-crashed").mkdir(parents=True)
    converted_directory(model, "float32")
    assert (folder / "new-crashed").exists()
    tomorrow = conversion_cache.time.time() + 25 * 3600
    monkeypatch.setattr(conversion_cache.time, "time", lambda: tomorrow)
    converted_directory(model, "int8")
    assert not (folder / "new-crashed").exists()
