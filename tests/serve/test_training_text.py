"""Tests of what the page is told of the training text: sentences to try, languages, pairs and rare words."""

import json
from pathlib import Path

import pytest

from pellucid.serve.training_text import MOST_EXAMPLES, RARE, TrainingText
from tests.serve.servers import client

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
    assert examples == ["The red ball is here.", "Go on.", "Is it, or is it not?", "One, two, three.", "A dog ran."]
    assert len(examples) <= MOST_EXAMPLES


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
    assert (text.choose_examples(), text.find_rare_words("the cat"), text.pairs) == ([], None, None)


def test_pairs_in_one_file_give_examples_and_counts_too(tmp_path):
    (tmp_path / "pairs.tsv").write_text("the cat\tel gato\nthe dog\tel perro\n", encoding="utf-8")
    write_run(tmp_path, {"train": "pairs.tsv"})
    text = TrainingText.find_beside(tmp_path / "best", {})
    assert text.choose_examples() == ["the cat", "the dog"]
    assert text.find_rare_words("the gato") == {"the": 2, "gato": 0}


def test_the_routes_answer_from_the_text_and_say_nothing_without_one(run):
    with client(training_text=TrainingText.find_beside(run, MANIFEST)) as server:
        answer = server.get("/examples").json()
        assert (answer["sentences"][0], answer["languages"], answer["pairs"]) == (DEV[0], ["en", "es"], 42)
        assert server.post("/rare-words", json={"text": "the owl"}).json() == {"words": {"owl": 0}}
        assert server.post("/rare-words", json={"text": "a" * 100_000}).status_code == 413
    with client() as server:
        assert server.get("/examples").json() == {"sentences": [], "languages": ["en", "es"], "pairs": None}
        assert server.post("/rare-words", json={"text": "the owl"}).json() == {"words": None}
