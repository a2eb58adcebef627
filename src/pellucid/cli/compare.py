"""`pellucid compare`: which of two models, or of two files of translations, is better, and how surely."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pellucid.atomic import atomic_file
from pellucid.cli.files import json_line, lines_of, name_file_in_errors, write_lines
from pellucid.cli.options import ENGINE, JSON, PRECISIONS, search_default, search_option
from pellucid.cli.progress import show_progress

EXAMPLES = """\
  pellucid compare runs/demo/best runs/quick/best --source test.en --reference test.es
  pellucid compare before.es after.es --reference test.es --html comparison.html
  pellucid compare runs/demo/best other.es.gz --source test.en --reference test.es --train-target train.es.gz --json"""


def run(
    a: Annotated[str, typer.Argument(metavar="A", help="a model directory, or a file of translations, plain or .gz")],
    b: Annotated[str, typer.Argument(metavar="B", help="the same")],
    reference: Annotated[str, typer.Option(metavar="FILE", help="translations by people, one a line")],
    source: Annotated[
        str | None, typer.Option(metavar="FILE", help="the sentences, line by line; needed to translate with a model")
    ] = None,
    train_target: Annotated[
        str | None, typer.Option(metavar="FILE", help="target side of the training text: tells which words are rare")
    ] = None,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    batch: Annotated[int, search_option("batch")] = search_default("batch"),
    length_penalty: Annotated[float, search_option("length_penalty")] = search_default("length_penalty"),
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    samples: Annotated[int, typer.Option(min=1, help="test sets drawn from this one")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="the same seed draws the same test sets")] = 1,
    show: Annotated[int, typer.Option(min=0, help="changed sentences shown, in each direction")] = 10,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="leave case out of account; needless for models that write none")
    ] = False,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="write a page to look at as well")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Which of two translations is better.

    A and B are compared on one test set by BLEU, chrF, TER and WER, with paired bootstrap resampling: is the difference
    more than the luck of these sentences? Then by length and by rare words, and in the sentences that changed most.
    Differences are B minus A. Without --train-target, words are rare that stand once in the references. Case counts,
    but not if A or B is a model that writes lower case only.
    """
    from pellucid.decode.config import SearchConfig
    from pellucid.evaluate.compare import compare_translations
    from pellucid.evaluate.page import comparison_as_html
    from pellucid.evaluate.report import comparison_as_text

    search = {"beam": beam, "batch": batch, "length_penalty": length_penalty, "scores": False}
    SearchConfig(**search)
    check_files((a, b), source, reference, train_target, html)
    texts = read_equal_files([path for path in (source, reference, a, b) if path and not Path(path).is_dir()])
    for side in dict.fromkeys((a, b)):
        if side not in texts:
            texts[side], small = translate_with_model(
                side, str(source), texts[str(source)], (precision, engine), search
            )
            lowercase = lowercase or small
    with name_file_in_errors(reference):
        found = compare_translations(
            texts[a],
            texts[b],
            texts[reference],
            texts[source] if source else None,
            training=lines_of(train_target) if train_target else None,
            names=(describe_side(a, beam), describe_side(b, beam)),
            samples=samples,
            seed=seed,
            show=show,
            lowercase=lowercase,
        )
    if html:
        with atomic_file(html) as write:
            write(comparison_as_html(found).encode())
    write_lines([json_line(found.to_json())] if json else comparison_as_text(found))


def check_files(
    sides: tuple[str, str], source: str | None, reference: str, train_target: str | None, html: str | None
) -> None:
    """ValueError, before anything is read, for files that are not there or are not what is needed."""
    models = [side for side in dict.fromkeys(sides) if Path(side).is_dir()]
    files = {"--source": source, "--reference": reference, "--train-target": train_target}
    problems = [
        f"{side} is neither a model directory nor a file of translations"
        for side in dict.fromkeys(sides)
        if side != "-" and not Path(side).exists()
    ]
    problems += [
        f"{option} {path} is {'a directory' if Path(path).is_dir() else 'not there'}; name a file of sentences"
        for option, path in files.items()
        if path is not None and path != "-" and (Path(path).is_dir() or not Path(path).exists())
    ]
    if models and source is None:
        problems.append(f"{models[0]} is a model, so it needs sentences to translate: --source FILE")
    if [*sides, *files.values()].count("-") > 1:
        problems.append("only one file can be standard input; name the others")
    if html is not None and (Path(html).is_dir() or not Path(html).absolute().parent.is_dir()):
        problems.append(f"--html {html} is no place for a file; name one in a directory that is there")
    if problems:
        raise ValueError("; ".join(problems))


def read_equal_files(paths: Sequence[str]) -> dict[str, list[str]]:
    """The lines of each file; ValueError if they have not all the same number, or none."""
    texts = {path: list(lines_of(path)) for path in dict.fromkeys(paths)}
    numbers = {path: len(lines) for path, lines in texts.items()}
    if len(set(numbers.values())) > 1:
        told = ", ".join(f"{path} has {number:,} lines" for path, number in numbers.items())
        raise ValueError(f"{told}: line n of each must belong to line n of the others; `wc -l` counts them as we do")
    if not all(numbers.values()):
        raise ValueError(f"{' and '.join(numbers)}: there is no line to compare")
    return texts


def translate_with_model(
    model: str, source: str, sources: list[str], how: tuple[str, str], search: dict[str, Any]
) -> tuple[list[str], bool]:
    """What a model makes of the sentences, and whether it writes lower case only."""
    from pellucid.api import load

    loaded, started = load(model, *how), time.monotonic()
    with name_file_in_errors(source):
        found = loaded.translate_stream(sources, **search)
        texts = [each.text for each in show_progress(found, total=len(sources))]
    typer.echo(f"{model}: {len(sources):,} sentences translated in {time.monotonic() - started:.1f} s", err=True)
    return texts, loaded.lowercase


def describe_side(side: str, beam: int) -> str:
    """A file by its name, a model also by how it was searched."""
    return f"{side} (beam {beam})" if Path(side).is_dir() else side
