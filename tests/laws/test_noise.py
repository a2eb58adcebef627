"""Noise in training is a function of the data's position alone, whoever plants it and wherever a run goes on."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pellucid.data.batching import CorpusShare, EncodedPairs
from pellucid.data.context import count_context
from pellucid.data.corpus import SentencePairs
from pellucid.data.pair_noise import NoiseConfig, PairNoise
from pellucid.data.stream import BatchSpec, Stage, Stream, encode_pairs
from pellucid.data.tokenizer import BOS, EOS, PAD, Tokenizer, TokenizerConfig
from pellucid.training import beginning
from pellucid.training.config import RunConfig, make_run
from pellucid.training.loop import train_run
from tests.laws.runs import assert_same_end, read_reports, train_until
from tests.laws.torchrun import train_alone, train_with_workers
from tests.training.corpora import small_run

WORDS = ["house", "garden", "window", "letter", "morning", "river", "mountain", "summer", "winter", "kitchen"]
MOST_PIECES = 70


def make_texts(count: int) -> tuple[list[str], list[str]]:
    """Return sources and targets; each pair has its number in it, on both sides."""
    rows = [[WORDS[(i * step) % 10] for step in range(1, 3 + i % 5)] for i in range(count)]
    return [f"The {' '.join(row)} {i}." for i, row in enumerate(rows)], [
        f"Das {' '.join(row)} {i}." for i, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    sources, targets = make_texts(500)
    return Tokenizer.train(sources, targets, TokenizerConfig(vocabulary=340), seed=1, max_sentences=1000)


@pytest.fixture(scope="module")
def encoded(tokenizer: Tokenizer) -> EncodedPairs:
    sources, targets = make_texts(3000)
    return encode_pairs(SentencePairs.from_lists(sources, targets, "here"), tokenizer, MOST_PIECES)[0]


def read_texts(tokenizer: Tokenizer, pairs: EncodedPairs) -> list[tuple[str, str]]:
    return [
        (tokenizer.decode_source(pairs.sources[i].tolist()), tokenizer.decode_target(pairs.targets[i].tolist()))
        for i in range(len(pairs))
    ]


ALL_KINDS = NoiseConfig(*[0.07] * 11)


def test_the_noise_of_a_pair_does_not_depend_on_what_else_is_chosen(tokenizer, encoded):
    noise, indices = PairNoise(ALL_KINDS, tokenizer, MOST_PIECES), np.arange(0, 3000, 7)
    whole = read_texts(tokenizer, noise.plant(encoded, indices, seed=11))
    backwards = read_texts(tokenizer, noise.plant(encoded, indices[::-1], seed=11))
    share = read_texts(tokenizer, noise.plant(encoded, indices[1::3], seed=11))
    assert whole == backwards[::-1]
    assert whole[1::3] == share
    assert whole != read_texts(tokenizer, noise.plant(encoded, indices, seed=12))


def test_each_kind_is_planted_into_its_share_of_the_pairs(tokenizer, encoded):
    indices = np.arange(3000)
    clean = read_texts(tokenizer, encoded)
    noise = PairNoise(NoiseConfig(capitals=0.2, small_letters=0.1, end_marks=0.3), tokenizer, MOST_PIECES)
    counts = Counter()
    for (source, target), noisy in zip(
        clean, read_texts(tokenizer, noise.plant(encoded, indices, seed=5)), strict=True
    ):
        if noisy == (source.upper(), target.upper()):
            counts["capitals"] += 1
        elif noisy == (source.lower(), target):
            counts["small_letters"] += 1
        elif noisy[0].rstrip(".") == source.rstrip(".") and noisy[0] != source:
            assert noisy[1].rstrip(".") == target.rstrip(".")
            counts["end_marks"] += 1
        else:
            assert noisy == (source, target)
    # Four standard deviations of a share of 3,000 pairs are less than 0.035.
    shares = {kind: count / 3000 for kind, count in counts.items()}
    assert shares == pytest.approx({"capitals": 0.2, "small_letters": 0.1, "end_marks": 0.3}, abs=0.035)


def test_a_pair_is_joined_with_its_neighbour_in_the_same_corpus(tokenizer, encoded):
    mixed = replace(encoded, corpora=(CorpusShare("a", 2999), CorpusShare("b", 1)))
    noise = PairNoise(NoiseConfig(sentences=1.0), tokenizer, MOST_PIECES)
    clean = read_texts(tokenizer, mixed)
    joined = read_texts(tokenizer, noise.plant(mixed, np.array([0, 5, 2998, 2999]), seed=1))
    pairs = [(0, 1), (5, 6), (2998, 2997)]
    assert joined[:3] == [(f"{clean[a][0]} {clean[b][0]}", f"{clean[a][1]} {clean[b][1]}") for a, b in pairs]
    assert joined[3] == clean[2999]


def test_a_pair_that_noise_would_make_too_long_is_shown_as_it_is(tokenizer, encoded):
    noise = PairNoise(NoiseConfig(sentences=1.0), tokenizer, int(encoded.sources.lengths.max()))
    planted = noise.plant(encoded, np.arange(500), seed=1)
    assert max(planted.sources.lengths.max(), planted.targets.lengths.max()) <= noise.max_pieces
    as_they_are = sum(
        a == b for a, b in zip(read_texts(tokenizer, planted), read_texts(tokenizer, encoded), strict=False)
    )
    assert 0 < as_they_are < 500


def test_backwards_the_errors_stand_in_what_is_translated_then(tokenizer, encoded):
    indices, clean = np.arange(400), read_texts(tokenizer, encoded)[:400]
    noise = PairNoise(NoiseConfig(typing_errors=1.0), tokenizer, MOST_PIECES)
    forwards = read_texts(tokenizer, noise.plant(encoded, indices, seed=3))
    backwards = read_texts(tokenizer, noise.plant(encoded, indices, seed=3, backwards=True))
    assert [target for _, target in forwards] == [target for _, target in clean]
    assert [source for source, _ in backwards] == [source for source, _ in clean]
    assert sum(a != b for a, b in zip(forwards, clean, strict=True)) > 350
    assert sum(a != b for a, b in zip(backwards, clean, strict=True)) > 350


@pytest.mark.parametrize("backwards", [False, True])
def test_other_pieces_of_what_is_read_spell_the_same_text(tokenizer, encoded, backwards):
    indices = np.arange(400)
    noise = PairNoise(NoiseConfig(pieces=1.0), tokenizer, MOST_PIECES)
    planted = noise.plant(encoded, indices, seed=3, backwards=backwards)
    assert read_texts(tokenizer, planted) == read_texts(tokenizer, encoded)[:400]
    sides = [(encoded.sources, planted.sources), (encoded.targets, planted.targets)]
    read, written = sides[::-1] if backwards else sides
    assert all(np.array_equal(written[0][i], written[1][i]) for i in range(400))
    longer = [len(read[1][i]) > len(read[0][i]) for i in range(400)]
    assert sum(longer) > 200
    # The length that batches are made by is about that of what is planted.
    expected = noise.expect_lengths(encoded, indices, noise.measure_ratios(encoded), seed=3)
    assert expected[0].sum() == pytest.approx(noise.plant(encoded, indices, seed=3).sources.lengths.sum(), rel=0.05)


def test_pieces_are_not_cut_where_a_pair_would_be_too_long(tokenizer, encoded):
    most = int(max(encoded.sources.lengths.max(), encoded.targets.lengths.max()))
    planted = PairNoise(NoiseConfig(pieces=1.0), tokenizer, most).plant(encoded, np.arange(500), seed=1)
    assert max(planted.sources.lengths.max(), planted.targets.lengths.max()) <= most
    unchanged = sum(np.array_equal(planted.sources[i], encoded.sources[i]) for i in range(500))
    assert 0 < unchanged < 500


def test_what_stands_before_a_source_stays_there(encoded):
    sources, targets = make_texts(60)
    options = {"seed": 1, "max_sentences": 1000, "languages": ["de", "tr"]}
    many = Tokenizer.train(sources, targets, TokenizerConfig(vocabulary=340), **options)
    pairs, _ = encode_pairs(
        SentencePairs.from_lists(sources, ["bir ev iyi."] * 60, "here"), many.into("tr"), MOST_PIECES
    )
    planted = PairNoise(NoiseConfig(capitals=1.0), many, MOST_PIECES, target_language="de").plant(
        pairs, np.arange(60), 1
    )
    for i in range(60):
        source = planted.sources[i].tolist()
        assert source[: count_context(source)] == [many.languages["tr"], BOS]
        # The language of the pair decides, and not that of the run.
        assert many.decode_target(planted.targets[i].tolist()) == "BİR EV İYİ."

    cut = PairNoise(NoiseConfig(pieces=1.0), many, MOST_PIECES).plant(pairs, np.arange(60), 1)
    assert all(cut.sources[i].tolist()[:2] == [many.languages["tr"], BOS] for i in range(60))
    assert all(cut.sources[i][-1] == EOS for i in range(60))


def test_batches_with_noise_keep_to_their_budget_and_hold_every_pair_once(tokenizer, encoded):
    stream = Stream(encoded, 300, seed=4, noise=PairNoise(ALL_KINDS, tokenizer, MOST_PIECES))
    stream.enter(Stage(noisy=True))
    pieces = 0
    for _ in range(40):
        spec = stream.advance()
        batches = spec.make_batches()
        assert sorted(np.concatenate([batch.indices for batch in batches]).tolist()) == sorted(spec.pairs.tolist())
        assert len({batch.seed for batch in batches}) == len(batches)
        for batch in batches:
            # A batch is made by expected lengths; one that exceeds its budget by more than a quarter is cut.
            assert batch.target_out.numel() <= 1.25 * 300 or len(batch.target_out) == 1
            assert batch.target_tokens == int((batch.target_out != PAD).sum())
            pieces += len(batches) > 1
    assert pieces > 0


def noisy_run(folder: Path, **changes: dict) -> RunConfig:
    shares = {"capitals": 0.2, "typing_errors": 0.1, "sentences": 0.2, "copies": 0.05, "pieces": 0.1}
    noise = {**shares, **changes.pop("noise", {})}
    data = {"noise": noise, **changes.pop("data", {})}
    return small_run(folder, data=data, **{"model": {"dropout": 0.2}, **changes})


def test_a_run_with_noise_that_was_killed_ends_as_an_undisturbed_one(tmp_path, monkeypatch):
    options = {
        "train": {"save_every": 2, "both_directions": 0.3},
        "data": {"terms": 0.3},
        "tokenizer": {"vocabulary": 330},
    }
    run = noisy_run(tmp_path / "data", noise={"until": 0.6}, **options)
    train_run(run, tmp_path / "undisturbed")
    for updates in (3, 9):
        train_until(updates, run, tmp_path / f"killed {updates}", monkeypatch)
        train_run(run, tmp_path / f"killed {updates}", resume=True)
        assert_same_end(tmp_path / "undisturbed", tmp_path / f"killed {updates}")


@pytest.mark.parametrize(
    ("accumulate", "dropout"),
    [pytest.param(2, 0.2, marks=pytest.mark.slow, id="whole batches"), pytest.param(1, 0.0, id="rows of a batch")],
)
def test_two_workers_plant_the_noise_that_one_plants(tmp_path, accumulate, dropout):
    options = {"train": {"accumulate": accumulate}, "data": {"terms": 0.3}, "tokenizer": {"vocabulary": 330}}
    run = noisy_run(tmp_path / "data", model={"dropout": dropout}, **options)
    train_alone(run, tmp_path / "one")
    train_with_workers(2, run, tmp_path / "two")
    losses = [
        [row["loss"] for row in read_reports(tmp_path / name) if "learning_rate" in row] for name in ("one", "two")
    ]
    assert len(losses[0]) > 0
    # Noise cuts a batch into several, whose gradients two workers add up in another order.
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_noise_is_planted_only_in_the_part_of_the_run_that_it_names(tmp_path, monkeypatch, capsys):
    run, noisy = noisy_run(tmp_path / "data", noise={"from": 0.25, "until": 0.75}), []

    class SpiedStream(Stream):
        def advance(self) -> BatchSpec:
            spec = super().advance()
            noisy.append(spec.noise is not None)
            return spec

    monkeypatch.setattr(beginning, "Stream", SpiedStream)
    train_run(run, tmp_path / "out")
    assert noisy == [False] * 3 + [True] * 6 + [False] * 3
    said = capsys.readouterr().err
    assert "step 3, 25% of the run: from here on with noise" in said
    assert "step 9, 75% of the run: from here on without noise" in said


def test_a_vocabulary_has_pieces_for_the_capitals_that_training_will_show(tmp_path):
    plain, noisy = (
        beginning.read_data(noisy_run(tmp_path, noise={"capitals": share}, tokenizer={"vocabulary": 360})).tokenizer
        for share in (0.0, 0.5)
    )
    lengths = [len(tokenizer.encode_source(["ONE TWO THREE FOUR"])[0]) for tokenizer in (plain, noisy)]
    assert lengths[1] < lengths[0]


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"capitals": 1.5}, "data.noise: capitals is 1.5, it must be from 0 to 1"),
        ({"capitals": 0.6, "marks": 0.6}, "data.noise: the shares add up to 1.2"),
        ({"from": 0.5, "until": 0.5}, "data.noise: from is 0.5 and until is 0.5; noise must begin before it ends"),
        ({"pieces": -0.1}, "data.noise: pieces is -0.1, it must be from 0 to 1"),
        ({"typos": 0.1}, "unknown key 'data.noise.typos'"),
        ({"from": "later"}, "'data.noise.from' is 'later': it must be a valid number"),
    ],
)
def test_noise_that_cannot_be_is_refused_in_one_sentence(noise, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_run({"data": {"source": "a", "target": "b", "noise": noise}, "train": {"steps": 1}})


def test_a_resume_with_other_noise_is_refused(tmp_path, monkeypatch):
    run = noisy_run(tmp_path / "data")
    train_until(5, run, tmp_path / "out", monkeypatch)
    other = replace(run, data=replace(run.data, noise=replace(run.data.noise, capitals=0.1)))
    with pytest.raises(ValueError, match="would become another run"):
        train_run(other, tmp_path / "out", resume=True)


@pytest.mark.parametrize("kind", ["char", "word"])
def test_pieces_without_halves_are_not_promised_to_be_cut(kind):
    run = {"data": {"source": "a", "target": "b", "noise": {"pieces": 0.1}}, "tokenizer": {"kind": kind}}
    with pytest.raises(ValueError, match=f"pieces of kind '{kind}' have no halves"):
        make_run({**run, "train": {"steps": 1}})
