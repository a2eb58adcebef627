"""Shards made in parts, by any number of processes, are the shards of the whole text."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pellucid.data.shards import JoinedArrays
from pellucid.store.directory import WEIGHTS
from pellucid.training import shard_writing
from pellucid.training.config import RunConfig
from pellucid.training.data import read_data
from pellucid.training.loop import train_run
from tests.training.corpora import mixed, small_run

PARTS = range(2, 4), range(1, 2)  # in the order in which they are made, the first with a new tokenizer


def mixed_run(folder: Path) -> RunConfig:
    """Return a run of few updates on three corpora."""
    train = {"steps": 7, "evaluate_every": 7, "save_every": 3, "dev_sentences": 1, "dev_beam": 1, "keep": 2}
    return mixed(small_run(folder, train=train), folder)


def hold_out(run: RunConfig) -> RunConfig:
    """Return the run without its dev set: pairs of the first corpus are held out."""
    return replace(run, data=replace(run.data, dev_source=None, dev_target=None, held_out=11))


def prepare(run: RunConfig, folder: Path, numbers: range | None = None, tokenizer_of: Path | None = None) -> Path:
    shard_writing.prepare_shards(run, folder, 2, lambda message: None, numbers, tokenizer_of)
    return folder


def prepare_parts(run: RunConfig, folder: Path) -> list[Path]:
    """Prepare the corpora in two parts, the last corpora first."""
    first = prepare(run, folder / "a", PARTS[0])
    return [first, prepare(run, folder / "b", PARTS[1], first)]


def read_from(run: RunConfig, folders: Sequence[Path]) -> RunConfig:
    return replace(run, data=replace(run.data, shards=tuple(map(str, folders))))


@pytest.mark.parametrize("change", [lambda run: run, hold_out])
def test_parts_hold_what_the_whole_text_holds_and_train_to_the_same_bit(
    change: Callable[[RunConfig], RunConfig], tmp_path: Path
):
    run = change(mixed_run(tmp_path / "data"))
    folders = prepare_parts(run, tmp_path)
    whole_run = read_from(run, [prepare(run, tmp_path / "whole", None, folders[0])])
    parts, whole = read_data(read_from(run, folders)), read_data(whole_run)

    assert parts.encoded.corpora == whole.encoded.corpora
    for side in ("sources", "targets"):
        joined, mapped = getattr(parts.encoded, side), getattr(whole.encoded, side)
        assert np.array_equal(joined.ids[:], mapped.ids)
        assert np.array_equal(joined.starts[:], mapped.starts)
        assert joined.length_range == mapped.length_range
    for name in ("fingerprint", "accounts", "languages", "dev_overlap"):
        assert getattr(parts, name) == getattr(whole, name), name
    # The counts are those of the whole; words of equal rank in their parts have no other order.
    assert parts.profile
    assert whole.profile
    assert replace(parts.profile, words=()) == replace(whole.profile, words=())
    assert sorted(parts.profile.words) == sorted(whole.profile.words)
    assert (parts.dev.sources, list(parts.dev.lines)) == (whole.dev.sources, list(whole.dev.lines))

    train_run(whole_run, tmp_path / "of-whole")
    train_run(read_from(run, folders[::-1]), tmp_path / "of-parts")
    weights = [(tmp_path / out / "last" / WEIGHTS).read_bytes() for out in ("of-whole", "of-parts")]
    assert weights[0] == weights[1]


def test_what_does_not_fit_together_is_said_in_one_sentence(tmp_path: Path):
    run = mixed_run(tmp_path / "data")
    first, second = prepare_parts(run, tmp_path)
    alone = prepare(run, tmp_path / "c", PARTS[1])  # with a tokenizer of its own
    for folders, message in (
        ([first], r"none holds corpus 1; the run has 3 corpora"),
        ([first, second, alone], r"more than one holds corpus 1"),
        ([first, alone], r"/a was cut into pieces by another tokenizer than .*/c; .* --tokenizer .*/c"),
    ):
        with pytest.raises(ValueError, match=message):
            read_data(read_from(run, folders))
    fewer = replace(run, data=replace(run.data, corpus=run.data.corpus[:2]))
    with pytest.raises(ValueError, match="one holds corpus 3; the run has 2 corpora"):
        read_data(read_from(fewer, [first, second]))


def test_a_tokenizer_of_other_settings_is_refused(tmp_path: Path):
    run = mixed_run(tmp_path / "data")
    first = prepare(run, tmp_path / "a", PARTS[0])
    other = replace(run, tokenizer=replace(run.tokenizer, vocabulary=280))
    with pytest.raises(ValueError, match=r"--tokenizer .*/a: tokenizer\.vocabulary is 280, it was made with 290"):
        prepare(other, tmp_path / "b", PARTS[1], first)


def test_joined_arrays_read_as_one():
    random = np.random.default_rng(3)
    arrays = [random.integers(0, 99, size) for size in (5, 0, 1, 7)]
    joined = JoinedArrays(arrays, [0, 1, 2, 3])
    whole = np.concatenate([array + plus for plus, array in enumerate(arrays)])
    assert len(joined) == len(whole) == 13
    for start in range(14):
        for stop in range(start, 14):
            assert joined[start:stop].tolist() == whole[start:stop].tolist()
    places = random.integers(-13, 13, (3, 4))
    assert joined[places].tolist() == whole[places].tolist()
    assert [int(joined[i]) for i in range(13)] == whole.tolist()
