"""Outputs that are no files: devices, FIFOs, sockets, links and open files; and standard streams that are closed."""

import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from pellucid.cli import main
from pellucid.cli.standard_streams import ClosedStream
from pellucid.store.atomic import WriteFailed, atomic_file, require_writable, staging_paths, write_text_whole
from tests.cli.conftest import SOURCE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs and no devices in folders")

TEXT = "año 1\naño 2\n"


class FifoReader:
    """Reads a new FIFO to its end, at the same time as something writes it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path, self.content = path, b""
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        self.content = self.path.read_bytes()

    def wait(self) -> bytes:
        """Return all that was written, once the writer has closed the FIFO."""
        self._thread.join(timeout=60)
        assert not self._thread.is_alive(), "the FIFO was never closed, or never opened"
        return self.content


def make_device(folder: Path, name: str) -> Path:
    """Return a device like /dev/NAME that may be lost; the machine's own where no rights allow to replace it."""
    original, copy = Path("/dev", name), folder / name
    if not original.exists():
        pytest.skip(f"this machine has no {original}")
    try:
        os.mknod(copy, stat.S_IFCHR | 0o666, original.stat().st_rdev)
        os.close(os.open(copy, os.O_WRONLY))
    except OSError:
        copy.unlink(missing_ok=True)
        if os.access("/dev", os.W_OK):
            pytest.skip("no device can be made here, and that of the machine is not for tests")
        return original
    return copy


def without_times(content: bytes) -> bytes:
    """Return what a command wrote without the seconds it took."""
    return re.sub(rb'"seconds":[0-9.e-]+', b"", content)


def assert_nothing_beside(folder: Path, *names: str) -> None:
    """Assert that a folder holds these names and nothing else, such as a file that was not completed."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


# --- One output, of each kind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["null", "full"])
def test_a_device_stays_a_device(name, tmp_path):
    device = make_device(tmp_path, name)
    before = device.stat()
    if name == "full":
        with pytest.raises(WriteFailed, match=r"/full could not be written: no space left on device; what was written"):
            write_text_whole(device, TEXT)
    else:
        write_text_whole(device, TEXT)
    assert (device.stat().st_mode, device.stat().st_rdev) == (before.st_mode, before.st_rdev)
    assert_nothing_beside(tmp_path, *([name] if device.parent == tmp_path else []))


def test_the_reader_of_a_fifo_gets_each_write_at_once(tmp_path):
    path = tmp_path / "out"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_file(path) as write:
        write(b"one\n")
        assert os.read(reader, 100) == b"one\n"
        write(b"two\n")
        assert os.read(reader, 100) == b"two\n"
    assert os.read(reader, 100) == b""
    os.close(reader)
    assert path.is_fifo()
    assert_nothing_beside(tmp_path, "out")


def test_a_fifo_whose_reader_has_stopped_is_a_failed_write(tmp_path):
    path = tmp_path / "out"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_file(path) as write:
        write(b"one\n")
        os.close(reader)
        with pytest.raises(WriteFailed, match="out could not be written: its reader has stopped;"):
            write(b"two\n")
    assert path.is_fifo()


def test_whoever_listens_at_a_socket_gets_the_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("out")
        listening.listen()
        write_text_whole("out", TEXT)
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as received:
            assert received.read() == TEXT.encode()
    assert Path("out").is_socket()
    with pytest.raises(OSError, match="refused"):  # nobody listens any more
        write_text_whole("out", TEXT)
    assert Path("out").is_socket()
    assert_nothing_beside(tmp_path, "out")


@pytest.mark.parametrize("links", [["out"], ["out", "second"], ["out", "folder/second", "third"]])
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_goes_on_pointing_and_its_target_gets_the_text(links, exists, tmp_path):
    for folder in ("folder", "there"):
        (tmp_path / folder).mkdir()
    target = tmp_path / "there" / "file"
    if exists:
        target.write_text("old")
    paths = [tmp_path / name for name in links]
    for path, pointed in zip(paths, [*paths[1:], target], strict=True):
        path.symlink_to(os.path.relpath(pointed, path.parent))
    require_writable(paths[0])
    write_text_whole(paths[0], TEXT)
    assert all(path.is_symlink() for path in paths)
    assert not target.is_symlink()
    assert target.read_text(encoding="utf-8") == TEXT
    assert_nothing_beside(tmp_path / "there", "file")
    assert_nothing_beside(tmp_path, *(path.name for path in paths if path.parent == tmp_path), "folder", "there")


def test_the_target_of_a_link_is_as_it_was_after_an_error(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "out").symlink_to("file")

    def fail() -> None:
        with atomic_file(tmp_path / "out") as write:
            write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "file").read_text() == "old"
    assert_nothing_beside(tmp_path, "file", "out")


def test_two_outputs_to_one_place_never_mix(tmp_path):
    (tmp_path / "link").symlink_to("file")

    def write_both() -> None:
        with atomic_file(tmp_path / "link") as write_first, atomic_file(tmp_path / "file") as write_second:
            for _ in range(9):
                write_first(b"first\n")
                write_second(b"second\n")

    with pytest.raises(WriteFailed, match=r"link \(a link to .*file\) was not written: another output went there"):
        write_both()
    assert (tmp_path / "file").read_text() == "second\n" * 9
    assert_nothing_beside(tmp_path, "file", "link")


def test_what_a_crash_left_of_an_output_is_cleared_and_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    staging_paths(tmp_path / "out")[0].symlink_to("precious")
    write_text_whole(tmp_path / "out", TEXT)
    assert (tmp_path / "out").read_text(encoding="utf-8") == TEXT
    assert (tmp_path / "precious").read_text() == "precious"
    assert_nothing_beside(tmp_path, "out", "precious")


def test_a_link_to_a_fifo_or_a_device_stays_and_leads_to_it(tmp_path):
    reader = FifoReader(tmp_path / "fifo")
    (tmp_path / "out").symlink_to("fifo")
    write_text_whole(tmp_path / "out", TEXT)
    assert reader.wait() == TEXT.encode()
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "fifo").is_fifo()
    assert_nothing_beside(tmp_path, "fifo", "out")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("gone/file", r"it is a link to gone/file, and .*/gone is not a folder"),
        (".", "it is a folder"),
    ],
)
def test_a_link_to_where_no_file_can_be_is_named_and_stays(target, reason, tmp_path):
    path = tmp_path / "out"
    path.symlink_to(target)
    with pytest.raises(ValueError, match=reason):
        require_writable(path)
    with pytest.raises(OSError, match=r"out"):
        write_text_whole(path, TEXT)
    assert os.readlink(path) == target
    assert_nothing_beside(tmp_path, "out")


def test_links_in_a_circle_are_refused_and_stay(tmp_path):
    (tmp_path / "out").symlink_to("back")
    (tmp_path / "back").symlink_to("out")
    with pytest.raises(OSError, match="symbolic links"):
        write_text_whole(tmp_path / "out", TEXT)
    assert_nothing_beside(tmp_path, "back", "out")


@pytest.mark.parametrize("through_link", [True, False])
def test_an_open_file_goes_on_where_it_stands(through_link, tmp_path):
    """As /dev/stdout must do behind `>> log`: what the file holds stays, and later lines follow."""
    log = tmp_path / "log"
    with log.open("wb", buffering=0) as file:
        file.write(b"before\n")
        path = Path(f"/dev/fd/{file.fileno()}")
        if not path.exists():
            pytest.skip("this machine has no /dev/fd")
        if through_link:
            (tmp_path / "out").symlink_to(path)
            path = tmp_path / "out"
        write_text_whole(path, TEXT)
        file.write(b"after\n")
    assert log.read_text(encoding="utf-8") == f"before\n{TEXT}after\n"
    assert_nothing_beside(tmp_path, "log", *(["out"] if through_link else []))


# --- Every command that writes a file -------------------------------------------------------------------------------

COMMANDS: dict[str, list[str]] = {
    "translate --out": ["translate", "MODEL", "lines.en", "--out", "OUT"],
    "translate --out of a document": ["translate", "MODEL", "page.html", "--out", "OUT"],
    "translate --alignments": ["translate", "MODEL", "lines.en", "--alignments", "OUT"],
    "convert": ["convert", "pairs.tsv", "OUT.jsonl"],
    "convert, compressed": ["convert", "pairs.tsv", "OUT.tsv.bz2"],
    "convert, one of two": ["convert", "pairs.tsv", "OUT.en", "other.de", "--from", "en", "--to", "de"],
    "convert --places": ["convert", "pairs.tsv", "other.jsonl", "--places", "OUT"],
    "align": ["align", "book.en", "book.es", "--out", "OUT.tsv"],
    "align, one of two": ["align", "book.en", "book.es", "--out", "OUT.en", "--out", "other.es"],
    "align --beads": ["align", "book.en", "book.es", "--out", "other.tsv", "--beads", "OUT"],
    "check --html": ["check", "pairs.tsv", "--html", "OUT"],
    "compare --html": ["compare", "lines.en", "lines.en", "--reference", "lines.en", "--html", "OUT"],
    "export --to page": ["export", "MODEL", "OUT", "--to", "page", "--sentence", "one two"],
    "inspect project --html": ["inspect", "project", "MODEL", "--html", "OUT.html"],
    "mini": ["mini", "OUT"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_and_a_fifo_get_what_a_command_writes(command, call, model, tmp_path):
    (tmp_path / "lines.en").write_text("one two\nthree\n")
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\nthree\tdrei\n")
    (tmp_path / "book.en").write_text("One two. Three.\n")
    (tmp_path / "book.es").write_text("Uno dos. Tres.\n")
    (tmp_path / "page.html").write_text("<p>one <b>two</b></p>")

    def run(name: str) -> None:
        words = [word.replace("OUT", name).replace("MODEL", str(model)) for word in COMMANDS[command]]
        result = call(*words)
        assert result.exit_code == 0, result.output

    [name] = [word for word in COMMANDS[command] if word.startswith("OUT")]
    link, fifo = (tmp_path / name.replace("OUT", kind) for kind in ("link", "fifo"))
    link.symlink_to("target")
    run("link")
    assert link.is_symlink()
    expected = (tmp_path / "target").read_bytes()
    assert expected

    reader = FifoReader(fifo)
    run("fifo")
    assert fifo.is_fifo()
    assert without_times(reader.wait()) == without_times(expected)


# --- Standard streams that are closed or full -----------------------------------------------------------------------


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., object]:
    """Return a function that runs the command as a process does whose stream of this name was closed at the start."""
    monkeypatch.chdir(tmp_path)

    def run(stream: str, *words: object) -> object:
        monkeypatch.setattr(sys, stream, None)
        monkeypatch.setattr(sys, "argv", ["pellucid", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    return run


@pytest.mark.parametrize(
    "words",
    [
        ["translate", "MODEL"],
        ["convert", "-", "out.jsonl"],
        ["check", "-"],
        ["compare", "-", "lines", "--reference", "lines"],
        ["evaluate", "MODEL", "--source", "-", "--reference", "lines"],
    ],
)
def test_a_closed_standard_input_is_one_sentence(words, closed, model, capsys, tmp_path):
    (tmp_path / "lines").write_text("one\n")
    assert closed("stdin", *(model if word == "MODEL" else word for word in words)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "standard input is closed, so nothing can be read from it" in err
    assert_nothing_beside(tmp_path, "lines")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["translate", "--help"],
        ["inspect", "--help"],
        ["convert", "pairs.tsv", "-"],
        ["translate", "MODEL", "page.html"],
        ["check", "pairs.tsv", "--json"],
        ["inspect", "model", "MODEL"],
    ],
)
def test_a_closed_standard_output_is_one_sentence(words, closed, model, capsys, tmp_path):
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\n")
    (tmp_path / "page.html").write_text("<p>one</p>")
    assert closed("stdout", *(model if word == "MODEL" else word for word in words)) == 2
    err = capsys.readouterr().err
    assert "pellucid: standard output is closed, so nothing can be written to it; give it a file: > FILE\n" in err
    assert "Traceback" not in err


def test_streams_that_a_command_does_not_need_may_be_closed(closed, tmp_path):
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\n")
    for stream in ("stdin", "stdout", "stderr"):
        assert closed(stream, "convert", "pairs.tsv", f"{stream}.jsonl") == 0
        assert (tmp_path / f"{stream}.jsonl").read_text() == '{"source": "one two", "target": "eins zwei"}\n'


def test_a_closed_stream_is_no_terminal_and_has_nothing_to_flush():
    stream = ClosedStream("closed")
    stream.flush()
    assert not stream.isatty()
    for use in (lambda: stream.write("a"), lambda: stream.buffer.write(b"a"), lambda: list(stream), stream.fileno):
        with pytest.raises(OSError, match="closed"):
            use()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this machine has no /dev/full")
@pytest.mark.parametrize("words", ["--help", "--version", "convert --help", "convert pairs.tsv -"])
def test_a_full_standard_output_is_one_sentence(words, tmp_path):
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\n")
    result = run_in_shell(f"{words} > /dev/full", tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "pellucid: no space left on device\n")


def test_really_closed_streams_are_told_and_no_file_takes_their_place(tmp_path):
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\n")
    for streams, words, sentence in [
        ("<&-", "convert - out.jsonl", "standard input is closed"),
        (">&-", "--help", "standard output is closed"),
        ("<&- >&-", "convert pairs.tsv /dev/stdout", "/dev/stdout"),
    ]:
        result = run_in_shell(f"{words} {streams}", tmp_path)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
        assert sentence in result.stderr
    assert run_in_shell("convert pairs.tsv out.jsonl <&- >&- 2>&-", tmp_path).returncode == 0
    assert_nothing_beside(tmp_path, "out.jsonl", "pairs.tsv")


def run_in_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `pellucid` with these words and redirections."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    environment.pop("PYTHONUNBUFFERED", None)  # with it nothing is left to be written at the end
    command = ["sh", "-c", f'exec "$0" -m pellucid {line}', sys.executable]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
