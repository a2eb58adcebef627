"""A Marian or Pegasus model says the same in transformers and here, whichever way it went, and comes back as it was."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pellucid import bundle
from pellucid.api import load
from pellucid.bundle import Bundle
from pellucid.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig
from pellucid.inspect.importance import Head
from pellucid.inspect.pruning import remove_heads
from pellucid.interop.marian import export_marian, import_marian
from pellucid.model import ModelConfig, Transformer
from tests.decode.models import LINES
from tests.interop.marian_models import SOURCES, filled, of_transformers, quiet, written

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
foreign = pytest.mark.parametrize("settings", FOREIGN.values(), ids=list(FOREIGN))


def numbers(place: Path, found: Bundle) -> tuple[list[int], list[int]]:
    """Their number of each of our pieces, found by its name; our start mark is what theirs begin with."""
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    files = ["vocab.json", "target_vocab.json" if (place / "target_vocab.json").exists() else "vocab.json"]
    tables = [json.loads((place / name).read_text(encoding="utf-8")) for name in files]
    tokenizer = found.tokenizer
    source = [tables[0].get(name, 0) for name in tokenizer.source_names]
    target = [tables[1].get(name, 0) for name in tokenizer.target_names]
    target[BOS] = config["decoder_start_token_id"]
    return source, target


@foreign
def test_an_imported_model_has_the_logits_it_has_in_transformers(tmp_path: Path, settings: dict[str, Any]):
    place = written(tmp_path / "theirs", **settings)
    found = import_marian(place, tmp_path / "ours")
    theirs, _ = of_transformers(place)
    source, target = numbers(place, found)
    draw = torch.Generator().manual_seed(1)
    read = [[*torch.randint(4, len(source), (n,), generator=draw).tolist(), EOS] for n in (13, 0, 7, 4)]
    ids, there = filled(read, PAD)
    said = torch.cat([torch.full((4, 1), BOS), torch.randint(4, len(target), (4, 11), generator=draw)], dim=1)
    everything = [i for i in range(len(target)) if i != BOS]
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-11)):
        with torch.inference_mode():
            wanted = theirs.to(dtype)(
                input_ids=torch.tensor(source)[ids], attention_mask=there, decoder_input_ids=torch.tensor(target)[said]
            ).logits
            logits = found.model.to(dtype)(ids, said)
        assert sorted(target[i] for i in everything) == list(range(wanted.shape[-1]))
        for ours, other in ((logits, wanted), (logits.log_softmax(-1), wanted.log_softmax(-1))):
            chosen = other[..., [target[i] for i in everything]]
            torch.testing.assert_close(ours[..., everything], chosen, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["one matrix", "two vocabularies, three matrices", "norms before"])
@pytest.mark.parametrize("stop", ["eos", "length"])
def test_a_beam_finds_the_same_translations_in_both(tmp_path: Path, name: str, stop: str):
    """Where the searches are defined alike: all of a beam ends, or none of it before the limit (ours ranks it last)."""
    words = " ".join(SOURCES).split()
    lines = [" ".join(words[i : i + 1 + i % 7]) for i in range(13)]
    alike: set[str] = set()
    for seed in (3, 4, 5):
        more = {"seed": seed, "noise": 0.4, "end": 4.0 if stop == "eos" else -1.0, "max_position_embeddings": 31}
        place = written(tmp_path / f"theirs{seed}", **{**FOREIGN[name], **more})
        found = import_marian(place, tmp_path / f"ours{seed}")
        theirs, tokenizer = of_transformers(place)
        _, target = numbers(place, found)
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
        ours = load(tmp_path / f"ours{seed}").translate(
            lines, beam=4, n_best=4, length_penalty=0.0, max_extra=99, repetition="keep", markup="text"
        )
        ids = {piece: target[i] for i, piece in enumerate(found.tokenizer.target_pieces(range(len(target))))}
        for best, rows, totals in zip(ours, hypotheses.tolist(), scores, strict=True):
            beam = [best, *best.alternatives]
            if sum(0 in row for row in rows) in (0, 4):
                ends = [row.index(0) + 1 if 0 in row else len(row) for row in rows]
                assert [[ids[piece] for piece in each.pieces] for each in beam] == [
                    row[:end] for row, end in zip(rows, ends, strict=True)
                ]
                torch.testing.assert_close(torch.tensor([each.log_prob for each in beam]), totals, rtol=0, atol=1e-4)
                alike |= {f"{seed} {each.pieces}" for each in beam if each.stop == stop}
    assert len(alike) >= 15


@foreign
def test_import_then_export_is_the_identity(tmp_path: Path, settings: dict[str, Any]):
    place = written(tmp_path / "theirs", **settings)
    export_marian(import_marian(place, tmp_path / "ours"), tmp_path / "again")
    files = {path.name for path in place.iterdir()}
    assert {path.name for path in (tmp_path / "again").iterdir()} == files | {"manifest.json"}
    for name in files - {"model.safetensors"}:
        before, after = (folder / name for folder in (place, tmp_path / "again"))
        if name.endswith(".json"):
            assert json.loads(after.read_bytes()) == json.loads(before.read_bytes())
        else:
            assert after.read_bytes() == before.read_bytes()
    before, after = (load_file(folder / "model.safetensors") for folder in (place, tmp_path / "again"))
    unread = {"model.shared.weight"} if "tie_word_embeddings" in settings else set()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before.keys() - unread)


def test_half_precision_comes_back_as_it_was(tmp_path: Path):
    place = written(tmp_path / "theirs")
    weights = {name: each.half() for name, each in load_file(place / "model.safetensors").items()}
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    found = import_marian(place, tmp_path / "ours")
    assert {each.dtype for each in found.model.parameters()} == {torch.float32}
    export_marian(found, tmp_path / "again")
    after = load_file(tmp_path / "again" / "model.safetensors")
    assert all(torch.equal(after[name], each) and after[name].dtype == each.dtype for name, each in weights.items())


def test_every_name_of_a_shared_matrix_may_be_stored_if_they_agree(tmp_path: Path):
    place = written(tmp_path / "theirs")
    weights = load_file(place / "model.safetensors")
    shared = weights.pop("model.shared.weight")
    names = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"]
    save_file(weights | {name: shared.clone() for name in names}, place / "model.safetensors")
    export_marian(import_marian(place, tmp_path / "ours"), tmp_path / "again")
    assert all(torch.equal(load_file(tmp_path / "again" / "model.safetensors")[name], shared) for name in names)
    save_file(weights | {names[0]: shared.clone(), names[2]: shared + 1}, place / "model.safetensors")
    with pytest.raises(ValueError, match=rf"{names[0]} and {names[2]} differ, but should be the same matrix"):
        import_marian(place, tmp_path / "ours")


# Ours there


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
of_ours = pytest.mark.parametrize("name", OURS)


@cache
def learned(config: TokenizerConfig) -> Tokenizer:
    return Tokenizer.train(LINES, [line.upper() for line in LINES], config, seed=1, max_sentences=100)


def saved(place: Path, tokenizer_config: TokenizerConfig, **options: Any) -> Bundle:
    """A model of ours with no weight at a special value."""
    tokenizer = learned(tokenizer_config)
    sizes = {"d_model": 14, "d_ff": 11, "heads": 2, "encoder_layers": 2, "decoder_layers": 3, "max_positions": 61}
    torch.manual_seed(1)
    config = ModelConfig(tokenizer.source_vocabulary, tokenizer.target_vocabulary, **{**sizes, **options})
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    bundle.save_bundle(place, model, tokenizer)
    return bundle.load_bundle(place)


@of_ours
def test_an_exported_model_has_its_logits_and_its_pieces_in_transformers(tmp_path: Path, name: str):
    found = saved(tmp_path / "ours", OURS[name][0], **OURS[name][1])
    export_marian(found, tmp_path / "theirs")
    theirs, tokenizer = of_transformers(tmp_path / "theirs")
    lines = ["The black cat drank </s> <pad>", "ñ 😀  x", "<0x41>", ">> a <", "LA CASA ¿"]
    source, target = numbers(tmp_path / "theirs", found)
    read, said = found.tokenizer.encode_source(lines), found.tokenizer.encode_target(lines)
    assert tokenizer(lines).input_ids == [[source[i] for i in row] for row in read]
    assert tokenizer(text_target=lines).input_ids == [[target[i] for i in row] for row in said]
    for ids in said:
        shown = tokenizer.decode([target[i] for i in ids], skip_special_tokens=True)
        assert shown == found.tokenizer.decode_target(ids)
    assert_same_shares(found.model, theirs, source, target, read, [[BOS, *row[:-1]] for row in said])


def assert_same_shares(ours: Transformer, theirs: Any, source: list[int], target: list[int], read: Any, said: Any):
    """Every piece but padding and the start mark has the same share, and with norms before the same logit."""
    pieces = [i for i in range(len(target)) if i not in (PAD, BOS)]
    ids, there = filled(read, PAD)
    begun, _ = filled(said, UNK)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-11)):
        with torch.inference_mode():
            wanted = theirs.to(dtype)(
                input_ids=torch.tensor(source)[ids],
                attention_mask=there,
                decoder_input_ids=torch.tensor(target)[begun],
            ).logits[..., [target[i] for i in pieces]]
            logits = ours.to(dtype)(ids, begun)[..., pieces]
        if ours.config.norm == "post":  # the logits of one position may all be higher by one number
            logits, wanted = logits.log_softmax(-1), wanted.log_softmax(-1)
            tolerance = 1e-5  # the first biases were rounded to float32
        torch.testing.assert_close(logits, wanted, rtol=0, atol=tolerance)


@of_ours
def test_export_then_import_is_the_same_model(tmp_path: Path, name: str):
    found = saved(tmp_path / "ours", OURS[name][0], **OURS[name][1])
    export_marian(found, tmp_path / "theirs")
    again = import_marian(tmp_path / "theirs", tmp_path / "again")
    split = "target" if name == "pre decoder" else None  # a Pegasus model ties all or nothing
    wanted = replace(found.model.config, tie="none") if split else found.model.config
    joint = found.tokenizer.source_names == found.tokenizer.target_names
    assert again.model.config == (replace(wanted, output_bias=True) if joint else wanted)
    pieces = [i for i in range(found.tokenizer.target_vocabulary) if i not in (PAD, BOS)]
    draw = torch.Generator().manual_seed(1)
    read, said = (torch.randint(UNK + 3, 100, (3, 9), generator=draw) for _ in "st")
    said[:, 0] = BOS
    with torch.inference_mode():
        before, after = (each.model.double()(read, said)[..., pieces].log_softmax(-1) for each in (found, again))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-5 if found.model.config.norm == "post" else 1e-11)
    assert again.tokenizer.encode_source(LINES) == found.tokenizer.encode_source(LINES)
    assert again.tokenizer.encode_target(LINES) == found.tokenizer.encode_target(LINES)


def test_what_was_imported_and_saved_anew_can_be_exported(tmp_path: Path):
    """As after training goes on: the files of the first import are no longer beside it."""
    found = import_marian(written(tmp_path / "theirs"), tmp_path / "ours")
    bundle.save_bundle(tmp_path / "trained", found.model, found.tokenizer)
    export_marian(bundle.load_bundle(tmp_path / "trained"), tmp_path / "again")
    model, tokenizer = of_transformers(tmp_path / "again")
    source, target = numbers(tmp_path / "again", found)
    read = found.tokenizer.encode_source(SOURCES)
    assert tokenizer(SOURCES).input_ids == [[source[i] for i in row] for row in read]
    assert_same_shares(found.model, model, source, target, read, [[BOS]] * len(read))
    inputs = tokenizer(SOURCES, return_tensors="pt", padding=True)
    assert not (model.generate(**inputs, max_length=20, num_beams=1)[:, 1] == target[PAD]).any()


@of_ours
def test_heads_that_were_removed_are_zeros_in_transformers(tmp_path: Path, name: str):
    whole = saved(tmp_path / "whole", OURS[name][0], **OURS[name][1])
    gone = [Head("encoder.0.self", 0), Head("encoder.0.self", 1), Head("decoder.0.self", 0), Head("decoder.1.cross", 1)]
    model = remove_heads(whole.model, gone)
    bundle.save_bundle(tmp_path / "pruned", model, whole.tokenizer)
    export_marian(bundle.load_bundle(tmp_path / "pruned"), tmp_path / "theirs")
    theirs, _ = of_transformers(tmp_path / "theirs")
    source, target = numbers(tmp_path / "theirs", whole)
    assert_same_shares(model, theirs, source, target, [[5, 6, 7, EOS]], [[BOS, 8, 9, 7]])
    assert import_marian(tmp_path / "theirs", tmp_path / "again").model.config.fewer_heads == ""
