"""Models that cannot be held are refused with every reason before anything is written; no file is trusted."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.interop.marian import export_marian, import_marian
from pellucid.model import ModelConfig, Transformer
from pellucid.store import atomic
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.interop.marian_models import change_config, quiet, write_json, write_marian_model

pytestmark = quiet


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return write_marian_model(tmp_path / "theirs")


def assert_refused(directory: Path, message: str) -> None:
    out = directory.parent / "ours"
    with pytest.raises(ValueError, match=message):
        import_marian(directory, out)
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bart"}, "model_type is 'bart'; only 'marian' and 'pegasus' can be imported"),
        ({"model_type": ["marian"]}, "model_type is ['marian']; only"),
        ({"scale_embedding": False}, "scale_embedding is not true: embeddings are multiplied by sqrt(d_model) here"),
        ({"normalize_embedding": True}, "normalize_embedding is True, it must be False: there is no norm after"),
        ({"static_position_embeddings": False}, "static_position_embeddings is False, it must be True: transformers"),
        ({"normalize_before": True}, "normalize_before is True, it must be False: in transformers a marian model has"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm is True, it must be False: in transformers a marian"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder is False, it must be True: half a model"),
        ({"forced_bos_token_id": 5}, "forced_bos_token_id is 5, it must be None: no piece is forced here"),
        (
            {"auto_map": {"AutoModel": "evil.py"}},
            "auto_map is {'AutoModel': 'evil.py'}, it must be None: it names code",
        ),
        ({"activation_function": "gelu_new"}, "activation_function is 'gelu_new', the feed-forward knows relu, gelu, "),
        ({"activation_function": ["relu"]}, "activation_function is ['relu'], the feed-forward knows"),
        ({"decoder_ffn_dim": 13}, "encoder_ffn_dim is 11 and decoder_ffn_dim 13: encoder and decoder have one inner"),
        ({"decoder_attention_heads": 7}, "encoder_attention_heads is 2 and decoder_attention_heads 7: encoder and"),
        ({"num_hidden_layers": 5}, "num_hidden_layers is 5 and encoder_layers 2: they are two names of one number"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1, it must be true or false"),
        ({"dropout": "0.1"}, "dropout is '0.1', it must be a rate from 0 to 1"),
        ({"dropout": float("nan")}, "dropout is nan, it must be a rate from 0 to 1"),
        ({"dropout": 1}, "this is not a model: dropout is 1.0, it must be at least 0 and below 1"),
        ({"encoder_attention_heads": 5, "decoder_attention_heads": 5}, "d_model 14 cannot be split into 5 heads"),
        ({"d_model": "14"}, "d_model is '14', it must be a number from 1 to 2,147,483,648"),
        ({"decoder_layers": None}, "decoder_layers is None, it must be a number"),
        ({"encoder_layers": True}, "encoder_layers is True, it must be a number"),
        ({"max_position_embeddings": 2**31}, "makes a table of positions of more than 67,108,864 numbers"),
        ({"max_position_embeddings": 10**30}, "it must be a number from 1 to"),
        ({"vocab_size": 10**9}, "vocab.json has 63 pieces, the model 1000000000"),
        ({"decoder_vocab_size": 97}, "decoder_vocab_size is 97, vocab_size 63, and both sides share pieces"),
        ({"pad_token_id": 3}, "vocab.json gives <pad> the number 62, config.json says 3"),
        ({"eos_token_id": [0]}, "vocab.json gives </s> the number 0, config.json says [0]"),
        ({"decoder_start_token_id": 63}, "decoder_start_token_id is 63, which is no piece"),
        ({"decoder_start_token_id": -1}, "decoder_start_token_id is -1, which is no piece"),
        ({"decoder_start_token_id": 2.0}, "decoder_start_token_id is 2.0, which is no piece"),
    ],
)
def test_a_config_that_cannot_be_held_is_refused(theirs: Path, changes: dict[str, Any], message: str):
    change_config(theirs, **changes)
    assert_refused(theirs, rf"cannot be imported: .*{re.escape(message)}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 10**8}, "no machine holds|table of positions"),
        (
            {"d_model": 28, "encoder_attention_heads": 2},
            r"encoder_attn\.k_proj\.bias is \(14,\), expected \(28,\); .*; and 98 more",
        ),
        (
            {"encoder_ffn_dim": 2**31, "decoder_ffn_dim": 2**31},
            r"fc1\.weight is \(11, 14\), expected \(2147483648, 14\)",
        ),
        ({"encoder_layers": 2**31}, "2,147,483,651 layers expected"),
        ({"encoder_layers": 1}, r"'model\.encoder\.layers\.1\.[a-z0-9_.]+' is unknown"),
        ({"decoder_layers": 4}, r"model\.decoder\.layers\.3\.self_attn\.q_proj\.weight is missing"),
        ({"model_type": "pegasus"}, r"model\.encoder\.layer_norm\.weight is missing"),
        (
            {"tie_word_embeddings": False},
            r"model\.encoder\.embed_tokens\.weight is missing; .*lm_head\.weight is missing",
        ),
    ],
)
def test_weights_of_other_sizes_are_refused_before_memory_is_taken(theirs: Path, changes: dict[str, Any], message: str):
    change_config(theirs, **changes)
    assert_refused(theirs, message)


def test_every_problem_is_named_at_once(theirs: Path):
    change_config(
        theirs, scale_embedding=False, activation_function="tanh", decoder_ffn_dim=13, decoder_start_token_id=200
    )
    write_json(theirs / "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "unk_token": "??"})
    assert_refused(
        theirs,
        "decoder_ffn_dim 13.*scale_embedding is not true.*activation_function is 'tanh'.*T5Tokenizer.*unk_token is '??'"
        ".*decoder_start_token_id is 200".replace("??", r"\?\?"),
    )


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("tokenizer_config.json", {"eos_token": {"content": "<eos>"}}, "eos_token is '<eos>', only '</s>' is read"),
        ("special_tokens_map.json", {"pad_token": ["<pad>"]}, "pad_token is ['<pad>'], only '<pad>' is read"),
        (
            "tokenizer_config.json",
            {"sp_model_kwargs": {"enable_sampling": True}},
            "sp_model_kwargs of tokenizer_config",
        ),
        (
            "tokenizer_config.json",
            {"separate_vocabs": "yes"},
            "separate_vocabs of tokenizer_config.json is neither true",
        ),
        ("tokenizer_config.json", {"separate_vocabs": True}, "target_vocab.json is missing"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"9": {"content": "<x>"}}},
            "SentencePiece does not produce: '<x>'",
        ),
        ("special_tokens_map.json", {"additional_special_tokens": ["<b>", "<a>"]}, "does not produce: '<a>, <b>'"),
        ("added_tokens.json", {"<z>": 7}, "does not produce: '<z>'"),
        ("generation_config.json", {"forced_bos_token_id": 4}, "forces the first piece to be 4: no piece is forced"),
        ("vocab.json", {"</s>": 0, "<unk>": 2, "<pad>": 1, "a": 4}, "a number of its own, from 0 to 3"),
        ("vocab.json", {"</s>": 0, "<unk>": 2, "<pad>": 1, "a": 2}, "a number of its own, from 0 to 3"),
        ("vocab.json", {"</s>": 0, "<unk>": 2, "<pad>": True}, "a number of its own, from 0 to 2"),
        (
            "vocab.json",
            {"</s>": 0, "<unk>": 1, "a": 2},
            "vocab.json has no <pad>; vocab.json has 3 pieces, the model 63",
        ),
        ("vocab.json", {"</s>": 0, "<unk>": 1, "<pad>": 2, "\ud800": 3}, "has a piece that is not valid text"),
        ("vocab.json", {"</s>": 0, "<unk>": 1, "<pad>": 2, "a\0": 3}, "has a piece that is not valid text"),
    ],
)
def test_a_tokenizer_with_other_rules_is_refused(theirs: Path, name: str, table: dict[str, Any], message: str):
    (theirs / name).write_text(json.dumps(table), encoding="utf-8")
    assert_refused(theirs, re.escape(message))


def test_a_pickle_is_not_opened(theirs: Path):
    (theirs / "model.safetensors").rename(theirs / "pytorch_model.bin")
    assert_refused(
        theirs, r"model\.safetensors is missing, and pytorch_model\.bin is a pickle, .* convert it with python -c"
    )


def test_weights_in_several_files_are_refused(theirs: Path):
    (theirs / "model.safetensors").rename(theirs / "model.safetensors.index.json")
    assert_refused(theirs, "its weights are in several files; load it with transformers and save it as one")


def test_all_missing_files_are_named_at_once(theirs: Path):
    for path in theirs.iterdir():
        path.unlink()
    assert_refused(
        theirs, "config.json is missing; vocab.json is missing; source.spm is missing; target.spm is missing; model.s"
    )
    with pytest.raises(ValueError, match="nowhere is not a directory with a model of Hugging Face"):
        import_marian(theirs / "nowhere", theirs / "out")


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"vocab_size": 1' + "0" * 5000 + "}"])
def test_a_file_that_is_not_json_is_refused_by_name(theirs: Path, name: str, text: str):
    (theirs / name).write_text(text, encoding="utf-8")
    assert_refused(theirs, re.escape(name))


def test_json_too_large_is_not_read(theirs: Path):
    with (theirs / "vocab.json").open("wb") as file:
        os.truncate(file.fileno(), 2**40)
    assert_refused(theirs, r"vocab\.json has 1,099,511,627,776 bytes; it should have less than")


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "model.safetensors"])
@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\xff" * 64])
def test_a_binary_file_of_another_kind_is_refused_by_name(theirs: Path, name: str, content: bytes):
    (theirs / name).write_bytes(content)
    assert_refused(theirs, rf"{re.escape(name)} is not a (SentencePiece model|safetensors file)")


def test_a_link_to_something_endless_is_no_file(theirs: Path):
    (theirs / "source.spm").unlink()
    (theirs / "source.spm").symlink_to("/dev/zero")
    assert_refused(theirs, r"source\.spm is missing")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(theirs: Path, value: float):
    weights = load_file(theirs / "model.safetensors")
    weights["model.decoder.layers.1.fc1.bias"][2] = value
    save_file(weights, theirs / "model.safetensors")
    assert_refused(theirs, r"infinite or not a number, in model\.decoder\.layers\.1\.fc1\.bias")


def test_numbers_of_several_kinds_are_refused(theirs: Path):
    weights = load_file(theirs / "model.safetensors")
    weights["final_logits_bias"] = weights["final_logits_bias"].double()
    save_file(weights, theirs / "model.safetensors")
    assert_refused(theirs, "the numbers are F32, F64; they should be one of F32, F16, BF16")


def test_a_marian_model_has_no_other_positions_than_sines(theirs: Path):
    weights = load_file(theirs / "model.safetensors")
    weights["model.encoder.embed_positions.weight"] = torch.zeros(61, 14)
    save_file(weights, theirs / "model.safetensors")
    assert_refused(theirs, "has a table of positions that are not sines and cosines, which a Marian model cannot have")


def test_nothing_but_a_model_is_replaced(theirs: Path, tmp_path: Path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="holds other things than a model"):
        import_marian(theirs, tmp_path / "notes")
    save_bundle(tmp_path / "m", random_model(1, 307, 307, norm="post"), small_tokenizer())
    with pytest.raises(ValueError, match="holds other things than a model"):
        export_marian(load_bundle(tmp_path / "m"), tmp_path / "notes")
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["a.txt"]
    export_marian(load_bundle(tmp_path / "m"), tmp_path / "exported")
    with pytest.raises(ValueError, match="exported would replace what is imported"):
        import_marian(tmp_path / "exported", tmp_path / "exported")


# Our models in transformers


SEPARATE = TokenizerConfig(kind="unigram", vocabulary=293, joint=False)


@pytest.mark.parametrize(
    ("tokenizer", "options", "messages"),
    [
        (TokenizerConfig(vocabulary=307), {"positions": "rotary"}, ["positions are rotary: both formats add them"]),
        (TokenizerConfig(vocabulary=307), {"activation": "swiglu"}, ["activation is 'swiglu': both formats have two"]),
        (
            TokenizerConfig(vocabulary=307),
            {"positions": "none", "norm": "post"},
            ["positions are 'none' with norms after"],
        ),
        (TokenizerConfig(vocabulary=307), {"positions": "learned", "d_model": 9, "heads": 3}, ["d_model 9 is odd"]),
        (
            TokenizerConfig(vocabulary=307, lowercase=True),
            {},
            ["the tokenizer makes text lower case, and MarianTokenizer"],
        ),
        (SEPARATE, {}, ["norms stand before each sublayer, with a vocabulary for each language"]),
        (
            SEPARATE,
            {"positions": "rotary", "activation": "swiglu"},
            ["positions are rotary", "activation is 'swiglu'", "norms stand before each sublayer"],
        ),
    ],
)
def test_a_model_that_neither_format_holds_is_refused(
    tmp_path: Path, tokenizer: TokenizerConfig, options: dict[str, Any], messages: list[str]
):
    pieces = Tokenizer.train(LINES, [line.upper() for line in LINES], tokenizer, seed=1, max_sentences=100)
    sizes = {"d_model": 12, "d_ff": 11, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "tie": "none"}
    config = ModelConfig(pieces.source_vocabulary, pieces.target_vocabulary, **{**sizes, **options})
    save_bundle(tmp_path / "ours", Transformer(config), pieces)
    with pytest.raises(
        ValueError, match=".*".join(["ours cannot be exported for transformers: ", *map(re.escape, messages)])
    ):
        export_marian(load_bundle(tmp_path / "ours"), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda record: record["files"].update({"../evil.json": {}}), "does not hold the files of a model"),
        (lambda record: record.update(files=[]), "does not hold the files of a model"),
        (lambda record: record["files"].pop("config.json"), "model_type is None"),
        (lambda record: record["files"].pop("vocab.json"), "vocab.json is missing"),
        (lambda record: record["files"]["config.json"].update(d_model=28), "does not describe the model beside it"),
        (lambda record: record["tensors"].append("evil"), "the model has no weights called evil"),
        (lambda record: record.update(tensors=[["x"]]), "does not say how the weights were stored"),
        (lambda record: record.update(dtype=["F32"]), "does not say how the weights were stored"),
        (lambda record: record.update(dtype="F16"), "F16 cannot hold the numbers of"),
    ],
)
def test_a_false_record_of_the_import_is_refused(theirs: Path, tmp_path: Path, damage: Any, message: str):
    import_marian(theirs, tmp_path / "ours")
    record = json.loads((tmp_path / "ours" / "marian.json").read_text(encoding="utf-8"))
    damage(record)
    write_json(tmp_path / "ours" / "marian.json", record)
    (tmp_path / "ours" / "manifest.json").unlink()
    atomic.write_manifest(tmp_path / "ours", {})
    with pytest.raises(ValueError, match=re.escape(message)):
        export_marian(load_bundle(tmp_path / "ours"), tmp_path / "again")
    assert not (tmp_path / "again").exists()
