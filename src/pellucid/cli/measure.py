"""`pellucid evaluate`, `score`, `verify` and `calibrate`: what a model is worth, in numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import (
    name_file_in_errors,
    read_file_pair,
    read_pair_rows,
    read_parallel_files,
    read_test_pairs,
    set_language,
    show_progress,
    translate_test_set,
    write_lines,
    write_report,
)
from pellucid.cli.options import (
    DEVICE,
    DOCUMENT,
    ENGINE,
    EXPORTED,
    FAILED,
    JSON,
    LANGUAGE_OF_TRANSLATIONS,
    MODEL,
    PRECISION,
    PRECISIONS,
    SEARCH_SETTINGS,
    SOURCE_LANGUAGE,
    file_option,
    option,
    search_default,
    search_option,
)

if TYPE_CHECKING:
    from pellucid.evaluate.reference import Verification

EVALUATE_EXAMPLES = """\
  pellucid evaluate runs/demo/best --source runs/demo/data/test.en --reference runs/demo/data/test.es
  pellucid evaluate runs/demo/best --source test.en.gz --reference test.es.gz --beam 1 --json
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
        list[str] | None, file_option("their translations by people, line by line; repeat it for several references")
    ] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, LANGUAGE_OF_TRANSLATIONS] = None,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    change: Annotated[list[str] | None, SEARCH_SETTINGS] = None,
    document: Annotated[bool, DOCUMENT] = False,
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    exported: Annotated[str | None, EXPORTED] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Score a model's translations: BLEU, chrF, TER and WER.

    Translate a test set and compare with what people wrote: BLEU and chrF (higher is better), TER and WER (lower is
    better). Case counts, except for a model that writes lower case only. Each score comes with its signature, which
    says how it was computed; without it a score cannot be compared. Every line counts, empty ones too. With several
    references, WER and TER count the edits to the nearest one, in per cent of the mean length of all.
    """
    from pellucid.api import load
    from pellucid.config import apply_overrides
    from pellucid.decode.request import SearchConfig
    from pellucid.evaluate.scores import METRICS, corpus_scores

    search = {"beam": beam, **apply_overrides({}, change or ())}
    SearchConfig.from_options(search)  # refuses what is impossible before a file or a model is read
    if reference:
        sources, references = read_parallel_files(source, reference)
    else:
        sources, *references = read_test_pairs(source, source_language, target_language)
    loaded = load(model, precision, engine, device=device, exported=exported)
    loaded = set_language(loaded, target_language, is_of_file=not reference)
    texts = translate_test_set(loaded, source, sources, document=document, **search)
    # Errors in scoring are about the references.
    with name_file_in_errors(" and ".join(reference or [source])):
        scores = corpus_scores(texts, references, lowercase=loaded.lowercase)
    lines = (f"{METRICS[name]:5}{result['score']:6.2f}  {result['signature']}" for name, result in scores.items())
    write_report(json, [scores], lines)


SCORE_EXAMPLES = """\
  pellucid score runs/demo/best --source test.en --target test.es
  pellucid score runs/demo/best --source test.en --target test.es --json > scores.jsonl
  pellucid score runs/demo/best --source memory.tmx --from en --to es"""


def run_score(
    model: Annotated[str, MODEL],
    source: Annotated[
        str,
        file_option(
            "source sentences, one per line, plain or .gz; - is standard input; or, without --target, one file of "
            "pairs, such as .tsv or .tmx"
        ),
    ],
    target: Annotated[str | None, file_option("their translations, line by line")] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, LANGUAGE_OF_TRANSLATIONS] = None,
    document: Annotated[bool, DOCUMENT] = False,
    precision: Annotated[str, PRECISION] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Score given translations by their log-probability.

    Write one number per line, or per unit of a file of pairs: a natural logarithm, at most 0, the sum over the pieces
    of the translation and EOS, the end token. --json also shows each piece: {"log_prob", "pieces", "per_piece"}. There
    is no search, so this also works for translations that the model would never write.
    """
    from pellucid.api import load

    if target is None:
        sources, targets = read_pair_rows(source, source_language, target_language)
    else:
        sources, targets = read_file_pair(source, target)
    loaded = set_language(load(model, precision, device=device), target_language, is_of_file=target is None)
    # A pair that is too long may be so on either side, so both files are named.
    with name_file_in_errors(source if target is None else f"{source} and {target}"):
        scores = loaded.score(sources, targets, document=document)
    write_report(json, scores, (f"{score.log_prob:.6f}" for score in scores))


VERIFY_EXAMPLES = """\
  pellucid verify runs/demo/best
  pellucid verify runs/demo/best --engine ctranslate2
  pellucid verify runs/demo/best --exported demo-int8 --json"""


def run_verify(
    model: Annotated[str, MODEL],
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    exported: Annotated[str | None, EXPORTED] = None,
    tolerance: Annotated[float, option("largest difference of two scores that counts as the same, in nats")] = 1e-3,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Check that a model still translates as when it was saved.

    A model directory keeps up to 200 lines of the dev text with the translations and scores that the model gave them
    when it was saved. They are translated anew and compared: after an upgrade, on another machine, with another engine
    or precision. Every line that differs is listed. Exit code 0: the same texts, and scores within the tolerance; 1:
    not the same.
    """
    from pellucid.api import load

    verification = load(model, precision, engine, device=device, exported=exported).verify(tolerance)
    objects = [{"passed": verification.passed, **vars(verification)}]
    write_report(json, objects, _verification_lines(verification))
    if not verification.passed:
        raise typer.Exit(FAILED)


def _verification_lines(verification: "Verification") -> Iterator[str]:
    """Yield a line on the whole, and three on each line that differs."""
    for line in verification.changed:
        yield f"line {line.number}: {line.source}"
        yield f"  then ({line.expected_score:.4f}): {line.expected}"
        yield f"  now  ({line.score:.4f}): {line.text}"
    same = verification.lines - len(verification.changed)
    other_scores = len(verification.changed) - verification.other_texts
    yield (
        f"{same:,} of {verification.lines:,} lines come out the same, {verification.other_texts:,} with another text, "
        f"{other_scores:,} with another score; scores of the same text differ by at most "
        f"{verification.largest_difference:.1g} ({verification.tolerance:g} is allowed)"
    )


CALIBRATE_EXAMPLES = """\
  pellucid calibrate runs/mine/best
  pellucid calibrate runs/mine/best --source dev.en --reference dev.es
  pellucid translate runs/mine/best book.en --only-above 0.9 > book.es"""


def run_calibrate(
    model: Annotated[str, MODEL],
    source: Annotated[
        str | None, option("dev sentences; default: those of the run that trained the model", "FILE")
    ] = None,
    reference: Annotated[str | None, option("their translations by people", "FILE")] = None,
    good_chrf: Annotated[
        float, option("chrF with the reference, of 0 to 100, from which a sentence needs no change")
    ] = 80.0,
) -> None:
    """Learn how sure a model's translations are.

    The dev set is translated, and each sentence counted as needing no change where it is the reference or nearly so,
    by chrF. On one half of them is learned how likely that is, from the log-probability and the lengths; the other half
    shows what it is worth. The same is learned for single words: how likely it is that the reference has them, too.
    The curves are stored in the model directory. From then on `translate --json` and the server give a confidence with
    each translation, `translate --only-above 0.9` leaves the others to people, and the page shades unsure words.
    """
    from pellucid.api import load
    from pellucid.calibrate import calibration_lines, features_of, find_unchanged, fit_calibration, judge_words
    from pellucid.decode.confidence import CALIBRATION
    from pellucid.store.directory import add_files

    if (source is None) != (reference is None):
        raise ValueError("--source and --reference belong together: line n of each is a pair")
    named = None if source is None or reference is None else read_file_pair(source, reference)
    loaded = load(model)
    reads_before = loaded.translator.context > 0
    if named is not None:
        sources, references = named
    elif reads_before:
        raise ValueError(
            f"{model} reads the sentence before each (data.context), so its dev set is needed in its order: "
            "--source FILE --reference FILE"
        )
    else:
        from pellucid.improve import dev_pairs_of, find_old_runs

        dev = dev_pairs_of(find_old_runs(Path(model))[0])
        sources, references = dev.sources, dev.targets
    translations = list(show_progress(loaded.translate_stream(sources, document=reads_before), total=len(sources)))
    searched = [i for i, found in enumerate(translations) if found.stop in ("eos", "length")]
    translations, references = [translations[i] for i in searched], [references[i] for i in searched]
    texts = [found.text for found in translations]
    unchanged = find_unchanged(texts, references, good_chrf, loaded.lowercase)
    # A pair alone would be scored without the sentence before it, so such a model gets no curve of words.
    words = (
        []
        if reads_before
        else judge_words(loaded.translator, [sources[i] for i in searched], texts, references, loaded.lowercase)
    )
    calibration = fit_calibration(features_of(translations), unchanged, words, {"good_chrf": good_chrf})
    add_files(model, {CALIBRATION: calibration.to_json()})
    write_lines(calibration_lines(dict(calibration.about)))
