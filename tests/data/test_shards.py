"""Shards: a part is whole or not there, and joined parts are the pairs that were written."""

from pathlib import Path

import numpy as np
import pytest

from pellucid.data import shards
from pellucid.data.batching import EncodedPairs, collate, pack_sentences
from pellucid.data.corpus import SkippedPairs
from pellucid.data.shards import join_parts, map_shards, read_part, write_part
from pellucid.data.stream import concatenate_corpora

TYPES = {"source": "<u2", "target": "<i4"}


def random_pairs(seed: int, pairs: int) -> EncodedPairs:
    random = np.random.default_rng(seed)
    sources, targets = (
        [random.integers(4, vocabulary, random.integers(1, 12)).tolist() for _ in range(pairs)]
        for vocabulary in (65_536, 70_001)
    )
    return EncodedPairs(pack_sentences(sources, np.uint16), pack_sentences(targets, np.int32))


def make_skipped(count: int) -> SkippedPairs:
    skipped = SkippedPairs()
    for number in range(count):
        skipped.add("source of more than 9 pieces", f"a.en:{number}")
    return skipped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of three parts, the second of them empty, and of the shards they were joined to."""
    for i, pairs in enumerate((13, 0, 5)):
        write_part(tmp_path / f"{i}.npz", random_pairs(i, pairs), make_skipped(i))
    parts = enumerate(map(read_part, sorted(tmp_path.glob("*.npz"))))
    joined = [(number, pairs, skipped.counts.total()) for number, pairs, skipped in join_parts(parts, tmp_path)]
    assert joined == [(0, 13, 0), (1, 0, 1), (2, 5, 2)]
    return tmp_path


def test_mapped_pairs_are_those_that_were_written(folder: Path):
    expected = concatenate_corpora([random_pairs(i, n) for i, n in ((0, 13), (1, 0), (2, 5))])
    mapped = map_shards(folder, 18, TYPES)
    for side in ("sources", "targets"):
        written_side, mapped_side = getattr(expected, side), getattr(mapped, side)
        assert written_side.ids.tolist() == mapped_side.ids.tolist()
        assert written_side.starts.tolist() == mapped_side.starts.tolist()
        assert written_side.lengths.tolist() == mapped_side.lengths.tolist()
    indices = np.array([17, 0, 13, 4], dtype=np.int32)
    assert collate(mapped, indices).source.equal(collate(expected, indices).source)
    assert collate(mapped, indices).target_out.equal(collate(expected, indices).target_out)


def test_mapped_ids_lie_in_the_file_and_cannot_be_written(folder: Path):
    mapped = map_shards(folder, 18, TYPES)
    assert not mapped.sources.ids.flags.owndata
    assert mapped.sources.ids.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        mapped.sources.ids[0] = 5


def test_a_part_records_the_pairs_that_were_skipped(tmp_path: Path):
    write_part(tmp_path / "0.npz", random_pairs(1, 3), make_skipped(7))
    _, skipped = read_part(tmp_path / "0.npz")
    assert str(skipped) == str(make_skipped(7))
    skipped.add_later(make_skipped(1))
    assert skipped.counts.total() == 8
    assert len(skipped.examples) == 5


def test_a_part_that_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def raise_disk_full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards.os, "fsync", raise_disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_part(tmp_path / "0.npz", random_pairs(1, 3), SkippedPairs())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_part_that_was_cut_is_named(tmp_path: Path, keep: int):
    path = tmp_path / "0.npz"
    write_part(path, random_pairs(1, 30), SkippedPairs())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"0\.npz is damaged .* prepare again: only it is made anew"):
        read_part(path)


@pytest.mark.parametrize("name", ["source.ids", "target.ids", "source.starts", "target.starts"])
def test_files_that_were_cut_are_refused(folder: Path, name: str):
    whole = (folder / name).read_bytes()
    for size in (len(whole) - 8, 8, 0):
        (folder / name).write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"were cut or changed|is empty"):
            map_shards(folder, 18, TYPES)


def test_starts_that_go_backwards_are_refused(folder: Path):
    starts = np.fromfile(folder / "source.starts", dtype="<i8")
    starts[7] = starts[9]
    starts.tofile(folder / "source.starts")
    with pytest.raises(ValueError, match="were cut or changed"):
        map_shards(folder, 18, TYPES)


def test_an_unknown_type_of_ids_is_refused(folder: Path):
    with pytest.raises(ValueError, match="stores target ids as '<f8'"):
        map_shards(folder, 18, {**TYPES, "target": "<f8"})
