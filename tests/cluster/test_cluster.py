"""`pellucid translate --cluster`: the same bytes as one process, whatever happens to the workers, and no more work."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import to_toml
from pellucid.store.directory import save_bundle
from tests.cli.conftest import call  # noqa: F401
from tests.decode.models import random_model, small_tokenizer
from tests.documents.samples import SAMPLES
from tests.processes import ForkedProcess
from tests.training.corpora import mixed, small_run

# Ray runs in a process of its own, as it does in a cluster, and ends when its standard input ends.
START = """\
import os, sys
from pellucid.cluster.session import connect
with connect("local", 2):
    import ray
    print(ray.get_runtime_context().gcs_address, os.environ["RAY_AUTH_TOKEN"], file=sys.__stdout__, flush=True)
    sys.stdin.read()
"""
LINES = ["The ball is blue.", "", "Where is the house?", "Yes.", "  ", "The black cat drank the milk.", "1, 2, 3."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a random model, which writes nonsense, fast."""
    directory = tmp_path_factory.mktemp("runs") / "best"
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(directory, random_model(1, vocabulary, vocabulary, max_positions=31), small_tokenizer(), step=0)
    return directory


@pytest.fixture(scope="module")
def ray() -> Iterator[tuple[str, dict[str, str]]]:
    """Start Ray with two cores, and see that nothing of it is left at the end.

    Return its address, and the environment of those from whom it takes work.
    """
    command = (sys.executable, "-c", START)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    address, token = process.stdout.readline().split()
    yield address, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}

    port = address.partition(":")[2]
    started = find_processes(port)
    assert started
    process.stdin.close()
    assert process.wait(timeout=300) == 0
    process.stdout.close()
    wait_until(lambda: not set(started) & set(find_processes(port)))


def find_processes(word: str) -> list[int]:
    """Return the numbers of the processes that have a word in their command line."""
    numbers = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            numbers.append(int(path.parent.name))
    return numbers


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def start(folder: Path, *words: object, **environment: str) -> ForkedProcess:
    words = ("translate", *words, "--set", "max_extra=5")
    return ForkedProcess(*words, folder=folder, environment=environment)


def finish(process: ForkedProcess) -> tuple[int, str]:
    _, messages = process.communicate(timeout=300)
    return process.returncode or 0, messages


def write_books(folder: Path) -> None:
    """Write files of lines, one compressed, one without a line and one that is damaged, and a document."""
    books = folder / "books"
    books.mkdir()
    draw = random.Random(1)
    lines = [f"{draw.choice(LINES)}{'?' * draw.randrange(4)}" for _ in range(200)]
    (books / "long.en.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (books / "short.en").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (books / "nothing.en").write_bytes(b"")
    (books / "page.html").write_bytes(SAMPLES["a.html"][0])
    (books / "bad.en").write_bytes(b"Yes.\nNo.\nca\xf1a\n")


def translate_alone(model: Path, folder: Path, book: str) -> tuple[bytes, list[str]]:
    """Translate a book in one process; return the translation, and what is said of it."""
    code, messages = finish(start(folder, model, f"books/{book}", "--out", f"alone-{book}"))
    assert code == 0
    return (folder / f"alone-{book}").read_bytes(), messages.splitlines()


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


def test_whoever_translates_and_whoever_is_lost_the_translations_are_those_of_one_process(ray, model, tmp_path):
    address, environment = ray
    out = tmp_path / "all"
    write_books(tmp_path)
    alone = {
        book: translate_alone(model, tmp_path, book) for book in ("long.en.gz", "nothing.en", "page.html", "short.en")
    }
    words = (model, "books/*", "--out", "all", "--cluster", address, "--part-lines", 20)
    running = start(tmp_path, *words, **environment)
    kill_worker(out / "parts" / "long.en", running)
    code, messages = finish(running)

    assert code == 1
    assert "pellucid: books/bad.en: books/bad.en:3:3: byte 0xF1 is not UTF-8" in messages.replace(f"{tmp_path}/", "")
    assert "1 of 5 files are not complete (books/bad.en); the same command goes on" in messages
    for book, (content, said) in alone.items():
        assert (out / book.removesuffix(".gz")).read_bytes() == content, book
        assert [line for line in messages.splitlines() if line.startswith(f"pellucid: books/{book}:")] == said
    records = read_records(out, "long.en")
    assert [(record["first_line"], record["count"]) for record in records] == [(i, 20) for i in range(1, 200, 20)]
    assert sorted(path.name for path in out.iterdir()) == ["long.en", "nothing.en", "page.html", "parts", "short.en"]


def test_ray_that_was_started_here_takes_no_work_from_others(ray, model, tmp_path):
    (tmp_path / "in.en").write_text("Yes.\n", encoding="utf-8")
    address, _ = ray
    words = (model, "in.en", "--out", "all", "--cluster", address)
    code, messages = finish(start(tmp_path, *words, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 64))
    assert (code, messages.partition(": ")[2][:13]) == (2, "Ray at " + address[:6]), messages


def kill_worker(parts: Path, running: ForkedProcess) -> None:
    """Kill a worker by SIGKILL when some parts are there."""
    wait_until(lambda: len(list(parts.glob("0*"))) > 3 or running.poll() is not None)
    workers = find_processes("ray::MapWorker")
    assert workers
    os.kill(random.Random(2).choice(workers), signal.SIGKILL)


def read_records(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the records of the parts of a joined file."""
    _, *rows = (folder / "parts" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(row) for row in rows]


RunBoth = Callable[[Sequence[object], Sequence[object]], tuple[str, str]]


@pytest.fixture
def run_both(ray, call, tmp_path) -> RunBoth:  # noqa: F811
    address, environment = ray

    def run(words: Sequence[object], shared: Sequence[object]) -> tuple[str, str]:
        """Return what a command writes to standard output in one process, and on Ray."""
        alone = call(*words)
        process = ForkedProcess(*shared, "--cluster", address, folder=tmp_path, environment=environment)
        out, messages = process.communicate(timeout=300)
        assert (alone.exit_code, process.returncode) == (0, 0), messages
        return alone.stdout, out

    return run


@pytest.mark.slow  # test_part_scores.py does the same without Ray
def test_scores_are_those_of_one_process(run_both: RunBoth, model, tmp_path):
    for name, lines in (("short.en", LINES), ("short.es", LINES[::-1])):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    score = ("score", model, "--source", "short.en", "--target", "short.es")
    alone, _ = run_both(score, (*score, "--out", "scores", "--part-lines", 2048))
    assert (tmp_path / "scores" / "short.en").read_text(encoding="utf-8") == alone


@pytest.mark.slow  # test_part_conversion.py does the same without Ray
def test_conversions_are_those_of_one_process(run_both: RunBoth, tmp_path):
    mixed(small_run(tmp_path / "data"), tmp_path / "data")
    convert = ("convert", "data/rows.tsv", "alone.en", "alone.es")
    run_both(convert, ("convert", "data/*.tsv", "all/*.en", "all/*.es"))
    assert (tmp_path / "all/rows.es").read_bytes() == (tmp_path / "alone.es").read_bytes()


def test_checks_and_shards_are_those_of_one_process(run_both: RunBoth, tmp_path):
    run = mixed(small_run(tmp_path / "data"), tmp_path / "data")
    (tmp_path / "run.toml").write_text(to_toml(run), encoding="utf-8")
    check = ("check", str(run.data.corpora[0].source), str(run.data.corpora[0].target), "--json")
    alone, shared = run_both(check, (*check, "--out", "checked", "--part-lines", 50))
    assert shared == alone

    alone, shared = run_both(("prepare", "run.toml", "--out", "whole"), ("prepare", "run.toml", "--out", "parts"))
    ids = [Path(folder, "target.ids").read_bytes() for folder in json.loads(shared)]
    assert b"".join(ids) == (tmp_path / "whole" / "target.ids").read_bytes()


def test_without_a_cluster_nothing_of_ray_is_imported(model, tmp_path):
    (tmp_path / "in.en").write_text("Yes.\n", encoding="utf-8")
    program = "import sys\nfrom pellucid.cli import main\ntry: main()\nfinally: print('ray' in sys.modules, end='')"
    process = ForkedProcess("translate", model, "in.en", "--out", "out.es", folder=tmp_path, program=program)
    assert process.communicate(timeout=300)[0] == "False"
    assert (tmp_path / "out.es").exists()
