"""Parts of files and their results, without Ray: nothing is lost, shifted, made twice, or believed unseen."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.cluster.part_worker import MOST_TRIES, Job, PartResult, PartWorker, read_part_rows
from pellucid.cluster.parts import Part, Work, name_works, read_parts
from pellucid.cluster.progress import JobProgress, PartOutcome
from pellucid.cluster.results import Results
from pellucid.data.lines import read_lines

# A form feed and U+2028 end no line, a blank line is one.
TEXTS = st.lists(st.text(alphabet="aé \f\u2028\r", max_size=4), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


@given(texts=TEXTS, ended=st.booleans(), packed=st.booleans(), size=st.integers(1, 5), context=st.integers(0, 2))
def test_the_parts_of_a_file_are_its_lines(folder, texts, ended, packed, size, context):
    content = ("\n".join(texts) + "\n" * ended).encode()
    path = folder / "text"
    path.write_bytes(gzip.compress(content) if packed else content)
    lines = list(read_lines(path))
    parts = list(read_parts(Work((str(path),), "text"), size, context))

    assert [line for part in parts for line in part.lines()] == lines
    assert [part.number for part in parts] == list(range(max(1, -(-len(lines) // size))))
    for part in parts:
        start = part.first_line - 1
        assert part.lines() == lines[start : start + size]
        assert list(part.before) == lines[max(0, start - context) : start]
    assert sum(part.size for part in parts) == path.stat().st_size


def test_files_side_by_side_have_the_same_lines_in_each_part(tmp_path):
    (tmp_path / "a").write_text("1\n2\n3\n", encoding="utf-8")
    (tmp_path / "b").write_text("one\ntwo\nthree\n", encoding="utf-8")
    work = Work((str(tmp_path / "a"), str(tmp_path / "b")), "pairs")
    rows = [(part.lines(0), part.lines(1)) for part in read_parts(work, 2)]
    assert rows == [(["1", "2"], ["one", "two"]), (["3"], ["three"])]
    for text in ("one\ntwo\n", "one\ntwo\nthree\nfour\n", "one\ntwo\nthree\n4\n5\n"):
        (tmp_path / "b").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"different numbers of lines: .* ends after line [23]; line n"):
            list(read_parts(work, 2))


@given(st.data())
def test_a_part_is_known_by_all_that_its_result_depends_on(data):
    texts = st.lists(st.text(alphabet="ab", max_size=2), max_size=3)

    def draw() -> Part:
        first, second = ("".join(f"{line}\n" for line in data.draw(texts)).encode() for _ in range(2))
        return Part(0, data.draw(st.integers(1, 2)), (first, second), tuple(data.draw(texts)), 0)

    one, other = draw(), draw()
    same = replace(one, size=0, number=0) == replace(other, size=0, number=0)
    assert (one.sha256() == other.sha256()) == same


def test_two_files_for_one_result_are_refused():
    works = name_works(["/a/book.txt.gz", "/a/letter.docx", "/a/book.es"], frozenset(["/a/letter.docx"]))
    assert [(work.name, work.is_document) for work in works] == [
        ("book.txt", False),
        ("letter.docx", True),
        ("book.es", False),
    ]
    with pytest.raises(ValueError, match=r"a/book\.txt\.gz and b/book\.txt would both be written to book\.txt"):
        name_works([str(Path("a/book.txt.gz").absolute()), str(Path("b/book.txt").absolute())], frozenset())


def shout(calls: list[int], work: Work, part: Part) -> PartResult:
    """Write each line in capitals; remember the part."""
    calls.append(part.number)
    lines = part.lines()
    if "fail" in lines:
        raise ValueError("no capitals for this")
    return PartResult("".join(f"{line.upper()}\n" for line in lines).encode(), len(lines), {"first": part.first_line})


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that makes the result of a text in parts of two lines, in one process."""
    (tmp_path / "out").mkdir()
    work = Work((str(tmp_path / "text"),), "text")

    def run_job(text: str, calls: list[int], made_by: str = "this") -> list[dict[str, Any]]:
        Path(work.files[0]).write_text(text, encoding="utf-8")
        job = Job((work,), tmp_path / "out", partial(partial, shout, calls), made_by, lines_per_part=2)
        worker = PartWorker(job)
        rows = [worker(row) for row in read_part_rows(job, {"work": 0})]
        results = Results(job.folder, "text")
        if all(row["state"] in ("new", "done", "end") for row in rows) and not results.are_joined(len(rows) - 1):
            results.join(len(rows) - 1, {}, lambda record: None)
        return rows

    return run_job


def test_again_only_what_is_missing_or_made_otherwise_is_done(run, tmp_path):
    joined, calls = tmp_path / "out" / "text", list[int]()
    run("a\nb\nc\nd\ne\n", calls)
    assert (joined.read_text(encoding="utf-8"), calls) == ("A\nB\nC\nD\nE\n", [0, 1, 2])
    assert not (tmp_path / "out" / "parts" / "text").exists()

    def again(text: str, made_by: str = "this") -> list[int]:
        calls: list[int] = []
        run(text, calls, made_by)
        assert joined.read_text(encoding="utf-8") == text.upper()
        return calls

    assert again("a\nb\nc\nd\ne\n") == []
    assert again("a\nb\nX\nd\ne\n") == [1]
    assert again("a\nb\nX\nd\ne\nf\ng\n") == [2, 3]
    assert again("a\nb\nX\nd\n") == []  # the file is shorter, and so is the result
    assert again("a\nb\nX\nd\n", "another model") == [0, 1]
    joined.write_text("A\nB\nX\nE\n", encoding="utf-8")
    assert again("a\nb\nX\nd\n", "another model") == [1]
    joined.unlink()
    assert again("a\nb\nX\nd\n", "another model") == [0, 1]


def test_a_part_that_waits_and_was_made_otherwise_is_not_joined(run, tmp_path):
    run("a\nb\nc\n", [])
    # Another model gets as far as the first part; then the first model goes on, whose result is there.
    run("a\nb\nfail\n", [], "another model")
    assert (tmp_path / "out" / "parts" / "text" / "000000").exists()
    calls: list[int] = []
    run("a\nb\nd\n", calls)
    assert calls == [1]
    _, first, _ = (tmp_path / "out" / "parts" / "text.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(first)["made_by"] == "this"


def test_a_part_that_fails_is_named_and_the_others_are_kept(run, tmp_path):
    calls: list[int] = []
    rows = run("a\nb\nfail\nd\ne\n", calls)
    assert [(row["state"], row["reason"]) for row in rows] == [
        ("new", ""),
        ("failed", "no capitals for this"),
        ("new", ""),
        ("end", ""),
    ]
    assert not (tmp_path / "out" / "text").exists()
    calls.clear()
    assert [row["state"] for row in run("a\nb\nc\nd\ne\n", calls)] == ["done", "new", "done", "end"]
    assert calls == [1]


def test_a_part_over_which_workers_are_lost_is_given_up(tmp_path):
    def lose(work: Work, part: Part) -> PartResult:
        raise KeyboardInterrupt  # no exception that a worker could answer to

    (tmp_path / "text").write_text("a\n", encoding="utf-8")
    job = Job((Work((str(tmp_path / "text"),), "out"),), tmp_path, lambda: lose, "", lines_per_part=2)
    row, _ = read_part_rows(job, {"work": 0})
    for _ in range(MOST_TRIES):
        with pytest.raises(KeyboardInterrupt):
            PartWorker(job)(row)
    answer = PartWorker(job)(row)
    assert (answer["state"], answer["reason"].partition(" over it")[0]) == ("failed", f"{MOST_TRIES} workers were lost")
    # Who starts the command again has changed something, and it is tried again.
    with pytest.raises(KeyboardInterrupt):
        PartWorker(job)(next(read_part_rows(job, {"work": 0})))


def test_the_result_of_a_lost_worker_is_not_made_again(tmp_path):
    calls: list[int] = []
    (tmp_path / "text").write_text("a\n", encoding="utf-8")
    job = Job((Work((str(tmp_path / "text"),), "out"),), tmp_path, partial(partial, shout, calls), "", 2)
    row, _ = read_part_rows(job, {"work": 0})
    answers = [PartWorker(job)(row) for _ in range(3)]
    assert calls == [0]
    assert [(answer["state"], answer["count"]) for answer in answers] == [("new", 1)] * 3


def test_progress_counts_what_was_made_now_and_foresees_the_rest(tmp_path):
    (tmp_path / "text").write_bytes(b"x" * 1000)
    now = 0.0
    progress = JobProgress([Work((str(tmp_path / "text"),), "out")], lambda: now)
    progress.add(PartOutcome(0, "done", 0, size=500, count=50))
    assert progress.describe() == "50 done, 50 % of the text, 0 a second"
    now = 60.0
    file = progress.add(PartOutcome(0, "new", 1, size=100, count=30))
    assert progress.describe() == "80 done, 60 % of the text, 0 a second, about 4 min left"
    assert not file.is_complete
    progress.add(PartOutcome(0, "end", 2))
    assert file.is_complete
