"""`pellucid translate`: translates a file line by line in the same order, or a document with its formatting."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pellucid.cli.document_translation import translate_document
from pellucid.cli.files import (
    name_file_in_errors,
    open_output,
    read_parallel_lines,
    read_sentences,
    require_file,
    show_progress,
    write_lines,
)
from pellucid.cli.options import (
    CLUSTER,
    CORES,
    DEVICE,
    ENGINE,
    EXPORTED,
    JSON,
    LINES_PER_PART,
    MEMORY,
    MODEL,
    PART_LINES,
    PRECISIONS,
    SEARCH_SETTINGS,
    TERMS,
    WORKERS,
    argument,
    file_option,
    flag,
    option,
    search_default,
    search_option,
)
from pellucid.cli.translation_grades import sum_up_grades
from pellucid.cli.translation_lines import leave_to_people, translation_lines
from pellucid.cli.translation_notes import sum_up_notes
from pellucid.cli.translation_setup import (
    TranslationSetup,
    choose_search,
    holds_document,
    load_for_translation,
    refuse_unfit_options,
    set_up_translation,
)

if TYPE_CHECKING:
    from pellucid.decode.translation import Translation

TRANSLATE_EXAMPLES = """\
  echo "The ball is blue." | pellucid translate runs/demo/best
  pellucid translate runs/demo/best book.en.gz > book.es
  pellucid translate runs/demo/best book.en --n-best 4 --json
  pellucid translate runs/demo/best book.en --terms glossary.tsv --alignments book.align > book.es
  pellucid translate runs/demo/best book.docx --out libro.docx
  pellucid translate runs/book/best book.en --document
  pellucid translate runs/europe/best book.en --to fr
  pellucid translate runs/demo/best book.en --with runs/other/best
  pellucid translate runs/demo/best 'books/*.en.gz' --out libros --cluster auto
  pellucid translate runs/demo/best book.en --set method=sample --set temperature=0.7"""


def run_translate(
    model: Annotated[str, MODEL],
    file: Annotated[
        str,
        argument(
            "FILE",
            "sentences, one per line, plain or .gz, or a document; - is standard input",
        ),
    ] = "-",
    out: Annotated[
        str | None,
        file_option("write here instead of to standard output; appears once all is written"),
    ] = None,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    n_best: Annotated[int, search_option("n_best")] = search_default("n_best"),
    change: Annotated[list[str] | None, SEARCH_SETTINGS] = None,
    terms: Annotated[str | None, TERMS] = None,
    memory: Annotated[str | None, MEMORY] = None,
    prefix: Annotated[
        str | None,
        file_option("beginnings of the translations: a text for each line, or an empty line"),
    ] = None,
    alignments: Annotated[
        str | None,
        file_option("write word alignments: 0-0 1-2 ..., each a source word and a target word"),
    ] = None,
    provenance: Annotated[
        bool,
        flag(
            "--provenance",
            "with --json: say of each word whether it comes from the model, a term or a unit of the "
            "memory; takes up to three times as long",
        ),
    ] = False,
    others: Annotated[
        list[str] | None,
        option(
            "another model to translate with, together with this one; can be repeated",
            "MODEL",
            "--with",
        ),
    ] = None,
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    exported: Annotated[str | None, EXPORTED] = None,
    source: Annotated[
        str | None,
        option("source language of a document and in a memory, where needed", "CODE", "--from"),
    ] = None,
    target: Annotated[
        str | None,
        option(
            "language it is translated to; which one to write, for a multilingual model",
            "CODE",
            "--to",
        ),
    ] = None,
    document: Annotated[
        bool,
        flag(
            "--document",
            "the lines are a text: read each with the one before it (a model trained with data.context); an empty "
            "line ends the text",
        ),
    ] = False,
    only_above: Annotated[
        float | None,
        option(
            "leave lines of less confidence, or with an alarm, to people, as empty lines (`pellucid calibrate` first)",
            "CONFIDENCE",
            min=0,
            max=1,
        ),
    ] = None,
    mark: Annotated[
        bool,
        flag(
            "--mark",
            "mark what a person should see in a .docx (yellow or red) or an .xliff (a note), by its grade",
        ),
    ] = False,
    comments: Annotated[
        bool,
        flag(
            "--comments",
            "translate the comments of an office document, too; they stay as they are otherwise",
        ),
    ] = False,
    cluster: Annotated[str | None, CLUSTER] = None,
    workers: Annotated[int | None, WORKERS] = None,
    cores: Annotated[int, CORES] = 1,
    part_lines: Annotated[int, PART_LINES] = LINES_PER_PART,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Translate a file of lines, or a formatted document.

    Translations come in the order of the lines, in bounded memory; with --set batch=1 each before
    the next line is read, for a program that asks and waits. Nothing is cut: of a line with several
    sentences each is translated, together only as the model has learned it (--set sentences=keep:
    always, split: never). Capitals and spellings that the model has hardly seen are read as plain
    ones, and the translation gets them back where it can. Tags and marks of Markdown go where their
    words went; text without a letter, white space, placeholders such as {name}, code in backticks,
    URLs and addresses stay as they are, and of a message of ICU only the texts are translated. A
    carriage return or NUL inside a translation is written as a space.

    A document is recognised by its ending: .docx, .pptx, .xlsx, .odt, .odp, .ods, .epub, .html,
    .md, .srt, .vtt (and other subtitles), .po, .xliff, .tmx (and Trados', memoQ's and Phrase's own:
    .sdlxliff, .mqxliff, .mxliff), or messages of a program in .json, .arb, .yml, .ts (Qt) or .xml
    (Android). Its paragraphs are translated, bold words and links stay around their words, and all
    else is kept. Segments of .po, .ts, .xliff and .tmx that have a translation keep it; new ones
    are marked for review. A .txt is a file of lines. At the end standard error says how many texts
    were translated, came out as they were, failed, or were kept, and why.

    With --n-best N, the N best translations of each line are written as "number ||| text |||
    score", with lines counted from 0 and the best first, as Moses does.

    With --json each line becomes {"text", "score", "stop", "pieces", "notes", "alarms",
    "alternatives"}. The score is the one translations are ranked by. "stop" is "eos" where the
    model ended the sentence, "length" where the limit did, "empty" for a line with nothing to
    translate, and "failed" for a line that stays as it is, for a reason that standard error gives.
    "alarms" lists what went wrong, as far as both texts tell: "empty", "copy" (words left
    untranslated), "numbers", "names", "repeats", "length", "sentences" (fewer of them, by
    "missing_sentences"). "notes" tell of that and of anything unusual, such as "split into 3
    parts"; without --json, standard error sums them up at the end. A model that was calibrated adds
    "confidence", and "word_confidences" with --engine torch.

    "grade" says what a translation is good for: "redo" where an alarm says that the text is spoiled
    ("empty", "copy", "repeats", "sentences"), where the line failed, or where its expected quality
    is as low as in the worst fifth of the dev set; "look" where another alarm fires, or the
    expected quality is in the next fifth; "usable" otherwise, and for a line of the memory. A model
    that was not calibrated only has grades for what has an alarm. Without --json, standard error
    counts the grades, and names the chapters of a document (by its headings, or by tens of texts)
    that need a person first. --mark shows them in the document: a .docx gets yellow and red words,
    a unit of an .xliff the grade (`state-qualifier` in XLIFF 1.2, `subState` in XLIFF 2) and a note
    that says why.

    With --document, a model that was trained with data.context reads each line, or each paragraph
    of a .docx or its like, together with the one before it, so that a pronoun can agree with a noun
    there.

    With --json and --out, a document becomes one object: its "account" ("translated"; "unchanged",
    those that came out as they were; "failed"; "kept", those not given to the model, by kind), its
    "chapters" with the grades in each, and its "texts", each an object as above with its "source".

    With --memory, a line that is in the memory gets the translation there, and "stop" is "memory".
    "memory" then shows the entry; for a line that is only similar, three quarters of the words and
    more, it offers that entry, which was not used.

    With --provenance and --json, "provenance" has an object for each word: "word", "origin" and,
    for a term or a unit, the "place" where it stands, its "source" and its "target". "origin" is
    "term" or "memory" only where the word is not there when the line is translated without the
    terms, or without the unit; "prefix" for words that were given; "model" otherwise.

    With --cluster, FILE may be a pattern in quotes, such as 'books/*.txt.gz', and --out is a
    folder, which gets a file for each: the same, byte for byte, as one process writes. Workers take
    parts of --part-lines lines, or a document each, and what fails is named while the rest goes on.
    The same command, again, does only what is missing or was made of other text or by another
    model. All machines need the files, the model and the folder at the same paths.
    """
    options = locals()
    if cluster is not None:
        from pellucid.cli.cluster_translation import translate_on_cluster

        translate_on_cluster(options)
        return

    # Mistakes in the options and files are reported before the model is loaded.
    search = choose_search(options)
    require_file(file)
    is_document = holds_document(file)
    refuse_unfit_options(options, file, is_document)
    prefixes = None if prefix is None else read_parallel_lines(prefix, file)

    # At a keyboard, each line is answered before the next is
    # typed. One worker of CTranslate2 is quicker at that.
    one_by_one = search.get("batch") == 1 or (file == "-" and sys.stdin.isatty())
    loaded = load_for_translation(options, workers=1 if one_by_one else None)
    setup = set_up_translation(loaded, options, is_document)
    if is_document:
        translate_document(setup.model, file, out, setup.languages, setup.search, mark, comments, json)
    else:
        _translate_lines(setup, options, prefixes, one_by_one)


def _translate_lines(
    setup: TranslationSetup,
    options: Mapping[str, Any],
    prefixes: Sequence[str] | None,
    one_by_one: bool,
) -> None:
    """Write the translation of each line of a file, and what else the options ask for."""
    from pellucid.decode.request import BLOCK

    file, out, only_above = options["file"], options["out"], options["only_above"]
    block = 1 if one_by_one else BLOCK
    with (
        name_file_in_errors(file),
        open_output(options["alignments"]) as write_alignment,
        open_output(out) as write,
    ):
        sentences = read_sentences(file)
        stream = setup.model.translate_stream(sentences, block, prefixes=prefixes, **setup.search)
        stream = show_progress(stream, to_file=out is not None)
        stream = _write_alignments(stream, write_alignment)
        if not options["json"]:  # there each line has its notes and its grade
            stream = sum_up_grades(sum_up_notes(stream, file), file)
        if only_above is not None:
            stream = leave_to_people(stream, only_above)
        write_lines(translation_lines(stream, options["n_best"], options["json"]), write)


def _write_alignments(
    translations: "Iterable[Translation]", write: Callable[[str], Any] | None
) -> "Iterator[Translation]":
    """Yield the translations, writing the alignment of each on the way, in the Pharaoh format."""
    for translation in translations:
        if write is not None:
            # A line without links writes an empty line, so that line numbers agree.
            write(" ".join(f"{i}-{j}" for i, j in translation.alignment or []) + "\n")
        yield translation
