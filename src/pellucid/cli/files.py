"""Input and output of the commands: files of sentences, lines and JSON on standard output, figures, and a bar."""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from pellucid.store.atomic import atomic_file

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.decode.scoring import Score
    from pellucid.decode.translation import Translation
    from pellucid.localize.terminology import Terms
    from pellucid.localize.translation_memory import TranslationMemory

# Translation of characters that some readers take for the end of a line into JSON escapes.
_LINE_SEPARATORS = str.maketrans({code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)})
FIGURES = (".png", ".svg")  # endings of files that a figure can be written to
# Translation of characters that may not stand inside a line of text into spaces.
LINE_BREAKERS = str.maketrans("\n\r\0", "   ")


def read_sentences(path: str) -> Iterator[str]:
    """Return the sentences of a file or, for "-", of standard input; say so where that is a keyboard."""
    from pellucid.data.corpus import sentence_lines

    if path == "-" and sys.stdin.isatty():
        typer.echo("pellucid: reading sentences from the keyboard, one per line; Ctrl-D ends", err=True)
    return sentence_lines(path)


def read_file_pair(first: str, second: str) -> tuple[list[str], list[str]]:
    """Return the lines of two parallel files.

    Raises ValueError if their numbers differ or both are empty.
    """
    lines, [other_lines] = read_parallel_files(first, [second])
    return lines, other_lines


def read_parallel_files(first: str, others: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return the lines of a file and of the files parallel to it.

    Raises ValueError if their numbers differ, if all are empty, or if two of the files are standard
    input.
    """
    if [first, *others].count("-") > 1:
        raise ValueError("both files are standard input; name one of them")
    lines = list(read_sentences(first))
    other_files = [list(read_sentences(other)) for other in others]
    for other, other_lines in zip(others, other_files, strict=True):
        if len(lines) != len(other_lines):
            raise ValueError(
                f"{first} has {len(lines):,} lines and {other} has {len(other_lines):,}: line n of one must belong to "
                "line n of the other; `pellucid` ends lines at line feeds only, as `wc -l` counts them"
            )

    if not lines:
        raise ValueError(f"{first} and {' and '.join(others)} are empty")
    return lines, other_files


def read_pair_rows(
    path: str,
    source_language: str | None,
    target_language: str | None,
) -> tuple[list[str], list[str]]:
    """Return both sides of every unit of one file in any format of pairs, empty where a unit holds no pair."""
    from pellucid.data.corpus import read_rows
    from pellucid.data.formats.units import Sides

    rows = list(read_rows(path, None, Sides(source_language, target_language)))
    if not rows:
        raise ValueError(f"{path} is empty")
    return [source for _, source, _ in rows], [target for _, _, target in rows]


def read_test_pairs(
    path: str, source_language: str | None = None, target_language: str | None = None
) -> tuple[list[str], list[str]]:
    """Return both sides of the pairs in one file, in any of the formats.

    Say which of them were skipped. Raises ValueError for a file whose name does not tell a format
    of pairs, and for one that cannot be read.
    """
    from pellucid.data.corpus import holds_pairs, read_pairs
    from pellucid.data.formats import PAIR_ENDINGS
    from pellucid.data.formats.units import Sides

    if not holds_pairs(path):
        raise ValueError(
            f"--reference is missing: name the translations of {path}, line by line; or give, as --source alone, one "
            f"file of pairs, which ends in {PAIR_ENDINGS}"
        )

    pairs = read_pairs(
        path,
        max_characters=sys.maxsize,
        sides=Sides(source_language, target_language),
    )
    if pairs.skipped:
        typer.echo(f"{path}: {pairs.skipped}", err=True)
    return list(pairs.sources), list(pairs.targets)


def read_parallel_lines(path: str, other: str) -> list[str]:
    """Return the lines of a file that is parallel to another one, which may be standard input or a pipe."""
    from pellucid.data.lines import is_read_once

    if path == other == "-":
        raise ValueError("both files are standard input; name one of them")
    if is_read_once(other):  # its lines cannot be counted here
        return list(read_sentences(path))
    return read_file_pair(path, other)[0]


def set_language(model: "Model", language: str | None, is_of_file: bool) -> "Model":
    """Return the model set to write `language`.

    With `is_of_file`, `language` only describes a file: a model of one language then ignores it.
    """
    return model if language is None or (is_of_file and not model.is_multilingual) else model.into(language)


def translate_test_set(
    model: "Model",
    file: str,
    sources: Sequence[str],
    **search: Any,
) -> "list[Translation]":
    """Translate the sentences of a file, say how long that took, and return the translations."""
    started = time.monotonic()
    with name_file_in_errors(file):
        translations = model.translate_stream(sources, scores=False, **search)
        finished = list(show_progress(translations, total=len(sources)))
    seconds = time.monotonic() - started
    typer.echo(f"{model.directory}: {len(sources):,} sentences translated in {seconds:.1f} s", err=True)
    return finished


@contextmanager
def open_output(path: str | None) -> Iterator[Callable[[str], Any] | None]:
    """Yield a function that writes text to a file, which appears once all is written.

    Yield None for no path.
    """
    if path is None:
        yield None
        return
    with atomic_file(path) as write:
        yield lambda text: write(text.encode())


@contextmanager
def name_file_in_errors(path: str) -> Iterator[None]:
    """Put the name of the file into errors about its lines and into warnings of lines that were not translated."""
    from pellucid.decode.translation import NotTranslated

    name = "standard input" if path == "-" else path
    show = warnings.showwarning

    def with_name(message: Warning | str, category: type[Warning], *location: Any) -> None:
        if issubclass(category, NotTranslated):
            typer.echo(f"pellucid: {name}: {message}", err=True)
        else:
            show(message, category, *location)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", NotTranslated)  # by default, Python shows equal warnings once
            warnings.showwarning = with_name
            yield
    except ValueError as error:
        if str(error).startswith(f"{path}:"):  # errors from reading name file and line already
            raise
        raise ValueError(f"{name}: {error}") from None


def write_lines(lines: Iterable[str], write: Callable[[str], Any] | None = None) -> None:
    """Write lines by a function, or to standard output, in UTF-8 even if the machine's default is another."""
    for line in lines:
        if write is not None:
            write(line.translate(LINE_BREAKERS) + "\n")
            continue
        # One write and one flush a line: a reader sees it at once, and an interruption leaves
        # complete lines only.
        sys.stdout.buffer.write(line.translate(LINE_BREAKERS).encode() + b"\n")
        sys.stdout.buffer.flush()


def say_notes(notes: Iterable[str]) -> None:
    """Write sentences on what the user should know about a result to standard error."""
    for note in notes:
        typer.echo(f"pellucid: note: {note}", err=True)


def write_report(json: bool, objects: Iterable[Any], lines: Iterable[str]) -> None:
    """Write objects to standard output as lines of JSON or, without `json`, the lines that people read."""
    write_lines(map(json_line, objects) if json else lines)


def read_terms_and_memory(
    terms: str | None, memory: str | None, languages: tuple[str, str] | None
) -> "tuple[Terms | None, TranslationMemory | None]":
    """Read the files of --terms and --memory in these languages; None for one that is not named."""
    codes = languages or ()
    terminology = remembered = None
    if terms is not None:
        from pellucid.localize.terminology import Terms

        terminology = Terms.read(terms, *codes)
    if memory is not None:
        from pellucid.localize.translation_memory import TranslationMemory

        remembered = TranslationMemory.read(memory, *codes)
    return terminology, remembered


def score_lines(scores: "Iterable[Score]", json: bool) -> Iterator[str]:
    """Yield a line for each score: its log-probability, or with `json` all of it as an object."""
    for score in scores:
        yield json_line(score) if json else f"{score.log_prob:.6f}"


def json_line(value: Any) -> str:
    r"""Return an object as one line of JSON that every reader of lines takes for one line.

    >>> json_line({"text": "año\u2028\n", "scores": (1, float("nan"))})
    '{"text": "año\\u2028\\n", "scores": [1, null]}'
    """
    return json.dumps(_as_plain_json(value), ensure_ascii=False).translate(_LINE_SEPARATORS)


def _as_plain_json(value: Any) -> Any:
    """Return a value, of dataclasses and arrays too, as lists, mappings and numbers.

    Infinities and NaN are None.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: _as_plain_json(item) for key, item in value.items()}
    # Arrays of NumPy and torch, without importing either.
    if tolist := getattr(value, "tolist", None):
        value = tolist()
    if isinstance(value, list | tuple):
        return [_as_plain_json(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def save_figure(
    path: str | Path | None,
    draw: Callable[..., Any],
    *data: Any,
    **options: Any,
) -> None:
    """Call `draw(*data, path, **options)` and say where the figure is.

    Do nothing without a path.
    """
    if path is None:
        return
    try:
        draw(*data, Path(path), **options)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise  # not a missing extra, but a fault of ours
        raise ValueError(f"{path} is not drawn, for lack of matplotlib: pip install 'pellucid[plots]'") from None

    typer.echo(f"drawn: {path}", err=True)


def require_file(path: str) -> str:
    """Return the path; raise OSError if the file cannot be read, before any work is done."""
    from pellucid.data.lines import is_read_once

    # Opening also finds missing rights and directories, which `exists` does not. What writes into a
    # pipe would end by SIGPIPE when this closes it again.
    if not is_read_once(path):
        Path(path).open("rb").close()
    return path


Item = TypeVar("Item")


def show_progress(
    items: Iterable[Item], total: int | None = None, unit: str = "lines", *, to_file: bool = False
) -> Iterator[Item]:
    """Yield the items, counted by a bar if standard error is a terminal, and no results are written to one."""
    # Where results go to the terminal, the bar would stand
    # between them, and they show the progress themselves.
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not to_file):
        yield from items
        return

    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    with _transient_bar(total, MofNCompleteColumn(), TextColumn(unit), BarColumn(), TimeElapsedColumn()) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def measurement_bar(title: str, total: int) -> Iterator[Callable[[], object]]:
    """Show a bar of `total` steps; yield a function to call after each."""
    if not sys.stderr.isatty():  # results may go to the terminal too: nothing is written before the measuring ends
        yield lambda: None
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    with _transient_bar(total, TextColumn(title), BarColumn(), TimeRemainingColumn()) as advance:
        yield advance


@contextmanager
def _transient_bar(total: int | None, *columns: Any) -> Iterator[Callable[[], object]]:
    """Show a bar on standard error, which goes when it ends.

    Yield the function that moves it by one.
    """
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
