"""The evidence for a word: which word is meant, which pairs are named, and how far the two ways agree."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import pellucid
from pellucid.decode.alignment import align_sentences
from pellucid.interpret.influence.word_influence import measure_agreement
from pellucid.interpret.studies.importance import mean_ranks
from pellucid.training.loop import train_run
from pellucid.training.state_store import remember_states
from tests.training.corpora import small_run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pellucid.Model:
    """Return a model that has learned a little, with its store."""
    folder = tmp_path_factory.mktemp("influence")
    # Pieces enough for each word to be one.
    train = {"steps": 150, "evaluate_every": 50, "save_every": 50}
    run = small_run(folder / "text", train=train, tokenizer={"vocabulary": 305})
    train_run(run, folder / "run")
    remember_states(folder / "run", lambda words: None)
    return pellucid.load(folder / "run" / "best")


SOURCE, TARGET = "one two six", "seis dos uno"


def test_the_pairs_are_those_of_the_training_files(model):
    found = model.find_influence(SOURCE, "dos", target=TARGET, pairs=7)
    assert len(found.because) == len(found.against) == 7
    for pair in (*found.because, *found.against):
        source, target = Path(pair.file), Path(pair.file).with_name("target.txt")
        assert source.name == "source.txt"
        texts = [file.read_text(encoding="utf-8").splitlines()[pair.line - 1] for file in (source, target)]
        assert texts == [pair.source, pair.target]


def test_a_pair_for_a_word_wrote_it_and_one_against_it_wrote_another(model):
    found = model.find_influence(SOURCE, "dos", target=TARGET, pairs=5)
    assert found.piece == "▁dos"
    assert found.translation == TARGET
    for pair in found.because:
        assert pair.state > 0
        assert pair.target.split()[pair.word] == "dos"
    for pair in found.against:
        assert pair.state < 0
        assert pair.word == -1 or pair.target.split()[pair.word] != "dos"


def test_source_words_are_those_that_the_word_is_aligned_with(model):
    found = model.find_influence(SOURCE, "dos", target=TARGET, pairs=20)
    tokenizer = model.bundle.tokenizer
    for pair in found.because:
        ids = tokenizer.encode_source([pair.source]), tokenizer.encode_target([pair.target])
        [links] = align_sentences(model.bundle.model, tokenizer, *ids, [pair.source], [pair.target])
        assert pair.source_words == tuple(i for i, j in links if j == pair.word)


def test_a_sentence_is_asked_about_together_with_the_one_before_it(tmp_path: Path):
    run = small_run(tmp_path / "text", data={"context": 1}, model={"max_positions": 83})
    train_run(run, tmp_path / "run")
    remember_states(tmp_path / "run", lambda words: None)
    model, folder = pellucid.load(tmp_path / "run" / "best"), tmp_path / "text"
    sources = (folder / "source.txt").read_text(encoding="utf-8").splitlines()
    target = (folder / "target.txt").read_text(encoding="utf-8").splitlines()[1]
    alone = model.find_influence(sources[1], target.split()[0], target=target)
    found = model.find_influence(sources[1], target.split()[0], target=target, context=sources[0], pairs=50)
    assert found.probability != alone.probability
    # The training pair itself has the same state, and no other is nearer.
    [pair] = [pair for pair in found.because if pair.line == 2]
    assert pair.state == max(pair.state for pair in found.because) > 0.99
    assert pair.source == f"{sources[0]} {sources[1]}"


def test_gradients_are_summed_over_the_kept_checkpoints(model):
    assert model.find_influence(SOURCE, "dos", target=TARGET).steps == (50, 100, 150)


def test_a_word_may_be_given_with_or_without_its_punctuation(model):
    plain, marked = (model.find_influence(SOURCE, word, target="seis, dos uno") for word in ("seis", "seis,"))
    assert plain.because == marked.because


def test_a_word_that_is_not_in_the_translation_is_refused(model):
    with pytest.raises(ValueError, match="'tres' is no word of the translation 'seis dos uno'; choose one of its"):
        model.find_influence(SOURCE, "tres", target=TARGET)


def test_pairs_must_be_one_or_more(model):
    with pytest.raises(ValueError, match="pairs is 0, it must be 1 or more"):
        model.find_influence(SOURCE, "dos", target=TARGET, pairs=0)


def test_the_answer_is_ready_for_json(model):
    import json

    found = asdict(model.find_influence(SOURCE, "dos", target=TARGET, pairs=2))
    assert json.loads(json.dumps(found))["because"][0]["line"] == found["because"][0]["line"]
    assert {"word", "because", "against", "agreement"} <= found.keys()
    assert {"line", "source", "target", "state", "gradient"} <= found["because"][0].keys()


def test_the_order_is_that_of_both_ways_together(model):
    found = model.find_influence(SOURCE, "dos", target=TARGET, pairs=10**6)
    everything = {(pair.file, pair.line): pair for pair in (*found.because, *found.against)}
    assert len(everything) == found.candidates
    pairs = list(everything.values())
    states, gradients = (np.array([getattr(pair, way) for pair in pairs]) for way in ("state", "gradient"))
    ranks = mean_ranks(states) + mean_ranks(gradients)
    by_place = {(pair.file, pair.line): place for pair, place in zip(pairs, ranks, strict=True)}
    for side, sign in ((found.because, 1), (found.against, -1)):
        places = [sign * by_place[pair.file, pair.line] for pair in side]
        assert places == sorted(places, reverse=True)


def test_agreement_is_spearmans_correlation_and_the_overlap_of_the_first():
    # Spearman by hand: ranks 0..3 against 0, 2, 1, 3: 1 - 6 * 2 / (4 * 15) = 0.8
    agreement = measure_agreement(np.array([0.1, 0.2, 0.3, 0.4]), np.array([1.0, 7.0, 5.0, 9.0]))
    assert agreement.rank_correlation == pytest.approx(0.8)
    assert (agreement.both_on_top, agreement.of) == (4, 4)
    states = np.arange(60.0)
    assert measure_agreement(states, -states).rank_correlation == pytest.approx(-1.0)
    assert measure_agreement(states, -states).both_on_top == 0
    assert measure_agreement(states, np.zeros(60)).rank_correlation == 0.0
