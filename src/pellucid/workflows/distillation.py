"""Sequence-level distillation: a student learns from what a teacher writes (Kim and Rush 2016).

The teacher's translations are written down as they come, so that an
interruption costs no more than one of them.
"""

import hashlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from pellucid.data.corpus import sentence_lines
from pellucid.evaluate.scores import runs_in_a_loop
from pellucid.store.atomic import atomic_file, explain_unfinished_work
from pellucid.training.config import RunConfig
from pellucid.training.defaults import choose_settings_for_data

# File with what the teacher wrote: a line that says who
# translated what, then a line for each sentence.
TRANSLATIONS = "translations.jsonl"
_BLOCK = 2**20  # bytes that are copied at a time
_ENCODER_LAYERS = 6  # layers of a student's encoder

_LEFT_OUT = "left_out.tsv"
# Characters that a field of a TSV file cannot hold, as spaces.
_UNWRITABLE = str.maketrans("\t\n\r\0", "    ")
# Function from sentences to a text and the reason it stopped for
# each: "eos", "length", "empty" or "failed".
Translate = Callable[[Iterable[str]], Iterator[tuple[str, str]]]


@dataclass(frozen=True)
class TeacherText:
    """Sentence pairs of a teacher, as two files, and how many of its translations were left out, by reason."""

    source: Path
    target: Path
    pairs: int
    left_out: Mapping[str, int]


def read_text(files: Sequence[str]) -> Iterator[str]:
    """Yield the lines of several files, one file after the other."""
    return chain.from_iterable(map(sentence_lines, files))


def fingerprint_text(files: Sequence[str]) -> str:
    """Return the SHA-256 of the lines of several files."""
    digest = hashlib.sha256()
    for line in read_text(files):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def write_translations(
    files: Sequence[str], translate: Translate, folder: Path, identity: Mapping[str, Any]
) -> Iterator[int]:
    """Translate the lines of `files` into `folder`, and yield the number of lines that are done after each.

    A folder in which translations were begun is continued where they stop. `identity` says who
    translates what, and how: raises ValueError if those that are there were made by another
    teacher, from another text or in another way.
    """
    path, done = folder / TRANSLATIONS, count_translations(folder, identity)
    with explain_unfinished_work(path, folder), path.open("ab") as file:
        rest = islice(read_text(files), done, None)
        for count, (text, stop) in enumerate(translate(rest), start=done + 1):
            file.write(translation_row(text, stop))
            # A reader of the file, and a run that goes on after this
            # process was killed, find every line.
            file.flush()
            yield count

        os.fsync(file.fileno())


def translation_row(text: str, stop: str) -> bytes:
    """Return the line of a translation in the file of translations."""
    return json.dumps([text, stop], ensure_ascii=False).encode() + b"\n"


def count_translations(folder: Path, identity: Mapping[str, Any]) -> int:
    """Return how many translations are in `folder`, and begin their file where there is none.

    Raises ValueError where they were made by another teacher, from another text or in another way.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return _keep_complete_lines(folder / TRANSLATIONS, _first_line(identity))


def join_translations(parts: Iterable[Path], folder: Path, identity: Mapping[str, Any]) -> None:
    """Write the file of translations from files of its lines, one after another."""
    with atomic_file(folder / TRANSLATIONS) as write:
        write(_first_line(identity).encode() + b"\n")
        for part in parts:
            with part.open("rb") as file:
                while block := file.read(_BLOCK):
                    write(block)


def _first_line(identity: Mapping[str, Any]) -> str:
    """Return the line that says who translates what, and how."""
    return json.dumps(identity, sort_keys=True, ensure_ascii=False)


def _keep_complete_lines(path: Path, first: str) -> int:
    """Cut off what an interruption left of a line, and return how many translations are there; begin a new file.

    Raises ValueError if the file's first line is another.
    """
    if not path.exists():
        with atomic_file(path) as write:
            write(first.encode() + b"\n")
        return 0

    end = lines = 0
    with path.open("rb") as file:
        for line in file:
            # A power cut may leave a line without an end, or one with zeros in it.
            if not line.endswith(b"\n") or (lines and not _is_translation(line)):
                break
            if not lines and line != first.encode() + b"\n":
                raise ValueError(
                    f"{path} holds translations of another text, of another teacher, or made in another way "
                    f"({line.decode(errors='replace').strip():.200}); choose another --out, or remove that file"
                )
            end, lines = end + len(line), lines + 1

    if not lines:
        path.unlink()
        return _keep_complete_lines(path, first)
    os.truncate(path, end)
    return lines - 1


def _is_translation(line: bytes) -> bool:
    """Whether a line is a text and the reason it stopped."""
    try:
        value = json.loads(line)
    except ValueError:
        return False
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(isinstance(item, str) for item in value)


def write_pairs(files: Sequence[str], folder: Path, backward: bool = False) -> TeacherText:
    """Write the teacher's translations as two files of training pairs, and list the lines left out with the reason.

    With `backward` the text that was translated becomes the target side, as in back-translation
    (Sennrich et al. 2016): the student then learns to write what people wrote. Raises
    ValueError if there is not a translation for each line.
    """
    paths = {side: folder / f"train.{side}" for side in ("source", "target")}
    left_out, pairs = Counter[str](), 0
    with (
        atomic_file(paths["source"]) as write_source,
        atomic_file(paths["target"]) as write_target,
        atomic_file(folder / _LEFT_OUT) as write_left_out,
        (folder / TRANSLATIONS).open(encoding="utf-8", newline="\n") as translations,
    ):
        next(translations)
        try:
            rows = zip(read_text(files), translations, strict=True)
            for number, (line, row) in enumerate(rows, start=1):
                text, stop = json.loads(row)
                reason = _reason_to_leave_out(line, text, stop)
                if reason:
                    left_out[reason] += 1
                    fields = (str(number), reason, _as_field(line), _as_field(text))
                    write_left_out("\t".join(fields).encode() + b"\n")
                    continue

                pairs += 1
                source, target = (text, line) if backward else (line, text)
                write_source(source.encode() + b"\n")
                write_target(target.encode() + b"\n")
        except ValueError as error:
            raise ValueError(
                f"{folder / TRANSLATIONS} does not hold a translation of each line: {error}"
            ) from None

    return TeacherText(paths["source"], paths["target"], pairs, dict(left_out))


def _reason_to_leave_out(line: str, text: str, stop: str) -> str | None:
    """Return why a student should not learn from this translation, or None if it may."""
    if not line.strip():
        return "blank line"
    if stop == "failed":
        return "not translated"
    if not text.strip():
        return "nothing written"
    if stop == "length":
        return "cut off at the limit"
    # A teacher that repeats itself teaches just that.
    return "runs in a loop" if runs_in_a_loop(text) and not runs_in_a_loop(line) else None


def _as_field(text: str) -> str:
    return text.translate(_UNWRITABLE)


def choose_student_settings(
    text: TeacherText,
    dev: tuple[str, str],
    *,
    people: tuple[str, str] | None = None,
    size: str | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    overrides: Sequence[str] = (),
) -> tuple[RunConfig, tuple[str, ...]]:
    """Return the settings of a student's training, and the reasons for what was chosen.

    The student has a deep encoder, which runs once a sentence, and one decoder layer, which runs
    once a piece (Kasai et al. 2021). `people` are files of pairs that people translated.
    """
    teacher_corpus = {"source": str(text.source), "target": str(text.target)}
    data: dict[str, Any] = {"dev_source": dev[0], "dev_target": dev[1]}
    if people is None:
        data |= teacher_corpus
    else:
        people_corpus = {"name": "people", "source": people[0], "target": people[1]}
        data["corpus"] = [{"name": "teacher", **teacher_corpus}, people_corpus]

    chosen = choose_settings_for_data(data, overrides, size, steps, minutes)
    chosen.tables["model"] |= {"encoder_layers": _ENCODER_LAYERS, "decoder_layers": 1}
    run, reasons = chosen.make_run(overrides)
    depth = f"{_ENCODER_LAYERS} encoder layers, which run once a sentence, and 1 decoder layer, which runs once a piece"
    return run, (*reasons, f"{depth} (--set model.decoder_layers=2)")


def translate_with_command(command: Sequence[str]) -> Translate:
    """Return a function that translates with a program that reads a sentence a line and writes its translation a line.

    The function raises ValueError if the program cannot be started, ends with another exit code
    than 0, or writes fewer or more lines than it was given.
    """

    def translate(lines: Iterable[str]) -> Iterator[tuple[str, Literal["eos"]]]:
        name, read, written = " ".join(command), 0, 0
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise ValueError(f"{name} cannot be started: {error}") from None

        def feed(pipe: Any) -> None:
            nonlocal read
            # A program that ends early shows in its exit code or in the number of its lines.
            with suppress(BrokenPipeError), pipe:
                for line in lines:
                    read += 1
                    pipe.write(line.encode() + b"\n")

        # On a thread, for a program that reads everything before it
        # writes would wait for us, and we for it.
        feeder = Thread(target=feed, args=(process.stdin,), daemon=True)
        with process:
            feeder.start()
            try:
                for row in process.stdout or ():
                    written += 1
                    try:
                        text = row.decode()
                    except UnicodeDecodeError:
                        raise ValueError(
                            f"line {written:,} of what {name} wrote is not UTF-8: {row!r:.80}"
                        ) from None

                    yield text.removesuffix("\n").removesuffix("\r"), "eos"
                code = process.wait()
            finally:
                process.kill()
                feeder.join()

        if code or written != read:
            raise ValueError(
                f"{name} was given {read:,} lines, wrote {written:,} and ended with exit code {code}"
            )

    return translate
