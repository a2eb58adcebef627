"""`pellucid terms`: proposes a glossary of a parallel text, and lists terms that it translates in several ways."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import require_file, show_progress, write_report
from pellucid.cli.options import (
    JSON,
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    TEXT_OR_PAIRS,
    TEXT_TARGET,
    file_option,
    option,
)
from pellucid.cli.pair_output import find_output_format, open_compressed
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.data.formats import PairFormat
    from pellucid.data.formats.units import Sides, Unit
    from pellucid.workflows.term_extraction import Glossary

TERMS_EXAMPLES = """\
  pellucid terms my.en my.es --out glossary.tsv
  pellucid terms memory.tmx --from en --to es --out glossary.tbx
  pellucid terms my.en my.es --least 2 --most 50
  pellucid translate runs/mine/best book.en --terms glossary.tsv > book.es"""


def run_terms(
    source: Annotated[str, TEXT_OR_PAIRS],
    target: Annotated[str | None, TEXT_TARGET] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, TARGET_LANGUAGE] = None,
    out: Annotated[str | None, file_option("write the glossary to this .tsv, .csv or .tbx")] = None,
    least: Annotated[int, option("how often a term, and each of its translations, must occur", min=2)] = 3,
    consistency: Annotated[
        float,
        option(
            "share that the commonest translation of a consistent term has at least",
            min=0.5,
            max=1.0,
        ),
    ] = 0.7,
    most: Annotated[int, option("most terms of each kind", min=1)] = 500,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Propose a glossary of your text.

    It lists the words and phrases, up to four words long, that your translations render
    consistently: a line has the term, a tab, its translation, a tab, and how often and where. What
    belongs to a subject comes first, what stands everywhere last. Then come, as comments, the terms
    that are translated in several ways, with the places of each. Which words belong together is
    learned from the text itself, which takes some hundred pairs.

    Delete the lines that you do not want, correct the others, and give the file to `pellucid
    translate --terms`. Several lines with one term allow each of their translations, such as
    inflected forms.
    """
    from pellucid.data.corpus import SkippedPairs, read_rows
    from pellucid.data.formats import find_pair_format
    from pellucid.data.formats.units import Sides
    from pellucid.workflows.term_extraction import propose_glossary

    output = None if out is None else find_pair_format(out)
    if out is not None and (output is None or not {"tsv", "csv", "tbx"} & {*output.endings}):
        raise ValueError(f"--out {out}: a glossary is written as .tsv, .csv or .tbx; name such a file")
    for path in (source, target):
        if path is not None:
            require_file(path)
    require_writable(out)
    place = "line" if target is not None or getattr(find_pair_format(source), "by_line", True) else "unit"
    sides = Sides(source_language, target_language)
    skipped = SkippedPairs()
    rows = show_progress(read_rows(source, target, sides, skipped), to_file=out is not None)
    # The languages of a file are known once its first pair was read: before the work.
    first = list(islice(rows, 1))
    named = _name_sides(sides, source, target)
    if out is not None:
        find_output_format(out, named, source)
    glossary = propose_glossary(chain(first, rows), least, consistency, most)
    if skipped:
        typer.echo(f"{source}: {skipped}", err=True)

    if out is not None and output is not None:
        _write_glossary(out, output, glossary, named, place)
    if out is None or json:
        terms = [*glossary.consistent, *glossary.inconsistent]
        objects = [asdict(term) | {"consistency": term.consistency} for term in terms]
        write_report(json, objects, _list_lines(glossary, place))
    typer.echo(
        f"{glossary.pairs:,} different pairs: {len(glossary.consistent):,} terms with one translation, "
        f"{len(glossary.inconsistent):,} with several",
        err=True,
    )


def _name_sides(sides: "Sides", source: str, target: str | None) -> "Sides":
    """Return the sides with their languages, which endings such as .en and .es say, too."""
    from pellucid.data.formats.units import Sides, language_of_file

    if target is None:
        return sides
    return Sides(sides.source or language_of_file(source), sides.target or language_of_file(target))


def _write_glossary(path: str, output: "PairFormat", glossary: "Glossary", sides: "Sides", place: str) -> None:
    """Write a glossary in the format of the file's ending; of TSV, terms with several translations are comments."""
    unfit: list[Unit] = []
    with open_compressed(path) as write:
        if output.encode is None or "tsv" in output.endings:
            for line in _list_lines(glossary, place):
                write(f"{line}\n".encode())
        else:
            for content in output.encode(_list_units(glossary), sides, lambda unit, _: unfit.append(unit)):
                write(content)

    if unfit:
        typer.echo(f"left out, as {path} cannot hold their characters: {len(unfit):,} terms", err=True)


def _list_units(glossary: "Glossary") -> Iterator["Unit"]:
    from pellucid.data.formats.units import Unit

    number = 0
    for term in glossary.consistent:
        for form in term.translations[0].forms:
            number += 1
            yield Unit(number, term.source, form)


def _list_lines(glossary: "Glossary", place: str) -> Iterator[str]:
    """Yield the lines of a glossary that `--terms` reads: terms, and comments on those with several translations.

    `place` is what the numbers of the places count: "line" or "unit".
    """
    for term in glossary.consistent:
        translation = term.translations[0]
        comment = f"{translation.count} of {term.count}, {_describe_places(place, translation.places)}"
        for form in translation.forms:
            yield f"{term.source}\t{form}\t{comment}"
    if glossary.inconsistent:
        yield "# Translated in several ways; to settle one, write it above: the term, a tab, its translation."
    for term in glossary.inconsistent:
        ways = []
        for translation in term.translations:
            where = _describe_places(place, translation.places)
            ways.append(f"{', '.join(translation.forms)} ({translation.count} times, {where})")
        yield f"# {term.source}: {'; '.join(ways)}"


def _describe_places(place: str, numbers: list[int]) -> str:
    """Return the numbers of some places.

    >>> _describe_places("line", [7]), _describe_places("unit", [7, 12])
    ('line 7', 'units 7, 12')
    """
    return f"{place}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
