"""`pellucid align`: makes sentence pairs of two books that are translations of each other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import measurement_bar, open_output, say_notes
from pellucid.cli.options import argument, file_option, flag, option
from pellucid.cli.pair_output import (
    find_output_format,
    must_exchange_files,
    open_compressed,
    write_lines_of_both,
)
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.cli.pair_output import Write
    from pellucid.data.formats.units import Sides, Unit
    from pellucid.workflows.align.beads import Bead
    from pellucid.workflows.align.book import Book, Paragraph
    from pellucid.workflows.align.passes import SentenceAlignment

ALIGN_EXAMPLES = """\
  pellucid align book.en book.es > pairs.tsv
  pellucid align book.en.epub book.es.epub --from en --to es --out book.tmx --beads all.tsv
  pellucid align book.en book.es --least-score 0 --out train.en --out train.es
  pellucid align talk.de.txt talk.en.txt --lines | pellucid check - --fix clean"""

BOOK = "plain text, also compressed, or a document such as .docx, .epub, .odt, .html or .md"
_PASSES = 5  # passes over the books that there are at least, for the bar
_COLUMNS = ("source", "target", "score", "source_place", "target_place")


def run_align(
    source: Annotated[str, argument("SOURCE", f"a book: {BOOK}; - is standard input")],
    target: Annotated[str, argument("TARGET", "its translation, of any of these formats")],
    out: Annotated[
        list[str] | None,
        file_option(
            "where the pairs go: one file of pairs, such as .tsv, .tmx or .jsonl, or - for TSV on standard output; or "
            "repeated, a file of source and one of target sentences"
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        option("language of the book, where its name does not end in it", "LANGUAGE", "--from"),
    ] = None,
    target_language: Annotated[str | None, option("language of its translation", "LANGUAGE", "--to")] = None,
    beads: Annotated[
        str | None,
        file_option("also write a table of all beads: what belongs together, and what is left without a partner"),
    ] = None,
    least_score: Annotated[float | None, option("leave out pairs with a lower score; 0 is chance", "NUMBER")] = None,
    lines: Annotated[bool, flag("--lines", "each line is one sentence already, and is not split")] = False,
) -> None:
    """Make sentence pairs of a book and its translation.

    The books need not be parallel line by line. Both are split into sentences; lines that a text
    was broken into at a fixed width are joined first. A bead is one to three sentences with their
    translation, or a gap: a sentence without a partner. Beads are found by the lengths of sentences
    (Gale and Church 1993) and by links between words, which are learned from the books (Moore
    2002). Whole chapters may be missing on a side, but what stands in another order on both sides
    is not found.

    The ending of --out tells the format, as with `pellucid convert`. TSV has columns for the score
    and the places: the line in a text, the number of the text in a document. The score is the
    evidence of the words, for each word, as a natural logarithm: 0 is chance, and 0.2 to 0.5 is
    usual. Two books that fit no better than one of them backwards are refused.
    """
    from pellucid.workflows.align.passes import align_books

    outputs = out or ["-"]
    _refuse_outputs(source, target, outputs)
    sides = _choose_sides(source, target, source_language, target_language)
    output_format = None if len(outputs) == 2 else _find_format(outputs[0], sides, (source, target))
    exchanged = len(outputs) == 2 and must_exchange_files([source, target], outputs, sides)

    for name in (*outputs, beads):
        require_writable(None if name == "-" else name)

    books = [_read_book(path, lines) for path in (source, target)]
    texts = [book.list_texts() for book in books]
    if texts[0] == texts[1]:
        raise ValueError(f"{source} and {target} hold the same text; name a book and its translation")
    with measurement_bar("aligning", _PASSES) as advance:
        alignment = align_books(texts[0], texts[1], advance)
    if alignment.is_chance:
        raise ValueError(
            f"{source} and {target} are hardly translations of each other: the words of their sentences fit no better "
            f"({alignment.strength:.2f} for each word) than with {target} backwards ({alignment.chance:.2f})"
        )

    pairs = [bead for bead in alignment.beads if not bead.is_gap]
    kept = pairs if least_score is None else [bead for bead in pairs if bead.score >= least_score]
    with ExitStack() as opened:
        write_bead = opened.enter_context(open_output(beads))
        writes = [opened.enter_context(open_compressed(name)) for name in outputs]
        if write_bead is not None:
            for row in _bead_rows(alignment.beads, books):
                write_bead("\t".join(row) + "\n")
        units = list(_make_units(kept, books))
        unfit: list[Unit] = []
        if output_format is None:
            write_lines_of_both(units, writes[::-1] if exchanged else writes)
        elif "tsv" in output_format.endings:
            _write_table(kept, units, books, writes[0])
        else:
            assert output_format.encode
            for content in output_format.encode(units, sides, lambda unit, _: unfit.append(unit)):
                writes[0](content)
    _say_outcome((source, target), books, alignment, len(kept) - len(unfit))
    if len(kept) < len(pairs):
        typer.echo(
            f"left out for a score below {least_score:g}: {len(pairs) - len(kept):,} pairs",
            err=True,
        )
    if unfit:
        typer.echo(
            f"left out, as {outputs[0]} cannot hold their characters: {len(unfit):,} pairs",
            err=True,
        )


def _refuse_outputs(source: str, target: str, outputs: Sequence[str]) -> None:
    """Raise ValueError for inputs and outputs that do not go together, before anything is read."""
    from pellucid.data.corpus import holds_pairs
    from pellucid.data.lines import is_read_once

    if source == target == "-":
        raise ValueError("both books are standard input; name one of them")
    if source == target or (not is_read_once(source) and _is_same_file(source, target)):
        raise ValueError(f"{source} and {target} are one file; name a book and its translation")
    are_whole = [name == "-" or holds_pairs(name) for name in outputs]
    if len(outputs) > 2 or (len(outputs) == 2) == any(are_whole):
        raise ValueError(
            f"--out {' --out '.join(outputs)}: expected one file of pairs (.tsv, .tmx, .jsonl or another that "
            "`pellucid convert` writes), or two files of sentences: --out train.en --out train.es"
        )
    if len(set(outputs)) < len(outputs) or {source, target} & {*outputs} - {"-"}:
        raise ValueError(f"--out {' --out '.join(outputs)}: one file is named twice")


def _is_same_file(path: str, other: str) -> bool:
    return Path(path).exists() and Path(other).exists() and Path(path).samefile(other)


def _choose_sides(source: str, target: str, source_language: str | None, target_language: str | None) -> "Sides":
    """Return the languages of the books: those asked for, or those that their names bear."""
    from pellucid.data.formats.units import Sides, language_of_file, refuse_exchanged_files
    from pellucid.data.languages import describe_language, is_same_variety

    refuse_exchanged_files(source, target, (source_language, target_language))
    first = source_language or language_of_file(source) or language_of_file(Path(source).stem)
    second = target_language or language_of_file(target) or language_of_file(Path(target).stem)
    if first and second and is_same_variety(first, second):
        raise ValueError(
            f"{source} and {target} are both {describe_language(first)}; a book and its translation are in two "
            "languages: say which with --from and --to"
        )
    return Sides(first, second)


def _find_format(output: str, sides: "Sides", books: tuple[str, str]):
    """Return the format of pairs to write; ValueError for one that needs languages which nobody named."""
    from pellucid.data.formats import find_pair_format

    output_format = find_pair_format(output)
    if output_format is not None and output_format.needs_languages and sides.languages is None:
        raise ValueError(
            f"{output} must name its languages, and the names of {books[0]} and {books[1]} do not tell them: add "
            "--from and --to with their codes, such as --from en --to es"
        )
    return find_output_format(output, sides, books[0])


def _read_book(path: str, is_split: bool) -> "Book":
    """Read a book, plain text by its lines and a document by its texts; say what was joined or left out."""
    from pellucid.data.lines import read_lines
    from pellucid.localize.documents.formats import document_suffix
    from pellucid.workflows.align.book import read_book, split_paragraphs

    name = "standard input" if path == "-" else path
    if document_suffix(path) in (None, ".txt"):
        _refuse_pairs(path)
        book = read_book(list(read_lines(path)), is_split)
    else:
        book = split_paragraphs(_read_texts(path), is_split)
    if not book.sentences:
        raise ValueError(f"{name} holds no sentence: no text in it has a letter or a digit")
    if book.width is not None:
        typer.echo(f"{name}: lines broken at {book.width} characters are joined to paragraphs", err=True)
    if book.without_letters:
        typer.echo(
            f"{name}: {book.without_letters:,} texts without a letter or a digit are left out",
            err=True,
        )
    return book


def _refuse_pairs(path: str) -> None:
    from pellucid.data.corpus import holds_pairs, refuse_foreign_table

    refuse_foreign_table(path)
    if holds_pairs(path):
        raise ValueError(f"{path} is a file of pairs by its name; `pellucid convert` reads those, they are aligned")


def _read_texts(path: str) -> Iterator["Paragraph"]:
    """Yield the texts of a document without their markup; the place of each is its number."""
    from pellucid.localize.documents.readers import read_document
    from pellucid.workflows.align.book import Paragraph

    document = read_document(path, Path(path).read_bytes())
    for number, text in enumerate(document.texts, start=1):
        yield Paragraph(_remove_tags(text), [(0, number)])


def _remove_tags(text: str) -> str:
    """Return a text of a document without the numbered tags of its markup; a line break is a space.

    >>> _remove_tags("<0>It</0> rains.<1/>We stay.")
    'It rains. We stay.'
    """
    from pellucid.localize.documents.slots import NUMBERED_TAG

    pieces = []
    position = 0
    for tag in NUMBERED_TAG.finditer(text):
        pieces.append(text[position : tag.start()])
        position = tag.end()
        # What stands alone, such as a line break or a picture, may be all that is between two words.
        is_between = text[tag.start() - 1 : tag.start()].strip() and text[position : position + 1].isalnum()
        if tag[0].endswith("/>") and is_between:
            pieces.append(" ")
    return "".join([*pieces, text[position:]])


def _join_bead(bead: "Bead", books: Sequence["Book"]) -> tuple[str, str]:
    """Return the texts of both sides of a bead."""
    from pellucid.workflows.align.book import join_sentences

    sources = books[0].sentences[bead.source.start : bead.source.stop]
    targets = books[1].sentences[bead.target.start : bead.target.stop]
    return join_sentences(sources), join_sentences(targets)


def _list_places(bead: "Bead", books: Sequence["Book"]) -> tuple[str, str]:
    """Return the places of both sides of a bead, such as 12 or 12-13; empty for a side without sentences."""
    places = []
    for book, side in zip(books, (bead.source, bead.target), strict=True):
        numbers = [sentence.place for sentence in book.sentences[side.start : side.stop]]
        first_and_last = dict.fromkeys((numbers[0], numbers[-1])) if numbers else ()
        places.append("-".join(map(str, first_and_last)))
    return places[0], places[1]


def _make_units(beads: Iterable["Bead"], books: Sequence["Book"]) -> Iterator["Unit"]:
    from pellucid.data.formats.units import Unit

    for number, bead in enumerate(beads, start=1):
        yield Unit(number, *_join_bead(bead, books))


def _write_table(beads: Sequence["Bead"], units: Sequence["Unit"], books: Sequence["Book"], write: "Write") -> None:
    """Write pairs as TSV with a header, which names the columns for those who read them as pairs."""
    write(("\t".join(_COLUMNS) + "\n").encode())
    for bead, unit in zip(beads, units, strict=True):
        cells = (unit.source, unit.target, f"{bead.score:.3f}", *_list_places(bead, books))
        write(("\t".join(cells) + "\n").encode())


def _bead_rows(beads: Iterable["Bead"], books: Sequence["Book"]) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of all beads, gaps included."""
    yield ("bead", *_COLUMNS)
    for bead in beads:
        kind = f"{len(bead.source)}-{len(bead.target)}"
        score = "" if bead.is_gap else f"{bead.score:.3f}"
        yield (kind, *_join_bead(bead, books), score, *_list_places(bead, books))


def _say_outcome(names: tuple[str, str], books: Sequence["Book"], alignment: "SentenceAlignment", written: int) -> None:
    """Say how many pairs there are of each kind, and how many sentences have no partner."""
    kinds: Counter[str] = Counter()
    left = [0, 0]
    for bead in alignment.beads:
        if bead.is_gap:
            left[0] += len(bead.source)
            left[1] += len(bead.target)
        else:
            kinds[f"{len(bead.source)}-{len(bead.target)}"] += 1

    listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    typer.echo(f"{written:,} pairs written; beads: {listed}", err=True)
    for name, book, count in zip(names, books, left, strict=True):
        shown = "standard input" if name == "-" else name
        typer.echo(
            f"{shown}: {len(book.sentences):,} sentences, {count:,} of them without a partner",
            err=True,
        )
    if alignment.chance is None:
        say_notes([f"{TOO_SMALL}: {min(len(book.sentences) for book in books):,} sentences"])
    else:
        typer.echo(
            f"evidence of the words: {alignment.strength:.2f} for each word; {alignment.chance:.2f} with one book "
            "backwards",
            err=True,
        )


TOO_SMALL = "the books are too small to tell whether they belong together, and their lengths decide nearly alone"
