"""Tests of what the page is told of the training text: sentences to try, languages, pairs and rare words."""

import json
import time
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from pellucid.data.corpus import HELD_OUT_FILE
from pellucid.serve.training_text import (
    MOST_EXAMPLES,
    RARE,
    Mistake,
    TrainingText,
    find_ambiguous_pronoun,
    find_mistake,
)
from pellucid.training.data import read_corpus, sentences_alone
from pellucid.training.loop import train_run
from pellucid.training.shard_writing import prepare_shards
from tests.serve.servers import client
from tests.training.corpora import small_run

DEV = [
    "The red ball is here.",
    "Go on.",
    "Is it, or is it not?",
    "One, two, three.",
    "x" * 200,
    "word",
    *["A dog ran."] * 3,
]
MANIFEST = {"pairs": [{"trained_on": 31}, {"trained_on": 11}]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a model whose run names a dev text and a training text."""
    (tmp_path / "dev.en").write_text("\n".join(DEV), encoding="utf-8")
    (tmp_path / "train.en").write_text("the cat\n" * RARE + "The dog's bone\n", encoding="utf-8")
    names = {"source": "train.en", "target": "train.es", "dev_source": "dev.en", "dev_target": "dev.es"}
    write_run(tmp_path, names)
    return tmp_path / "best"


def write_run(folder: Path, names: dict[str, str]) -> None:
    """Write the run file of a folder, with these settings of its data."""
    lines = [f"{key} = {json.dumps(name)}" for key, name in names.items()]
    (folder / "run.toml").write_text("[data]\n" + "\n".join(lines), encoding="utf-8")


def test_the_examples_begin_with_the_first_dev_sentence_and_are_of_several_kinds(run):
    examples = TrainingText.find_beside(run, MANIFEST).choose_examples()
    assert list(examples) == [
        "The red ball is here.",
        "Go on.",
        "Is it, or is it not?",
        "One, two, three.",
        "A dog ran.",
    ]
    assert len(examples) <= MOST_EXAMPLES
    assert set(examples.values()) == {""}


@pytest.mark.parametrize(
    ("sentence", "language", "pronoun"),
    [
        ("The dog saw a cat when it barked.", "en", "it"),
        ("He bought the cheese and the tomato. They were strange.", "en-GB", "They"),
        ("The dog barked because it was cold.", "en", None),
        ("It saw the dog and the cat.", "en", None),
        ("The dog saw a cat when it barked.", "xx", None),
        ("The dog saw a cat when it barked.", None, None),
    ],
)
def test_a_pronoun_is_ambiguous_after_two_nouns(sentence, language, pronoun):
    assert find_ambiguous_pronoun(sentence, language) == pronoun


def test_the_mistake_is_the_translation_least_like_its_reference():
    pairs = [("A dog.", "Un perro."), ("A cat.", "Un gato."), ("One house.", "Una casa."), ("word", "palabra")]
    given = {"A dog.": "Un perro.", "A cat.": "Una gata.", "One house.": "El perro"}
    steps: list[int] = []
    mistake = find_mistake(given.__getitem__, pairs, lambda: steps.append(1))
    assert mistake == Mistake("One house.", "El perro", "Una casa.")
    assert len(steps) == 3  # not for a word alone
    assert find_mistake(dict(pairs).__getitem__, pairs, lambda: None) is None


def test_examples_with_a_pronoun_and_a_mistake_say_what_is_special_about_them(tmp_path):
    lines = [
        "A dog ran.",
        "The dog saw a cat when it barked.",
        *(f"Number {i} ran far." for i in range(9)),
        "Blue he is.",
    ]
    (tmp_path / "dev.en").write_text("\n".join(lines), encoding="utf-8")
    text = TrainingText(dev_file=tmp_path / "dev.en")
    examples = text.choose_examples("en", Mistake("Blue he is.", "Azul.", "Es azul."))
    assert len(examples) == MOST_EXAMPLES
    assert {note for note in examples.values() if note} == {
        "which noun is “it”?",
        "a likely mistake: “Azul.” instead of “Es azul.”",
    }


def test_the_server_finds_a_mistake_of_its_model_in_the_background(tmp_path):
    (tmp_path / "dev.en").write_text("The ball is blue.\n", encoding="utf-8")
    (tmp_path / "dev.es").write_text("La bola es azul.\n", encoding="utf-8")
    text = TrainingText(dev_file=tmp_path / "dev.en", dev_target=tmp_path / "dev.es")
    with client(training_text=text) as server:  # its model was never trained
        deadline = time.monotonic() + 60
        while (answer := server.get("/examples").json())["pending"] and time.monotonic() < deadline:
            time.sleep(0.05)
    assert answer["notes"]["The ball is blue."].startswith("a likely mistake: ")
    assert answer["references"] == {"The ball is blue.": "La bola es azul."}
    assert (answer["doubts"]["pairs"], answer["doubts"]["mistakes"]) == (1, 1)


def test_an_answer_that_began_before_the_search_ended_says_that_it_goes_on(tmp_path, monkeypatch):
    (tmp_path / "dev.en").write_text("The ball is blue.\n", encoding="utf-8")
    (tmp_path / "dev.es").write_text("La bola es azul.\n", encoding="utf-8")
    text = TrainingText(dev_file=tmp_path / "dev.en", dev_target=tmp_path / "dev.es")
    chosen = Event()
    monkeypatch.setattr("pellucid.serve.service.find_mistake", lambda *_: chosen.wait())
    monkeypatch.setattr("pellucid.serve.service.count_doubts", lambda *_: None)

    def choose_slowly(*_: object) -> dict[str, str]:
        chosen.set()
        time.sleep(0.2)  # the search ends here
        return {"The ball is blue.": ""}

    monkeypatch.setattr(TrainingText, "choose_examples", choose_slowly)
    with client(training_text=text) as server:
        assert server.get("/examples").json()["pending"]
        assert not server.get("/examples").json()["pending"]


def test_a_word_is_rare_below_the_limit_whatever_its_capitals_and_unseen_at_zero(run):
    text = TrainingText.find_beside(run, MANIFEST)
    assert text.find_rare_words("THE Cat and the dog's 7 猫") == {"and": 0, "dog's": 1}
    assert (text.pairs, text.languages) == (42, ("en", "es"))


@pytest.mark.parametrize(
    "broken", [None, {"dev_source": "gone.en"}, {"train": "gone.tsv"}, {"source": "best"}, {"source": "pairs.docx"}]
)
def test_a_run_whose_text_cannot_be_read_offers_nothing_and_harms_nothing(tmp_path, broken):
    if broken is not None:
        write_run(tmp_path, broken)
    text = TrainingText.find_beside(tmp_path / "best", {})
    assert (text.choose_examples(), text.find_rare_words("the cat"), text.pairs) == ({}, None, None)


def test_pairs_in_one_file_give_counts_and_no_examples_for_they_were_trained_on(tmp_path):
    (tmp_path / "pairs.tsv").write_text("the cat\tel gato\nthe dog\tel perro\n", encoding="utf-8")
    write_run(tmp_path, {"train": "pairs.tsv"})
    text = TrainingText.find_beside(tmp_path / "best", {})
    assert (text.choose_examples(), text.read_dev_pairs(9)) == ({}, [])
    assert text.find_rare_words("the gato") == {"the": 2, "gato": 0}


@pytest.mark.parametrize("kind", ["two files", "a file of pairs", "shards", "context"])
def test_a_run_without_a_dev_set_offers_and_measures_on_what_it_held_out(tmp_path, kind):
    """docs/looking/glass-box.md: the page opens with a sentence that the model was not trained on."""
    run = small_run(tmp_path / "text", train={"steps": 1, "evaluate_every": 1, "save_every": 1})
    settings = {"dev_source": None, "dev_target": None, "held_out": 7}
    if kind == "a file of pairs":
        sides = [Path(str(name)).read_text(encoding="utf-8").splitlines() for name in run.data.corpora[0].files]
        rows = "".join("\t".join(pair) + "\n" for pair in zip(*sides, strict=True))
        (tmp_path / "text.tsv").write_text("en\tes\n" + rows, encoding="utf-8")
        languages = {"source_language": "en", "target_language": "es"}
        settings |= {"source": None, "target": None, "train": str(tmp_path / "text.tsv"), **languages}
    elif kind == "context":
        settings["context"] = 1
    run = replace(run, data=replace(run.data, **settings))
    if kind == "shards":
        prepare_shards(run, tmp_path / "shards", 1, lambda line: None)
        run = replace(run, data=replace(run.data, shards=str(tmp_path / "shards")))

    train_run(run, tmp_path / "run")
    corpus = read_corpus(replace(run.data, shards=None), run.seed)
    [train], [dev] = corpus.train, corpus.dev_sets
    text = TrainingText.find_beside(tmp_path / "run" / "best", {})
    held_out = list(zip(sentences_alone(dev.sources), dev.targets, strict=True))
    assert text.read_dev_pairs(100) == held_out
    assert text.choose_examples()
    assert not set(text.choose_examples()) & set(sentences_alone(train.sources))

    # A run of an older version has no such file, until it is resumed.
    (tmp_path / "run" / HELD_OUT_FILE).unlink()
    assert TrainingText.find_beside(tmp_path / "run" / "best", {}).read_dev_pairs(1) == []
    train_run(replace(run, train=replace(run.train, steps=2)), tmp_path / "run", resume=True)
    assert text.read_dev_pairs(100) == held_out


def test_the_dev_set_of_the_first_direction_is_that_of_a_multilingual_model(tmp_path):
    (tmp_path / "dev.tsv").write_text("the cat\tel gato\n", encoding="utf-8")
    lines = ["[[data.corpus]]", 'pairs = "pairs.tsv"', 'dev = "dev.tsv"']
    (tmp_path / "run.toml").write_text("\n".join(lines), encoding="utf-8")
    assert TrainingText.find_beside(tmp_path / "best", {}).read_dev_pairs(9) == [("the cat", "el gato")]


def test_the_routes_answer_from_the_text_and_say_nothing_without_one(run):
    with client(training_text=TrainingText.find_beside(run, MANIFEST)) as server:
        answer = server.get("/examples").json()
        assert (answer["sentences"][0], answer["languages"], answer["pairs"]) == (DEV[0], ["en", "es"], 42)
        assert server.post("/rare-words", json={"text": "the owl"}).json() == {"words": {"owl": 0}}
        assert server.post("/rare-words", json={"text": "a" * 100_000}).status_code == 413
    with client() as server:
        answer = {"sentences": [], "notes": {}, "references": {}, "languages": ["en", "es"], "pairs": None}
        answer |= {"doubts": None, "pending": False}
        assert server.get("/examples").json() == answer
        assert server.post("/rare-words", json={"text": "the owl"}).json() == {"words": None}
