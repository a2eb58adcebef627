"""`pellucid remember` and `pellucid explain --because` as users call them."""

import json
from pathlib import Path

import pytest

from pellucid.training.loop import train_run
from pellucid.training.state_store import remember_states
from tests.training.corpora import small_run


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model with its store."""
    folder = tmp_path_factory.mktemp("remembered")
    train_run(small_run(folder / "text"), folder / "run")
    remember_states(folder / "run", lambda words: None)
    return folder / "run" / "best"


@pytest.mark.parametrize(
    "d_model", [pytest.param(128, marks=pytest.mark.slow), 192]
)  # that of a tiny model, and one that is projected
def test_a_run_of_any_width_is_remembered_in_at_most_200_bytes_a_token(call, tmp_path, d_model):
    train_run(small_run(tmp_path / "text", model={"d_model": d_model}), tmp_path / "run")
    result = call("remember", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert "211 of 211 pairs" in result.stderr
    files = json.loads((tmp_path / "run" / "best.states" / "manifest.json").read_text(encoding="utf-8"))["files"]
    # The projection is of the store, not of its tokens: a large text has none of it to speak of.
    size = sum(entry["bytes"] for name, entry in files.items() if name != "projection")
    assert 128 < size / (files["scales"]["bytes"] / 4) <= 200
    words = "explain", tmp_path / "run" / "best", "one two", "--target", "dos uno", "--because", "uno", "--json"
    nearest = json.loads(call(*words).stdout)["because"]
    assert all(-1.0 <= pair["state"] <= 1.00001 for pair in nearest)


def test_the_pairs_for_a_word_and_against_it_are_shown_with_their_lines(call, remembered):
    result = call("explain", remembered, "one two", "--target", "dos uno", "--because", "uno")
    assert result.exit_code == 0, result.stderr
    assert "Training pairs that made it likelier\n  source.txt:" in result.stdout
    assert "Training pairs that spoke against it\n  source.txt:" in result.stdout
    assert result.stdout.count("gradient ") > 2
    assert "[" in result.stdout  # the word, where there are no colours
    assert "rank correlation" in result.stdout


def test_as_json_it_is_one_object(call, remembered):
    words = "explain", remembered, "one two", "--target", "dos uno", "--because", "uno", "--json"
    [line] = call(*words).stdout.splitlines()
    found = json.loads(line)
    assert found["word"] == "uno"
    assert all(1 <= len(found[side]) <= 10 for side in ("because", "against"))
    assert {"line", "file", "source", "target", "state", "gradient"} <= found["because"][0].keys()


def test_what_cannot_be_remembered_or_asked_is_refused(refuse, model, remembered):
    given = ("one two", "--target", "dos uno", "--because")
    for words, phrase in (
        (("remember", model), "run.toml is missing: it names the text that"),
        (("explain", model, *given, "uno"), "run `pellucid remember"),
        (("explain", remembered, *given, "tres"), "'tres' is no word of the translation 'dos uno'"),
        (("explain", remembered, *given, "uno", "--html", "a.html"), "--because and --html exclude each other"),
    ):
        assert phrase in refuse(*words)
