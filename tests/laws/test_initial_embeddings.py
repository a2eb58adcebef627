"""Embeddings that begin with the text put a word beside its translation, and change nothing else about a run."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pellucid.data.batching import EncodedPairs, pack_sentences
from pellucid.data.corpus import SentencePairs
from pellucid.data.stream import encode_pairs
from pellucid.data.tokenizer import BOS, EOS, PAD, Tokenizer, TokenizerConfig
from pellucid.demo.phrasebook import generate_phrases
from pellucid.model.transformer import make_embedding
from pellucid.training import beginning, initial_embeddings
from pellucid.training.beginning import begin_run
from pellucid.training.config import RunConfig
from pellucid.training.initial_embeddings import embeddings_from_text
from pellucid.training.log import ProgressOutput
from pellucid.training.loop import train_run
from tests.laws.runs import assert_same_end, read_weights, same_weights, train_until
from tests.laws.torchrun import train_alone, train_with_workers
from tests.tolerances import assert_same_sums
from tests.training.corpora import small_run


@pytest.fixture(scope="module")
def phrasebook() -> tuple[Tokenizer, EncodedPairs]:
    """Tokenizer and encoded pairs of 4,000 phrases."""
    phrases = list(islice(generate_phrases(seed=1), 4000))
    pairs = SentencePairs.from_lists([phrase.source for phrase in phrases], [phrase.target for phrase in phrases])
    tokenizer = Tokenizer.train(
        pairs.sources, pairs.targets, TokenizerConfig(vocabulary=1500), seed=1, max_sentences=4000
    )
    return tokenizer, encode_pairs(pairs, tokenizer, limit=128)[0]


def random_table(vocabulary: int, d_model: int = 64, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return make_embedding(vocabulary, d_model).weight.detach()


def make_pairs(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> EncodedPairs:
    return EncodedPairs(pack_sentences(sources, np.int32), pack_sentences(targets, np.int32))


def random_pairs(count: int, vocabulary: int, length: int = 7) -> EncodedPairs:
    """Return pairs whose target repeats its source, each piece 50 ids higher, with EOS at the end."""
    ids = np.random.default_rng(1).integers(4, vocabulary - 50, (count, length))
    return make_pairs([[*row, EOS] for row in ids], [[*(row + 50), EOS] for row in ids])


def test_before_any_training_the_nearest_piece_to_a_word_is_its_translation(phrasebook):
    tokenizer, encoded = phrasebook
    table = random_table(tokenizer.source_vocabulary)
    names = list(tokenizer.source_names)
    words = {"▁queen": "▁reina", "▁milk": "▁leche", "▁water": "▁agua", "▁song": "▁canción", "▁beach": "▁playa"}
    begun = F.normalize(embeddings_from_text(table, encoded, seed=1))
    for word, translation in words.items():
        nearest = (begun @ begun[names.index(word)]).topk(2).indices
        assert [names[i] for i in nearest] == [word, translation]


def test_the_table_follows_from_the_seed_on_any_number_of_threads(phrasebook):
    tokenizer, encoded = phrasebook
    table = random_table(tokenizer.source_vocabulary)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    begun = embeddings_from_text(table, encoded, seed=1)
    try:
        torch.set_num_threads(2)
        assert torch.equal(embeddings_from_text(table, encoded, seed=1), begun)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state), "dropout and the next draw are as without it"
    assert not torch.allclose(embeddings_from_text(table, encoded, seed=2), begun, atol=0.01)


def test_every_row_is_as_long_as_it_was_drawn_and_special_tokens_are_as_they_were(phrasebook):
    tokenizer, encoded = phrasebook
    table = random_table(tokenizer.source_vocabulary)
    begun = embeddings_from_text(table, encoded, seed=1)
    assert_same_sums(begun.norm(dim=1), table.norm(dim=1), terms=table.shape[1])
    # EOS is in every pair, which tells as little of it as being in none tells of the others.
    for token in (PAD, BOS, EOS):
        assert torch.equal(begun[token], table[token])
    occurring = np.unique(np.concatenate([encoded.sources.ids, encoded.targets.ids]))
    absent = np.setdiff1d(np.arange(len(table)), occurring)
    assert len(absent) > 0
    assert torch.equal(begun[absent], table[absent])


def test_the_cosines_are_those_of_the_truncated_singular_vectors(monkeypatch):
    monkeypatch.setattr(initial_embeddings, "_TEXT_SHARE", 1.0)
    monkeypatch.setattr(initial_embeddings, "_RANDOM_SHARE", 0.0)
    monkeypatch.setattr(initial_embeddings, "_CHUNK_PAIRS", 37)
    monkeypatch.setattr(initial_embeddings, "_ITERATIONS", 30)
    vocabulary, d_model = 101, 13
    encoded = random_pairs(211, vocabulary)
    counts = np.zeros((vocabulary, len(encoded)))
    for pair in range(len(encoded)):
        counts[encoded.sources[pair], pair] = counts[encoded.targets[pair], pair] = 1
    frequencies = counts.sum(axis=1)
    weighted = counts * np.log(len(encoded) / np.maximum(frequencies, 1))[:, None]
    left, values, _ = np.linalg.svd(weighted / np.linalg.norm(weighted, axis=0), full_matrices=False)
    rows = torch.from_numpy(left[:, :d_model] * values[:d_model] ** 0.5)
    formula = F.normalize(rows) @ F.normalize(rows).T
    begun = F.normalize(embeddings_from_text(random_table(vocabulary, d_model), encoded, seed=1)).double()
    used = torch.from_numpy((frequencies >= 2) & (frequencies < len(encoded))).nonzero().flatten()
    assert len(used) > 90
    torch.testing.assert_close((begun @ begun.T)[used][:, used], formula[used][:, used], rtol=0, atol=1e-3)


def test_more_dimensions_than_pieces_or_pairs_are_filled(monkeypatch):
    for encoded in (random_pairs(211, 101), random_pairs(3, 101)):
        begun = embeddings_from_text(random_table(101, d_model=128), encoded, seed=1)
        assert begun.isfinite().all()
        assert_same_sums(begun.norm(dim=1), random_table(101, d_model=128).norm(dim=1), terms=128)


def test_of_a_large_corpus_evenly_spaced_pairs_are_looked_at(monkeypatch):
    encoded = random_pairs(210, 101)
    table = random_table(101, d_model=13)
    sides = encoded.sources, encoded.targets
    third = make_pairs(*([side[i].tolist() for i in range(0, 210, 3)] for side in sides))
    expected = embeddings_from_text(table, third, seed=1)
    monkeypatch.setattr(initial_embeddings, "SAMPLE_TOKENS", 70 * 16)
    assert torch.equal(embeddings_from_text(table, encoded, seed=1), expected)


def text_run(folder: Path, **changes: dict) -> RunConfig:
    quick = {"steps": 6, "evaluate_every": 3, "save_every": 2, "dev_sentences": 2, "dev_beam": 1}
    train = {"initial_embeddings": "text", **quick, **changes.pop("train", {})}
    return small_run(folder, train=train, **{"model": {"dropout": 0.2}, **changes})


def initial_weights(run: RunConfig, out: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a run before its first update."""
    return {name: weight.detach() for name, weight in begin_run(run, out, ProgressOutput())[1].model.named_parameters()}


@pytest.mark.article("B9")
def test_only_the_table_begins_otherwise_and_the_model_directory_does_not_show_it(tmp_path):
    run = text_run(tmp_path / "data")
    random = replace(run, train=replace(run.train, initial_embeddings="random"))
    begun, drawn = initial_weights(run, tmp_path / "text"), initial_weights(random, tmp_path / "random")
    assert begun.keys() == drawn.keys()
    assert [name for name in begun if not torch.equal(begun[name], drawn[name])] == ["source_embedding.weight"]
    for begun_run, out in ((run, "trained text"), (random, "trained random")):
        train_run(begun_run, tmp_path / out)
    texts = [(tmp_path / out / "best/config.json").read_text() for out in ("trained text", "trained random")]
    assert texts[0] == texts[1]


def test_a_run_resumes_to_the_bit_and_never_needs_the_text_again(tmp_path, monkeypatch):
    run = text_run(tmp_path / "data")
    train_run(run, tmp_path / "undisturbed")
    # Before the first checkpoint the run begins again; after it, the table is in the checkpoint.
    train_until(1, run, tmp_path / "early", monkeypatch)
    train_run(run, tmp_path / "early", resume=True)
    assert_same_end(tmp_path / "undisturbed", tmp_path / "early")
    train_until(4, run, tmp_path / "late", monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(beginning, "fill_embeddings_from_text", None)
        train_run(run, tmp_path / "late", resume=True)
    assert_same_end(tmp_path / "undisturbed", tmp_path / "late")


def test_a_resume_with_other_initial_embeddings_is_refused(tmp_path, monkeypatch):
    run = text_run(tmp_path / "data")
    train_until(3, run, tmp_path / "out", monkeypatch)
    other = replace(run, train=replace(run.train, initial_embeddings="random"))
    with pytest.raises(ValueError, match=r"train\.initial_embeddings is 'random', it began with 'text'"):
        train_run(other, tmp_path / "out", resume=True)


@pytest.mark.slow  # test_workers.py does so for embeddings that begin at random
def test_two_workers_begin_as_one(tmp_path):
    run = text_run(tmp_path / "data", train={"accumulate": 2, "batch_tokens": 120})
    train_alone(run, tmp_path / "one")
    train_with_workers(2, run, tmp_path / "two")
    assert_same_end(tmp_path / "one", tmp_path / "two")


def test_separate_tables_begin_at_random_and_the_run_says_so(tmp_path, capsys, monkeypatch):
    run = text_run(tmp_path / "data", tokenizer={"joint": False})
    random = replace(run, train=replace(run.train, initial_embeddings="random"))
    note = (
        "train.initial_embeddings = text needs one table of embeddings for both languages (model.tie = all, "
        "tokenizer.joint = true); the tables of this model begin at random"
    )
    assert begin_and_die(run, tmp_path / "text", monkeypatch, capsys).count(note) == 1
    assert note not in begin_and_die(random, tmp_path / "random", monkeypatch, capsys)
    assert same_weights(initial_weights(run, tmp_path / "a"), initial_weights(random, tmp_path / "b"))


def begin_and_die(run: RunConfig, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> str:
    """Return what a run says before its first update, with line breaks as blanks."""
    train_until(0, run, out, monkeypatch)
    return " ".join(capsys.readouterr().err.split())


def test_a_model_to_start_from_keeps_its_embeddings_and_the_run_says_so(tmp_path, capsys, monkeypatch):
    train_run(small_run(tmp_path / "data"), tmp_path / "general")
    start = tmp_path / "general/best"
    run = text_run(tmp_path / "data")
    run = replace(run, model=replace(run.model, start=str(start)))
    note = "train.initial_embeddings = text is for new models; this one keeps the embeddings it has"
    assert note in begin_and_die(run, tmp_path / "out", monkeypatch, capsys)
    assert same_weights(initial_weights(run, tmp_path / "again"), read_weights(start))


@pytest.mark.parametrize("count", range(100, 340, 20))
def test_text_of_few_pieces_gives_embeddings_too(count):
    # In float32 an eighth of such texts had no eigenvalues: "the algorithm failed to converge".
    lines = [f"number {n} is before {n + 1}" for n in range(count)]
    tokenizer = Tokenizer.train(lines, lines, TokenizerConfig(vocabulary=4000), seed=1, max_sentences=1000)
    encoded = encode_pairs(SentencePairs.from_lists(lines, lines), tokenizer, limit=128)[0]
    for seed in range(4):
        table = embeddings_from_text(random_table(tokenizer.source_vocabulary, 128), encoded, seed)
        assert table.isfinite().all()
