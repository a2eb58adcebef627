"""Training pairs that share a sentence with a named dev set are found as `check --against` finds them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.data.corpus import SentencePairs, SkippedPairs
from pellucid.data.text.bare_text import bare_text
from pellucid.store.atomic import read_manifest
from pellucid.training.config import DataConfig, RunConfig, make_run, read_run
from pellucid.training.data import read_corpus, read_data
from pellucid.training.log import read_log
from pellucid.training.loop import train_run
from pellucid.training.overlap import DEV_SENTENCE, DevOverlap
from pellucid.training.shard_writing import prepare_shards
from pellucid.workflows.check.examine import examine_corpus
from tests.training.corpora import small_run

DEV = [
    ("The ball is blue.", "La bola es azul."),
    ("The door was open.", "La puerta estaba abierta."),
    ("Yes.", "Sí."),
    ("Nobody was there.", "No había nadie."),
]
TRAIN = [
    ("A cat sleeps on the roof.", "Un gato duerme en el tejado."),
    ("the ball is BLUE", "¡La bola, es azul!"),  # a dev pair, but for case, punctuation and spaces
    ("Yes!", "Sí"),  # a dev pair, too short to tell anything
    ("The door was open.", "La puerta estaba sin cerrar."),  # a dev source with another translation
    ("There was nobody.", "No había nadie."),  # a dev target with another source
    ("The ball is red.", "La bola es roja."),
]


def write_pairs(folder: Path, **files: list[tuple[str, str]]) -> dict[str, Any]:
    for name, pairs in files.items():
        for side, ending in enumerate(("en", "es")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")
    names = {"source": "train.en", "target": "train.es", "dev_source": "dev.en", "dev_target": "dev.es"}
    return {key: str(folder / name) for key, name in names.items()}


@given(st.text())
def test_a_bare_text_has_all_letters_and_digits_and_nothing_else(text: str):
    assert bare_text(text) == "".join(re.findall(r"[^\W_]", text.casefold()))


def test_pairs_that_share_a_sentence_with_the_dev_set_are_left_out_and_counted(tmp_path: Path):
    corpus = read_corpus(DataConfig(**write_pairs(tmp_path, train=TRAIN, dev=DEV)), 1)
    [train] = corpus.train
    assert list(train.lines) == [1, 3, 6]
    assert train.skipped.counts == {DEV_SENTENCE: 3}
    assert corpus.notes[-1] == (
        "2 of the 4 dev pairs also stand in the training text; 3 training pairs that share a sentence of 12 letters or "
        "more with the dev set are left out, so that dev scores are those of new text (--set data.allow_overlap=true "
        "keeps such pairs); 1 of the dev pairs have shorter sentences and stay"
    )


def test_overlap_that_is_allowed_is_counted_and_kept(tmp_path: Path):
    corpus = read_corpus(DataConfig(**write_pairs(tmp_path, train=TRAIN, dev=DEV), allow_overlap=True), 1)
    assert len(corpus.train[0]) == len(TRAIN)
    assert not corpus.train[0].skipped
    assert corpus.notes == (
        "2 of the 4 dev pairs also stand in the training text; 3 training pairs that share a sentence of 12 letters or "
        "more with the dev set are kept, as data.allow_overlap says, so dev scores will be too good",
    )


def test_check_finds_the_same_pairs(tmp_path: Path):
    """The fault "leaked" of `pellucid check --against` marks just the pairs that training leaves out."""
    [train] = read_corpus(DataConfig(**write_pairs(tmp_path, train=TRAIN, dev=DEV)), 1).train
    rows = [(line, *pair) for line, pair in enumerate(TRAIN, start=1)]
    report = examine_corpus(lambda: rows, against=[sentence for pair in DEV for sentence in pair])
    leaked = {int(index) + 1 for index in report.marks["leaked"][0]}
    assert leaked == {*range(1, len(TRAIN) + 1)} - {*train.lines}


def test_nothing_is_said_without_overlap_and_short_sentences_stay(tmp_path: Path):
    def notes(train: list[tuple[str, str]]) -> tuple[str, ...]:
        return read_corpus(DataConfig(**write_pairs(tmp_path, train=train, dev=DEV)), 1).notes

    assert notes(TRAIN[:1]) == ()
    assert notes(TRAIN[2:3]) == (
        "1 of the 4 dev pairs also stand in the training text, and are kept: their sentences are shorter than 12 "
        "letters, as in any text",
    )
    assert (
        "0 of the 4 dev pairs also stand in the training text; 1 training pair that shares"
        in notes([TRAIN[0], TRAIN[3]])[-1]
    )


def test_a_text_that_is_all_of_the_dev_set_is_refused(tmp_path: Path):
    files = write_pairs(tmp_path, train=TRAIN[3:5], dev=DEV)
    with pytest.raises(ValueError, match=r"every pair shares .* --set data\.allow_overlap=true"):
        read_corpus(DataConfig(**files), 1)


def test_each_direction_of_a_multilingual_model_has_its_own_dev_set():
    english_spanish = SentencePairs.from_lists(["The ball is blue."], ["La bola es azul."])
    english_german = SentencePairs.from_lists(["The door was open."], ["Die Tür stand offen."])
    overlap = DevOverlap([(("en", "es"), english_spanish), (("en", "de"), english_german)], allowed=False)
    rows = [(1, "La bola es azul.", "The ball is blue."), (2, "La puerta.", "The door was open.")]
    kept = [line for line, *_ in overlap.filter_rows(rows, "back.tsv", ("es", "en"), SkippedPairs())]
    assert kept == [2]  # the English of another direction's dev set may be learned
    assert (overlap.standing, overlap.sharing) == (1, 1)


def overlapping_run(folder: Path, **changes: dict) -> RunConfig:
    """Return a run of two updates whose training text has all of its dev pairs, too."""
    quick = {"steps": 2, "evaluate_every": 2, "save_every": 1, "dev_sentences": 1}
    run = small_run(folder, train=quick, **changes)
    for side in ("source", "target"):
        train, dev = (Path(getattr(run.data, name)) for name in (side, f"dev_{side}"))
        train.write_text(train.read_text("utf-8") + dev.read_text("utf-8"), encoding="utf-8")
    return run


@pytest.mark.parametrize("allowed", [False, True])
def test_shards_and_text_say_and_leave_out_the_same(tmp_path: Path, allowed: bool):
    run = overlapping_run(tmp_path / "data", data={"allow_overlap": allowed})
    text = read_data(run)
    assert text.dev_overlap == 23
    assert sum("23 of the 23 dev pairs also stand in the training text" in note for note in text.notes) == 1
    prepare_shards(run, tmp_path / "shards", 1, lambda message: None)
    sharded = replace(run, data=replace(run.data, shards=str(tmp_path / "shards")))
    mapped = read_data(sharded)
    assert (mapped.fingerprint, mapped.dev_overlap) == (text.fingerprint, 23)
    assert sorted(mapped.notes) == sorted(text.notes)
    other = read_data(replace(sharded, data=replace(sharded.data, allow_overlap=not allowed)))
    assert sum("run `pellucid prepare` again to change it" in note for note in other.notes) == 1
    dev = Path(run.data.dev_source or "")
    dev.write_text(dev.read_text("utf-8").replace("one", "six", 1), encoding="utf-8")
    assert sum("was not prepared with this dev set" in note for note in read_data(sharded).notes) == 1


def test_the_number_is_in_the_log_and_in_the_account_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = overlapping_run(tmp_path / "data")
    train_run(run, tmp_path / "out")
    assert "23 of the 23 dev pairs also stand in the training text; " in capsys.readouterr().err
    assert [row["dev_overlap"] for row in read_log(tmp_path / "out" / "log.jsonl") if "dev_overlap" in row] == [23]
    [account] = read_manifest(tmp_path / "out" / "best")["pairs"]
    assert account["read"] == 211 + 23
    sides = [Path(name).read_text("utf-8").splitlines() for name in (run.data.source or "", run.data.target or "")]
    pairs = [[line.replace(" ", "") for line in pair] for pair in zip(*sides, strict=True)]
    long = {line for pair in pairs[211:] for line in pair if len(line) >= 12}
    assert account["left_out"] == {DEV_SENTENCE: sum(not long.isdisjoint(pair) for pair in pairs)}


def test_a_run_of_an_older_version_resumes_with_the_text_that_it_began_with(tmp_path: Path):
    """Its run.toml does not know the setting, and it trained on all pairs."""
    run = overlapping_run(tmp_path / "data", data={"allow_overlap": True})
    train_run(run, tmp_path / "out")
    run_file = tmp_path / "out" / "run.toml"
    run_file.write_text(re.sub("allow_overlap = .*\n", "", run_file.read_text("utf-8")), encoding="utf-8")
    assert "allow_overlap" not in run_file.read_text("utf-8")
    longer = read_run(run_file, ["train.steps=3"], began=tmp_path / "out")
    assert longer.data.allow_overlap
    train_run(longer, tmp_path / "out", resume=True)
    with pytest.raises(ValueError, match=r"data\.allow_overlap is False, it began with True"):
        train_run(replace(longer, data=replace(longer.data, allow_overlap=False)), tmp_path / "out", resume=True)
    tables = {"data": {"source": "a", "target": "b"}, "train": {"steps": 1}}
    assert not make_run(tables).data.allow_overlap
