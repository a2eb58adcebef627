"""A Marian or Pegasus model computes the same in transformers and here, and comes back from either as it was."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pellucid.api import load
from pellucid.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig
from pellucid.interop.marian import export_marian, import_marian
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import Bundle, load_bundle, save_bundle
from tests.decode.models import LINES
from tests.interop.marian_models import SOURCES, load_with_transformers, pad_rows, quiet, write_marian_model
from tests.tolerances import approx_log_prob, assert_same_sums, largest_size, relative_rounding

pytestmark = quiet

FOREIGN: dict[str, dict[str, Any]] = {
    "one matrix": {},
    "one matrix, other sizes": {
        "seed": 2,
        "d_model": 22,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_ffn_dim": 7,
        "decoder_ffn_dim": 7,
        "encoder_attention_heads": 11,
        "decoder_attention_heads": 11,
        "activation_function": "gelu",
    },
    "two matrices": {"share_encoder_decoder_embeddings": False},
    "three matrices": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    "three matrices though shared": {"tie_word_embeddings": False, "activation_function": "relu"},
    "two vocabularies, two matrices": {"separate": True, "share_encoder_decoder_embeddings": False},
    "two vocabularies, three matrices": {
        "separate": True,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "activation_function": "gelu",
    },
    "norms before": {"kind": "pegasus"},
    "norms before, three matrices": {"kind": "pegasus", "tie_word_embeddings": False, "activation_function": "gelu"},
}
foreign_models = pytest.mark.parametrize("settings", FOREIGN.values(), ids=list(FOREIGN))


def marian_ids(directory: Path, imported: Bundle) -> tuple[list[int], list[int]]:
    """Return Marian's id of each of our pieces, found by its name; our start token is the piece theirs begin with."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    files = ["vocab.json", "target_vocab.json" if (directory / "target_vocab.json").exists() else "vocab.json"]
    tables = [json.loads((directory / name).read_text(encoding="utf-8")) for name in files]
    tokenizer = imported.tokenizer
    source = [tables[0].get(name, 0) for name in tokenizer.source_names]
    target = [tables[1].get(name, 0) for name in tokenizer.target_names]
    target[BOS] = config["decoder_start_token_id"]
    return source, target


@foreign_models
def test_an_imported_model_has_the_logits_it_has_in_transformers(tmp_path: Path, settings: dict[str, Any]):
    directory = write_marian_model(tmp_path / "theirs", **settings)
    imported = import_marian(directory, tmp_path / "ours")
    theirs, _ = load_with_transformers(directory)
    source, target = marian_ids(directory, imported)
    draw = torch.Generator().manual_seed(1)
    source_ids = [[*torch.randint(4, len(source), (n,), generator=draw).tolist(), EOS] for n in (13, 0, 7, 4)]
    ids, mask = pad_rows(source_ids, PAD)
    decoder_ids = torch.cat([torch.full((4, 1), BOS), torch.randint(4, len(target), (4, 11), generator=draw)], dim=1)
    compared = [i for i in range(len(target)) if i != BOS]
    for dtype in (torch.float32, torch.float64):
        with torch.inference_mode():
            expected = theirs.to(dtype)(
                input_ids=torch.tensor(source)[ids],
                attention_mask=mask,
                decoder_input_ids=torch.tensor(target)[decoder_ids],
            ).logits
            logits = imported.model.to(dtype)(ids, decoder_ids)
        assert sorted(target[i] for i in compared) == list(range(expected.shape[-1]))
        for ours, reference in ((logits, expected), (logits.log_softmax(-1), expected.log_softmax(-1))):
            selected = reference[..., [target[i] for i in compared]]
            assert_same_sums(ours[..., compared], selected)


@pytest.mark.parametrize(
    ("name", "stop"),
    [
        *(("one matrix", "eos"), ("two vocabularies, three matrices", "eos")),
        pytest.param("two vocabularies, three matrices", "length", marks=pytest.mark.slow),
        ("norms before", "length"),
    ],
)
def test_a_beam_finds_the_same_translations_in_both(tmp_path: Path, name: str, stop: str):
    """Searches are compared where they are defined alike: all of a beam ends, or none of it before the limit.

    Of a beam in which only some end, ours ranks the others last.
    """
    words = " ".join(SOURCES).split()
    lines = [" ".join(words[i : i + 1 + i % 7]) for i in range(13)]
    translations: set[str] = set()
    for seed in (3, 4, 5):
        options = {"seed": seed, "noise": 0.4, "end": 4.0 if stop == "eos" else -1.0, "max_position_embeddings": 31}
        directory = write_marian_model(tmp_path / f"theirs{seed}", **{**FOREIGN[name], **options})
        imported = import_marian(directory, tmp_path / f"ours{seed}")
        theirs, tokenizer = load_with_transformers(directory)
        _, target = marian_ids(directory, imported)
        beams = theirs.generate(
            **tokenizer(lines, return_tensors="pt", padding=True),
            num_beams=4,
            num_return_sequences=4,
            length_penalty=0.0,
            early_stopping=True,
            max_length=32,
            bad_words_ids=[[target[PAD]], [target[UNK]]],
            output_scores=True,
            return_dict_in_generate=True,
        )
        hypotheses = beams.sequences[:, 1:].view(len(lines), 4, -1)
        scores = beams.sequences_scores.view(len(lines), 4)
        options = {"max_extra": 99, "repetition": "keep", "empty": "keep", "markup": "text", "sentences": "keep"}
        ours = load(tmp_path / f"ours{seed}").translate(lines, beam=4, n_best=4, length_penalty=0.0, **options)
        ids = {piece: target[i] for i, piece in enumerate(imported.tokenizer.target_pieces(range(len(target))))}
        for best, rows, totals in zip(ours, hypotheses.tolist(), scores, strict=True):
            beam = [best, *best.alternatives]
            if sum(0 in row for row in rows) in (0, 4):
                ends = [row.index(0) + 1 if 0 in row else len(row) for row in rows]
                assert [[ids[piece] for piece in candidate.pieces] for candidate in beam] == [
                    row[:end] for row, end in zip(rows, ends, strict=True)
                ]
                assert [candidate.log_prob for candidate in beam] == approx_log_prob(totals.tolist())
                translations |= {f"{seed} {candidate.pieces}" for candidate in beam if candidate.stop == stop}
    assert len(translations) >= 15


@foreign_models
def test_import_then_export_is_the_identity(tmp_path: Path, settings: dict[str, Any]):
    directory = write_marian_model(tmp_path / "theirs", **settings)
    export_marian(import_marian(directory, tmp_path / "ours"), tmp_path / "again")
    files = {path.name for path in directory.iterdir()}
    assert {path.name for path in (tmp_path / "again").iterdir()} == files | {"manifest.json"}
    for name in files - {"model.safetensors"}:
        before, after = (folder / name for folder in (directory, tmp_path / "again"))
        if name.endswith(".json"):
            assert json.loads(after.read_bytes()) == json.loads(before.read_bytes())
        else:
            assert after.read_bytes() == before.read_bytes()
    before, after = (load_file(folder / "model.safetensors") for folder in (directory, tmp_path / "again"))
    unread = {"model.shared.weight"} if "tie_word_embeddings" in settings else set()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before.keys() - unread)


def test_half_precision_comes_back_as_it_was(tmp_path: Path):
    directory = write_marian_model(tmp_path / "theirs")
    weights = {name: weight.half() for name, weight in load_file(directory / "model.safetensors").items()}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    imported = import_marian(directory, tmp_path / "ours")
    assert {parameter.dtype for parameter in imported.model.parameters()} == {torch.float32}
    export_marian(imported, tmp_path / "again")
    after = load_file(tmp_path / "again" / "model.safetensors")
    assert all(
        torch.equal(after[name], weight) and after[name].dtype == weight.dtype for name, weight in weights.items()
    )


def test_every_name_of_a_shared_matrix_may_be_stored_if_they_agree(tmp_path: Path):
    directory = write_marian_model(tmp_path / "theirs")
    weights = load_file(directory / "model.safetensors")
    shared = weights.pop("model.shared.weight")
    names = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"]
    save_file(weights | {name: shared.clone() for name in names}, directory / "model.safetensors")
    export_marian(import_marian(directory, tmp_path / "ours"), tmp_path / "again")
    assert all(torch.equal(load_file(tmp_path / "again" / "model.safetensors")[name], shared) for name in names)
    save_file(weights | {names[0]: shared.clone(), names[2]: shared + 1}, directory / "model.safetensors")
    with pytest.raises(ValueError, match=rf"{names[0]} and {names[2]} differ, but should be the same matrix"):
        import_marian(directory, tmp_path / "ours")


# Our models in transformers


JOINT = TokenizerConfig(vocabulary=307)
APART = TokenizerConfig(kind="unigram", vocabulary=293, joint=False)
OURS: dict[str, tuple[TokenizerConfig, dict[str, Any]]] = {
    "pre all": (JOINT, {}),
    "pre all silu biased": (JOINT, {"activation": "silu", "output_bias": True, "d_model": 22, "heads": 11}),
    "pre decoder": (JOINT, {"tie": "decoder", "activation": "gelu"}),
    "pre none": (JOINT, {"tie": "none"}),
    "pre learned": (JOINT, {"positions": "learned"}),
    "pre no positions": (JOINT, {"positions": "none", "tie": "none"}),
    "post all": (JOINT, {"norm": "post", "activation": "gelu"}),
    "post decoder": (JOINT, {"norm": "post", "tie": "decoder"}),
    "post none": (JOINT, {"norm": "post", "tie": "none", "output_bias": True}),
    "post decoder apart": (APART, {"norm": "post", "tie": "decoder"}),
    "post none apart": (APART, {"norm": "post", "tie": "none", "activation": "silu"}),
}
our_models = pytest.mark.parametrize("name", OURS)


@cache
def train_tokenizer(config: TokenizerConfig) -> Tokenizer:
    return Tokenizer.train(LINES, [line.upper() for line in LINES], config, seed=1, max_sentences=100)


def save_model(directory: Path, tokenizer_config: TokenizerConfig, **options: Any) -> Bundle:
    """Save a model of ours with no weight at a special value, and load it."""
    tokenizer = train_tokenizer(tokenizer_config)
    sizes = {"d_model": 14, "d_ff": 11, "heads": 2, "encoder_layers": 2, "decoder_layers": 3, "max_positions": 61}
    torch.manual_seed(1)
    config = ModelConfig(tokenizer.source_vocabulary, tokenizer.target_vocabulary, **{**sizes, **options})
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    save_bundle(directory, model, tokenizer)
    return load_bundle(directory)


@our_models
def test_an_exported_model_has_its_logits_and_its_pieces_in_transformers(tmp_path: Path, name: str):
    original = save_model(tmp_path / "ours", OURS[name][0], **OURS[name][1])
    export_marian(original, tmp_path / "theirs")
    theirs, tokenizer = load_with_transformers(tmp_path / "theirs")
    lines = ["The black cat drank </s> <pad>", "ñ 😀  x", "<0x41>", ">> a <", "LA CASA ¿"]
    source, target = marian_ids(tmp_path / "theirs", original)
    source_ids, target_ids = original.tokenizer.encode_source(lines), original.tokenizer.encode_target(lines)
    assert tokenizer(lines).input_ids == [[source[i] for i in row] for row in source_ids]
    assert tokenizer(text_target=lines).input_ids == [[target[i] for i in row] for row in target_ids]
    for ids in target_ids:
        text = tokenizer.decode([target[i] for i in ids], skip_special_tokens=True)
        assert text == original.tokenizer.decode_target(ids)
    assert_same_probabilities(
        original.model, theirs, source, target, source_ids, [[BOS, *row[:-1]] for row in target_ids]
    )


def assert_same_probabilities(
    ours: Transformer, theirs: Any, source: list[int], target: list[int], source_ids: Any, decoder_ids: Any
):
    """Compare probabilities of all pieces but padding and the start token, with norms before also the logits."""
    pieces = [i for i in range(len(target)) if i not in (PAD, BOS)]
    ids, mask = pad_rows(source_ids, PAD)
    decoder_rows, _ = pad_rows(decoder_ids, UNK)
    for dtype in (torch.float32, torch.float64):
        with torch.inference_mode():
            expected = theirs.to(dtype)(
                input_ids=torch.tensor(source)[ids],
                attention_mask=mask,
                decoder_input_ids=torch.tensor(target)[decoder_rows],
            ).logits[..., [target[i] for i in pieces]]
            logits = ours.to(dtype)(ids, decoder_rows)[..., pieces]
        if ours.config.norm == "post":  # the logits of one position may all be higher by one number
            logits, expected = logits.log_softmax(-1), expected.log_softmax(-1)
        # With norms behind, the first biases were rounded to float32.
        rounded = torch.float32 if ours.config.norm == "post" else dtype
        tolerance = relative_rounding(rounded) * largest_size(expected)
        torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance)


@our_models
def test_export_then_import_is_the_same_model(tmp_path: Path, name: str):
    original = save_model(tmp_path / "ours", OURS[name][0], **OURS[name][1])
    export_marian(original, tmp_path / "theirs")
    imported = import_marian(tmp_path / "theirs", tmp_path / "again")
    untied = "target" if name == "pre decoder" else None  # a Pegasus model ties all or nothing
    expected = replace(original.model.config, tie="none") if untied else original.model.config
    joint = original.tokenizer.source_names == original.tokenizer.target_names
    assert imported.model.config == (replace(expected, output_bias=True) if joint else expected)
    pieces = [i for i in range(original.tokenizer.target_vocabulary) if i not in (PAD, BOS)]
    draw = torch.Generator().manual_seed(1)
    source_ids, target_ids = (torch.randint(UNK + 3, 100, (3, 9), generator=draw) for _ in "st")
    target_ids[:, 0] = BOS
    with torch.inference_mode():
        before, after = (
            loaded.model.double()(source_ids, target_ids)[..., pieces].log_softmax(-1)
            for loaded in (original, imported)
        )
    rounded = torch.float32 if original.model.config.norm == "post" else torch.float64
    torch.testing.assert_close(after, before, rtol=0, atol=relative_rounding(rounded) * largest_size(before))
    assert imported.tokenizer.encode_source(LINES) == original.tokenizer.encode_source(LINES)
    assert imported.tokenizer.encode_target(LINES) == original.tokenizer.encode_target(LINES)


def test_an_imported_model_that_is_saved_anew_can_be_exported(tmp_path: Path):
    """After more training the files of the first import are no longer beside the model."""
    imported = import_marian(write_marian_model(tmp_path / "theirs"), tmp_path / "ours")
    save_bundle(tmp_path / "trained", imported.model, imported.tokenizer)
    export_marian(load_bundle(tmp_path / "trained"), tmp_path / "again")
    model, tokenizer = load_with_transformers(tmp_path / "again")
    source, target = marian_ids(tmp_path / "again", imported)
    source_ids = imported.tokenizer.encode_source(SOURCES)
    assert tokenizer(SOURCES).input_ids == [[source[i] for i in row] for row in source_ids]
    assert_same_probabilities(imported.model, model, source, target, source_ids, [[BOS]] * len(source_ids))
    inputs = tokenizer(SOURCES, return_tensors="pt", padding=True)
    assert not (model.generate(**inputs, max_length=20, num_beams=1)[:, 1] == target[PAD]).any()
