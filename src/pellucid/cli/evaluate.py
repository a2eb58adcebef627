"""`pellucid evaluate`: scores a model's translations of a test set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import (
    name_file_in_errors,
    read_parallel_files,
    read_test_pairs,
    save_figure,
    say_notes,
    set_language,
    translate_test_set,
    write_report,
)
from pellucid.cli.options import (
    DEVICE,
    DOCUMENT,
    ENGINE,
    EXPORTED,
    JSON,
    LANGUAGE_OF_TRANSLATIONS,
    MODEL,
    PRECISIONS,
    SEARCH_SETTINGS,
    SOURCE_LANGUAGE,
    TOKENIZE,
    file_option,
    flag,
    search_default,
    search_option,
    search_settings,
)

if TYPE_CHECKING:
    from pellucid.api import Model

EVALUATE_EXAMPLES = """\
  pellucid evaluate runs/demo/best --source runs/demo/data/test.en --reference runs/demo/data/test.es
  pellucid evaluate runs/demo/best --source test.en --reference test.es --stress --figure stress.png
  pellucid evaluate runs/memory/best --source test.tmx --from en --to es
  pellucid evaluate runs/demo/best --exported demo-int8 --source test.en --reference test.es"""


def run_evaluate(
    model: Annotated[str, MODEL],
    source: Annotated[
        str,
        file_option(
            "sentences to translate, one per line, plain or .gz; - is standard input; or, without --reference, "
            "one file of pairs, such as .tsv or .tmx"
        ),
    ],
    reference: Annotated[
        list[str] | None,
        file_option("their translations by people, line by line; repeat it for several references"),
    ] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, LANGUAGE_OF_TRANSLATIONS] = None,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    change: Annotated[list[str] | None, SEARCH_SETTINGS] = None,
    document: Annotated[bool, DOCUMENT] = False,
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    tokenize: Annotated[str | None, TOKENIZE] = None,
    exported: Annotated[str | None, EXPORTED] = None,
    stress: Annotated[
        bool,
        flag(
            "--stress",
            "score the test set also with each kind of noise planted into it: capitals, typing errors, two sentences "
            "in a line and more",
        ),
    ] = False,
    figure: Annotated[
        str | None, file_option("with --stress: draw its scores into this file, .png, .svg or .pdf")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Score a model's translations: BLEU, chrF, TER and WER.

    Translate a test set and compare with what people wrote: BLEU and chrF (higher is better), TER
    and WER (lower is better). Case counts, except for a model that writes lower case only. Each
    score comes with its signature, which says how it was computed; without it a score cannot be
    compared. With several references, WER and TER count the edits to the nearest one, in per cent
    of the mean length of all; a blank line in a second or later file of references means that there
    is no such reference.

    Words are cut as the script of the references asks: Chinese by sacreBLEU's tokenizer zh,
    Japanese by ja-mecab where MeCab is installed, other text without spaces (Thai, Khmer, Lao,
    Burmese) by characters, all else at spaces and punctuation. Where text has no spaces, WER counts
    characters.

    With --stress, noise is planted into the test set, one kind after another: capitals, a capital
    on each word, small letters, missing end marks, typing errors, lost accents, other quotation
    marks and dashes, marks around the line, something to copy, and two lines as one. The scores are
    then without case and without marks around a line and at its end.

    The last line, with --json "alarms", counts the translations in which something went wrong that
    needs no reference, such as lost numbers; `pellucid translate --json` names them line by line.
    """
    from pellucid.api import load
    from pellucid.decode.alarms import count_alarms
    from pellucid.evaluate.report import describe_alarm_counts
    from pellucid.evaluate.score_words import require_score_tokenizer
    from pellucid.evaluate.scores import METRICS, NO_NGRAM, corpus_scores, score_notes

    search = search_settings(change, beam=beam)
    if figure is not None and not stress:
        raise ValueError("--figure draws the scores of --stress; name both")
    if stress and document:
        raise ValueError(
            "--stress plants noise into single lines, and --document reads each with the lines before it; leave out one"
        )
    if tokenize is not None:
        require_score_tokenizer(tokenize)  # before minutes are spent on translating
    if reference:
        sources, references = read_parallel_files(source, reference)
    else:
        sources, *references = read_test_pairs(source, source_language, target_language)

    loaded = load(model, precision, engine, device=device, exported=exported)
    loaded = set_language(loaded, target_language, is_of_file=not reference)
    if stress:
        _report_stress(
            loaded,
            source,
            sources,
            references,
            search,
            tokenize,
            target_language,
            figure,
            json,
        )
        return

    translations = translate_test_set(loaded, source, sources, document=document, **search)
    texts = [translation.text for translation in translations]
    # Errors in scoring are about the references.
    with name_file_in_errors(" and ".join(reference or [source])):
        language = target_language or loaded.target_language
        scores = corpus_scores(
            texts,
            references,
            lowercase=loaded.lowercase,
            tokenize=tokenize,
            language=language,
        )
        notes = score_notes(texts, references, tokenize, language)

    say_notes(notes)

    lines = []
    for name, result in scores.items():
        # sacreBLEU gives 0, which would say that nothing is right.
        is_undefined = name == "bleu" and NO_NGRAM in notes
        number = f"{'-':>6}" if is_undefined else f"{result['score']:6.2f}"
        lines.append(f"{METRICS[name]:5}{number}  {result['signature']}")

    found = [translation.alarms for translation in translations]
    alarms = count_alarms(found)
    lines.append(describe_alarm_counts(alarms, sum(map(bool, found)), len(found)))
    write_report(json, [{**scores, "alarms": alarms, **({"notes": notes} if notes else {})}], lines)


def _report_stress(
    loaded: "Model",
    file: str,
    sources: list[str],
    references: list[list[str]],
    search: dict[str, Any],
    tokenize: str | None,
    target_language: str | None,
    figure: str | None,
    as_json: bool,
) -> None:
    """Write the scores of the clean test set and of each kind of noise."""
    from pellucid.evaluate.scores import METRICS
    from pellucid.evaluate.stress import score_stress, stress_table
    from pellucid.interpret.plots.charts import draw_stress
    from pellucid.store.manifest_checks import read_languages

    def translate(kind: str, texts: Sequence[str]) -> list[str]:
        typer.echo(f"{kind.replace('_', ' ')}:", err=True)
        return [translation.text for translation in translate_test_set(loaded, file, texts, **search)]

    named = read_languages(loaded.manifest)
    languages = named[0] if named else None, target_language or loaded.target_language
    with name_file_in_errors(file):
        rows, signatures = score_stress(sources, references, translate, languages, tokenize)
    reports = [row.row() for row in rows]
    save_figure(figure, draw_stress, reports)
    table = [
        *stress_table(rows),
        *(f"{METRICS[name]:5} {signature}" for name, signature in signatures.items()),
    ]
    write_report(as_json, [{"stress": reports, "signatures": signatures}], table)
