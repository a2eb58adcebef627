"""Stages of a run: a corpus is shown in its part of the run alone, and a run goes on exactly in any stage."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pellucid.config import to_toml
from pellucid.data.batching import CorpusShare, EncodedPairs, pack_sentences
from pellucid.data.stream import Stage, StageBeginning, Stream
from pellucid.training import beginning
from pellucid.training.config import RunConfig, make_run, read_run
from pellucid.training.loop import train_run
from tests.laws.runs import assert_same_end, read_reports, train_until
from tests.training.corpora import mixed, small_run

ALL, FIRST, LAST = Stage((True, True)), Stage((True, False)), Stage((False, True))


@pytest.fixture(scope="module")
def encoded() -> EncodedPairs:
    random = np.random.default_rng(3)
    sides = [pack_sentences([[*random.integers(4, 90, random.integers(1, 9)), 3] for _ in range(60)], np.uint16)] * 2
    return EncodedPairs(sides[0], sides[1], (CorpusShare("web", 40), CorpusShare("news", 20, 2.0)))


def test_each_stage_shows_its_corpora_and_the_ledger_counts_all_of_them(encoded):
    stream, counts = Stream(encoded, 61, seed=3), Counter({"web": 0, "news": 0})
    for stage, batches in ((FIRST, 17), (ALL, 9), (LAST, 40), (FIRST, 1), (FIRST, 5)):
        stream.enter(stage)
        for _ in range(batches):
            of_web = next(stream).indices < 40
            counts += Counter(web=int(of_web.sum()), news=int((~of_web).sum()))
            assert of_web.all() or stage.corpora != (True, False)
            assert not of_web.any() or stage.corpora != (False, True)
            assert stream.ledger == {"web": counts["web"], "news": counts["news"]}


@pytest.mark.parametrize("pairs_as_a_whole", [7, 2**22])
def test_a_stream_goes_on_from_any_position_of_any_stage(encoded, pairs_as_a_whole, monkeypatch):
    for name, value in (("PAIRS_AS_A_WHOLE", pairs_as_a_whole), ("PAIRS_PER_BLOCK", 3), ("BLOCKS_PER_WINDOW", 5)):
        monkeypatch.setattr(f"pellucid.data.{'stream' if 'WHOLE' in name else 'epoch_order'}.{name}", value)
    stages = [FIRST] * 15 + [ALL] * 6 + [LAST] * 20
    stream, saved, seen = Stream(encoded, 61, seed=3), [], []
    for stage in stages:
        saved.append((stream.position, stream.began, stream.ledger))
        stream.enter(stage)
        spec = stream.advance()
        seen.append((spec.seed, spec.pairs.tolist()))
    for i, (position, began, ledger) in enumerate(saved):
        resumed = Stream(encoded, 61, *position, began=began)
        assert resumed.ledger == ledger
        for stage, expected in zip(stages[i : i + 8], seen[i : i + 8], strict=True):
            resumed.enter(stage)
            spec = resumed.advance()
            assert (spec.seed, spec.pairs.tolist()) == expected
    # No two batches of a run share a seed, whatever the stages.
    assert len({seed for seed, _ in seen}) == len(seen)


def test_a_stage_that_shows_the_same_corpora_goes_on_in_the_same_epoch(encoded):
    plain, staged = Stream(encoded, 61, seed=3), Stream(encoded, 61, seed=3)
    for i in range(30):
        staged.enter(Stage((True, True), both_directions=i % 2 == 0))
        assert next(staged).indices.tolist() == next(plain).indices.tolist()
    assert staged.began == StageBeginning(0, (0, 0), (True, True))


def staged_run(folder: Path, parts: list[tuple[float, float]], **changes: dict) -> RunConfig:
    """Return the run on three corpora, each from and until a share of the run."""
    run = mixed(small_run(folder, **changes), folder)
    corpora = [
        replace(corpus, from_=from_, until=until) for corpus, (from_, until) in zip(run.data.corpus, parts, strict=True)
    ]
    return replace(run, data=replace(run.data, corpus=tuple(corpora)))


PARTS = [(0.0, 0.5), (0.3, 1.0), (0.75, 1.0)]


def test_a_run_shows_each_corpus_in_its_part_and_says_where_one_begins_or_ends(tmp_path, capsys):
    run = staged_run(tmp_path / "data", PARTS, train={"batch_tokens": 60})
    shown = []

    class SpiedStream(Stream):
        def advance(self):
            spec = super().advance()
            ends = np.cumsum([share.pairs for share in self.corpora])
            shown.append(set(np.searchsorted(ends, spec.pairs, side="right").tolist()))
            return spec

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beginning, "Stream", SpiedStream)
        train_run(run, tmp_path / "out")
    # 12 updates: the second corpus begins before update 4 (30 %), the first ends with update 5, the third begins at 9.
    for update, corpora in enumerate(shown):
        allowed = {number for number, (begin, end) in enumerate(PARTS) if begin <= update / 12 < end}
        assert corpora <= allowed, update
    assert set().union(*shown) == {0, 1, 2}
    said = " ".join(capsys.readouterr().err.split())
    assert "step 4, 33% of the run: from here on with web" in said
    assert "step 6, 50% of the run: from here on without clean" in said
    assert "step 9, 75% of the run: from here on with rows.tsv" in said


def test_a_run_that_was_killed_in_any_stage_ends_as_an_undisturbed_one(tmp_path, monkeypatch):
    run = staged_run(tmp_path / "data", PARTS, train={"save_every": 2, "batch_tokens": 60}, model={"dropout": 0.2})
    train_run(run, tmp_path / "undisturbed")
    for updates in (5, 11):
        train_until(updates, run, tmp_path / f"killed {updates}", monkeypatch)
        train_run(run, tmp_path / f"killed {updates}", resume=True)
        assert_same_end(tmp_path / "undisturbed", tmp_path / f"killed {updates}")
    assert any("learning_rate" in row for row in read_reports(tmp_path / "undisturbed"))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([(0.0, 0.5), (0.6, 1.0), (0.8, 1.0)], r"none is shown from 0\.5 to 0\.6 of the run; let one begin earlier"),
        ([(0.0, 0.5), (0.2, 0.9), (0.1, 0.2)], r"none is shown from 0\.9 of the run to its end; let one end later"),
        ([(0.5, 0.5), (0.0, 1.0), (0.0, 1.0)], r"clean begins at 0\.5 of the run and ends at 0\.5, before"),
    ],
)
def test_a_part_of_a_run_that_shows_nothing_is_refused(tmp_path, parts, message):
    with pytest.raises(ValueError, match=message):
        staged_run(tmp_path, parts)


def test_a_run_file_names_the_parts_with_from_and_until(tmp_path):
    corpora = [
        {"source": "a", "target": "b", "until": 0.5},
        {"source": "c", "target": "d", "from": 0.25},
    ]
    noise = {"capitals": 0.1, "from": 0.1, "until": 0.9}
    run = make_run(
        {"data": {"corpus": corpora, "dev_source": "e", "dev_target": "f", "noise": noise}, "train": {"steps": 9}}
    )
    assert [(corpus.from_, corpus.until) for corpus in run.data.corpus] == [(0.0, 0.5), (0.25, 1.0)]
    (tmp_path / "run.toml").write_text(to_toml(run), encoding="utf-8")
    assert read_run(tmp_path / "run.toml").data.noise == run.data.noise
    assert "from_" not in to_toml(run)


def test_a_resume_with_other_parts_is_refused(tmp_path, monkeypatch):
    run = staged_run(tmp_path / "data", PARTS)
    train_until(5, run, tmp_path / "out", monkeypatch)
    other = staged_run(tmp_path / "data", [(0.0, 0.6), *PARTS[1:]])
    with pytest.raises(ValueError, match=r"data\.corpus: parts of the run is"):
        train_run(other, tmp_path / "out", resume=True)
