"""Pipes as input: each command reads one exactly once and gives what a file gives, or refuses it in one sentence."""

import gzip
import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.config import to_toml
from pellucid.data.formats import PAIR_FORMATS
from pellucid.data.formats.units import Sides, Unit
from tests.processes import ForkedProcess
from tests.training.corpora import small_run, write_corpus


class Pipes:
    """FIFOs in a folder, each with a thread that writes the content of a file into it, once."""

    def __init__(self, folder: Path):
        folder.mkdir()
        self.folder, self.errors, self.threads = folder, list[str](), dict[Path, threading.Thread]()

    def open(self, file: Path) -> Path:
        pipe = self.folder / file.name
        os.mkfifo(pipe)
        # A daemon: if the command never opens the pipe, this waits for ever.
        self.threads[pipe] = threading.Thread(target=self._write, args=(pipe, file.read_bytes()), daemon=True)
        self.threads[pipe].start()
        return pipe

    def _write(self, pipe: Path, content: bytes) -> None:
        try:
            pipe.write_bytes(content)
        except OSError as error:
            self.errors.append(f"{pipe.name}: {error}")

    def close(self) -> None:
        """Let the threads end whose pipe nobody has opened."""
        for pipe, thread in self.threads.items():
            if thread.is_alive():
                os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
            thread.join(timeout=30)


@pytest.fixture
def pipes(tmp_path: Path):
    opened = Pipes(tmp_path / "pipes")
    yield opened
    opened.close()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a corpus of sentences, more than fit into a pipe at once, and other files of text."""
    folder = tmp_path / "files"
    folder.mkdir()
    write_corpus(folder, pairs=2003)
    lines = (folder / "source.txt").read_text(encoding="utf-8").splitlines()
    short = [" ".join(line.split()[:2]) for line in lines[:7]]
    (folder / "few.txt").write_text("\n".join(short) + "\n", encoding="utf-8")
    (folder / "few.de").write_text("\n".join(line.upper() for line in short) + "\n", encoding="utf-8")
    (folder / "empty.txt").write_text("\n" * 7, encoding="utf-8")
    (folder / "terms.tsv").write_text("one\tuno\n", encoding="utf-8")
    (folder / "links.txt").write_text("0-0\n" * 7, encoding="utf-8")
    (folder / "corrections.tsv").write_text("one two\tuno\tdos uno\n", encoding="utf-8")
    (folder / "packed.gz").write_bytes(gzip.compress((folder / "few.txt").read_bytes()))
    (folder / "page.html").write_text("<p>one two</p>", encoding="utf-8")
    units = [Unit(i, f"one {'two ' * i}", f"uno {'dos ' * i}") for i in range(1, 50)]
    for pair_format in PAIR_FORMATS:
        if pair_format.encode is not None and pair_format.name != "a data set (Parquet)":
            content = b"".join(pair_format.encode(iter(units), Sides("en", "es"), lambda unit, reason: None))
            (folder / f"pairs.{pair_format.endings[0]}").write_bytes(content)
    for ending in ("zip", "xlsx", "parquet"):
        (folder / f"pairs.{ending}").write_bytes(b"PK\x03\x04")
    (folder / "run.toml").write_text(to_toml(small_run(folder / "data")), encoding="utf-8")
    return folder


SEQUENTIAL = ("tsv", "jsonl", "tmx", "xliff", "po", "csv", "json")
# What is written in <> is a file, or a pipe with its content.
READ = [
    "check <source.txt> <target.txt>",
    "check <source.txt> <target.txt> --against <dev_source.txt> --fix fixed",
    "check <pairs.tmx> --from en --to es",
    "translate MODEL <few.txt>",
    "translate MODEL <packed.gz>",
    "translate MODEL <few.txt> --prefix <empty.txt>",
    "translate MODEL <few.txt> --terms <terms.tsv> --alignments links",
    "translate MODEL <few.txt> --memory <pairs.tmx> --from en --to es",
    "translate MODEL <page.html> --out out.html --from en --to es",
    "evaluate MODEL --source <few.txt> --reference <few.de>",
    "evaluate MODEL --source <few.txt> --reference <few.de> --reference <links.txt>",
    "evaluate MODEL --source <pairs.tmx> --from en --to es",
    "compare <few.txt> <few.de> --reference <links.txt> --train-target <target.txt>",
    "score MODEL --source <few.txt> --target <few.de>",
    "calibrate MODEL --source <source.txt> --reference <target.txt>",
    "inspect align MODEL --source <few.txt> --target <few.de> --gold <links.txt>",
    "inspect heads MODEL --source <few.txt> --target <few.de> --counts <source.txt>",
    "export MODEL out.html --to page --precision int8 --sentence one --dev-source <few.txt> --dev-target <few.de>",
    *(f"convert <pairs.{ending}> out.tsv --from en --to es" for ending in SEQUENTIAL),
    "convert <source.txt> <target.txt> out.tsv",
]
REFUSED = [
    "train --source <source.txt> --target <target.txt> --out out",
    "train --source <pairs.tmx> --from en --to es --out out",
    "train RUN --set data.source=<source.txt>",
    "train RUN --set data.dev_target=<dev_target.txt>",
    "prepare RUN --set data.target=<target.txt> --out out",
    "plan RUN --set data.source=<source.txt>",
    "distill --command cat --source <source.txt> --dev-source <few.txt> --dev-target <few.de> --out out",
    "improve MODEL <corrections.tsv> --out out",
    *(f"convert <pairs.{ending}> out.tsv" for ending in ("zip", "xlsx", "parquet")),
]


def run_command(
    words: str, model: Path, files: Path, name: Callable[[Path], Path], folder: Path
) -> tuple[int, str, str]:
    """Run a command in a folder of its own, with `name` giving the path of each file in <>; return code, out, err."""
    folder.mkdir(exist_ok=True)
    texts = list[str]()
    for word in words.replace("MODEL", str(model)).replace("RUN", str(files / "run.toml")).split():
        before, _, rest = word.partition("<")
        texts.append(before + str(name(files / rest.removesuffix(">"))) if rest else word)
    process = ForkedProcess(*texts, folder=folder)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode or 0, out, err


def read_outputs(folder: Path, files: Path, pipes: Path) -> dict[str, bytes]:
    """Return the files in a folder, with the names of the inputs as if they were those of the pipes."""
    return {
        str(path.relative_to(folder)): path.read_bytes().replace(str(files).encode(), str(pipes).encode())
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", "out.html")  # a page has a trace with an id of its own
    }


@pytest.mark.parametrize("words", READ)
def test_a_pipe_is_read_once_and_gives_what_a_file_gives(words, model, files, pipes, tmp_path):
    copies = [Path(shutil.copytree(model, tmp_path / name / "run" / "model")) for name in ("first", "second")]
    expected = run_command(words, copies[0], files, lambda file: file, tmp_path / "first")
    result = run_command(words, copies[1], files, pipes.open, tmp_path / "second")
    assert expected[0] == 0, expected[2]
    assert result[0] == 0, result[2]
    assert not pipes.errors

    def as_pipes(text: str) -> str:
        text = text.replace(str(files), str(pipes.folder)).replace(str(copies[0]), str(copies[1]))
        return re.sub("[0-9,]+ bytes", "some bytes", text)  # of a page

    assert as_pipes(result[1]) == as_pipes(expected[1])
    outputs = [read_outputs(tmp_path / name, files, pipes.folder) for name in ("first", "second")]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("words", REFUSED)
def test_a_pipe_that_would_be_read_twice_is_refused_at_once(words, model, files, pipes, tmp_path):
    code, out, err = run_command(words, model, files, pipes.open, tmp_path / "here")
    assert (code, out) == (2, ""), err
    assert "can be read only once, and" in err
    assert "write the text into a file and name that" in err
    assert err.count("\n") == 1
    assert not any((tmp_path / "here").iterdir())
