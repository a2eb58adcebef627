"""Commands to go on with after a training: the model's verdict in words, and what to type next."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pellucid.training.config import RunConfig
    from pellucid.training.loop import Outcome

_LONGEST_EXAMPLE = 60  # characters of a sentence that is proposed to be translated


def program_name() -> str:
    """Return the words that call this program again."""
    if Path(sys.argv[0]).name == "__main__.py":  # called as `python -m pellucid`
        return f"{sys.executable} -m pellucid"
    # A path such as .venv/bin/pellucid is repeated only where the bare name would not be found.
    return "pellucid" if shutil.which("pellucid") else sys.argv[0]


def say_next_steps(run: "RunConfig", outcome: "Outcome") -> None:
    """Say on standard error how good the model of a finished run is, and which commands to try next."""
    if not outcome.first or outcome.evaluation is None:
        return

    for line in _next_step_lines(run, outcome):
        typer.echo(line, err=True)


def _next_step_lines(run: "RunConfig", outcome: "Outcome") -> Iterator[str]:
    from pellucid.store.atomic import read_manifest
    from pellucid.training.log import read_log
    from pellucid.training.summary import summarize_run

    assert outcome.evaluation is not None
    program, model = program_name(), shlex.quote(str(outcome.best))
    bleu = read_manifest(outcome.best)["dev"]["bleu"]
    lines = outcome.evaluation.translations

    summary = summarize_run(run.train, bleu, len(lines), read_log(outcome.out / "log.jsonl"))

    yield ""
    yield summary.sentence
    if summary.longer:
        out = shlex.quote(str(outcome.out))
        yield f"  {program} train --out {out} --resume {' '.join(summary.longer)}"

    yield "Next, try:"
    short = [line for line in lines if 0 < len(line.source) <= _LONGEST_EXAMPLE]
    if short:
        to = f" --to {short[0].language}" if short[0].language else ""
        yield f"  echo {shlex.quote(short[0].source)} | {program} translate {model}{to}"
    yield f"  {program} serve {model} --open"
    if not run.data.shards:
        yield f"  {program} check {_describe_text(run)}"


def _describe_text(run: "RunConfig") -> str:
    """Return the first corpus of a run as words of a command line."""
    corpus, words = run.data.corpora[0], list[str]()
    for file in corpus.files:
        if file is not None:
            path = Path(file)
            # A run has whole paths; people type what stands below the folder they are in.
            here = path.is_relative_to(Path.cwd())
            words.append(shlex.quote(str(path.relative_to(Path.cwd()) if here else path)))

    is_file_of_pairs = len(words) == 1
    for option, side in (("--from", corpus.sides.source), ("--to", corpus.sides.target)):
        if side and is_file_of_pairs:
            words += [option, shlex.quote(side)]

    return " ".join(words)
