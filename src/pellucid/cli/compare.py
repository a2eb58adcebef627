"""`pellucid compare`: compares two models, or two files of translations, with significance tests."""

from pathlib import Path
from typing import Annotated

from pellucid.cli.files import (
    name_file_in_errors,
    read_sentences,
    read_test_pairs,
    say_notes,
    set_language,
    translate_test_set,
    write_report,
)
from pellucid.cli.options import (
    JSON,
    LANGUAGE_OF_TRANSLATIONS,
    SEARCH_SETTINGS,
    SOURCE_LANGUAGE,
    TOKENIZE,
    argument,
    file_option,
    flag,
    search_default,
    search_option,
    search_settings,
)
from pellucid.store.atomic import require_writable, write_text_whole

COMPARE_EXAMPLES = """\
  pellucid compare runs/demo/best runs/quick/best --source test.en --reference test.es
  pellucid compare runs/demo/best runs/quick/best --source test.tmx
  pellucid compare before.es after.es --reference test.es --html comparison.html
  pellucid compare runs/demo/best other.es.gz --source test.en --reference test.es --train-target train.es.gz --json"""


def run_compare(
    a: Annotated[str, argument("A", "a model directory, or a file of translations, plain or .gz")],
    b: Annotated[str, argument("B", "what to compare A with: another of either kind")],
    reference: Annotated[
        list[str] | None,
        file_option("translations by people, one per line; repeat it for several references"),
    ] = None,
    source: Annotated[
        str | None,
        file_option(
            "source sentences, one per line, needed if A or B is a model; or, without --reference, one file of "
            "pairs, such as .tsv or .tmx"
        ),
    ] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, LANGUAGE_OF_TRANSLATIONS] = None,
    train_target: Annotated[
        str | None,
        file_option("target side of the training text, to find out which words are rare"),
    ] = None,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    change: Annotated[list[str] | None, SEARCH_SETTINGS] = None,
    document: Annotated[
        bool,
        flag(
            "--document",
            "models trained with data.context read each line with the one before it",
        ),
    ] = False,
    lowercase: Annotated[
        bool,
        flag(
            "--lowercase",
            "ignore upper and lower case; not needed for models that write lower case only",
        ),
    ] = False,
    tokenize: Annotated[str | None, TOKENIZE] = None,
    html: Annotated[str | None, file_option("also write the comparison as an HTML page")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Compare two models, or two files of translations.

    Compare A and B on one test set by BLEU, chrF, TER and WER, with paired bootstrap resampling: is
    the difference more than the luck of these sentences? Then compare them by sentence length and
    by rare words, and show the sentences that changed most. Differences are B minus A. Without
    --train-target, a word is rare if it occurs once in the references. Case counts, unless A or B
    is a model that writes lower case only.

    Words are cut as by `pellucid evaluate`, whose help says how several references count. Groups
    are made by the first reference; where its text has no spaces, by characters. A dash stands for
    BLEU where no reference has four words.
    """
    from pellucid.api import load
    from pellucid.evaluate.comparison import compare_translations
    from pellucid.evaluate.comparison_page import comparison_as_html
    from pellucid.evaluate.report import comparison_as_text
    from pellucid.evaluate.score_words import require_score_tokenizer

    search = search_settings(change, beam=beam)
    if tokenize is not None:
        require_score_tokenizer(tokenize)  # before minutes are spent on translating
    references = reference or []
    _check_files((a, b), source, references, train_target)
    require_writable(html)

    # Everything that is a file is read first: a wrong line count shows before a model spends
    # minutes translating.
    texts = dict[str, list[str]]()
    are_in_source = not references
    if are_in_source:
        references = [f"references in {source}"]
        pairs = read_test_pairs(str(source), source_language, target_language)
        texts[str(source)], texts[references[0]] = pairs

    for path in (source, *references, a, b):
        if path is not None and path not in texts and not Path(path).is_dir():
            texts[path] = list(read_sentences(path))

    texts = _require_equal_lengths(texts)

    models = {}
    for side in (a, b):
        if side not in texts:
            models[side] = set_language(load(side), target_language, are_in_source)

    if document and not any(model.translator.context for model in models.values()):
        raise ValueError("--document: neither side is a model that was trained with data.context; leave it out")
    for side, model in models.items():  # a model that stands on both sides translates once
        reads_before = document and model.translator.context > 0
        translations = translate_test_set(
            model,
            str(source),
            texts[str(source)],
            document=reads_before,
            **search,
        )
        texts[side] = [translation.text for translation in translations]
        lowercase = lowercase or model.lowercase  # case it does not write would count as wrong

    language = target_language or next((model.target_language for model in models.values()), None)
    titles = {side: f"{side} (beam {beam})" if Path(side).is_dir() else side for side in (a, b)}
    with name_file_in_errors(" and ".join(references)):
        comparison = compare_translations(
            texts[a],
            texts[b],
            [texts[path] for path in references],
            texts[source] if source else None,
            training=read_sentences(train_target) if train_target else None,
            names=(titles[a], titles[b]),
            lowercase=lowercase,
            tokenize=tokenize,
            language=language,
        )

    say_notes(comparison.notes)
    if html:
        write_text_whole(html, comparison_as_html(comparison))
    write_report(json, [comparison], comparison_as_text(comparison))


def _check_files(
    sides: tuple[str, str],
    source: str | None,
    references: list[str],
    train_target: str | None,
) -> None:
    """Raise ValueError, before anything is read, for files that are missing or of the wrong kind."""
    models, problems = [], []
    for side in dict.fromkeys(sides):
        if Path(side).is_dir():
            models.append(side)
        elif side != "-" and not Path(side).exists():
            problems.append(f"{side} is neither a model directory nor a file of translations")

    files = [
        ("--source", source),
        *(("--reference", path) for path in references),
        ("--train-target", train_target),
    ]

    for option, path in files:
        if path is None or path == "-":
            continue
        if Path(path).is_dir():
            problems.append(f"{option} {path} is a directory; name a file of sentences")
        elif not Path(path).exists():
            problems.append(f"{option} {path} does not exist; name a file of sentences")

    if models and source is None:
        problems.append(f"{models[0]} is a model, so it needs sentences to translate: --source FILE")
    if not references and source is None:
        problems.append("--reference is missing: name translations by people, or a file of pairs as --source")
    if [*sides, *(path for _, path in files)].count("-") > 1:  # it can be read only once
        problems.append("only one file can be standard input; name the others")
    if problems:
        raise ValueError("; ".join(problems))


def _require_equal_lengths(texts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the lines of each file.

    Raises ValueError if their numbers differ or there are no lines.
    """
    numbers = {path: len(lines) for path, lines in texts.items()}
    if len(set(numbers.values())) > 1:
        counts = []
        for path, number in numbers.items():
            counts.append(f"{path} has {number:,} {'line' if number == 1 else 'lines'}")
        raise ValueError(
            f"{', '.join(counts)}: line n of each must belong to line n of the others; `wc -l` counts them as we do"
        )

    if not all(numbers.values()):
        raise ValueError(f"{' and '.join(numbers)}: there is no line to compare")
    return texts
