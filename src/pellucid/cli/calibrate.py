"""`pellucid calibrate`: learns from a dev set how sure a model's translations are."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pellucid.cli.files import read_file_pair, show_progress, write_lines
from pellucid.cli.options import MODEL, option

CALIBRATE_EXAMPLES = """\
  pellucid calibrate runs/mine/best
  pellucid calibrate runs/mine/best --source dev.en --reference dev.es
  pellucid translate runs/mine/best book.en --only-above 0.9 > book.es"""


def run_calibrate(
    model: Annotated[str, MODEL],
    source: Annotated[
        str | None,
        option("dev sentences; default: those of the run that trained the model", "FILE"),
    ] = None,
    reference: Annotated[str | None, option("their translations by people", "FILE")] = None,
    good_chrf: Annotated[
        float, option("chrF with the reference, of 0 to 100, from which a sentence needs no change")
    ] = 80.0,
) -> None:
    """Learn to mark the doubtful translations of a model.

    The dev set is translated, and each sentence counted as needing no change where it is the
    reference or nearly so, by chrF. How likely that is, is learned on one half of them, from the
    log-probability and the lengths; the other half shows what it is worth. The same is learned for
    single words. The chrF of a sentence is expected from the same numbers: the worst fifth of the
    dev set, and its worst two fifths, say below which expected chrF a translation is graded as
    "redo" and "look" (`translate`). From then on `translate --json` and the server give a
    confidence with each translation, `translate --only-above 0.9` leaves the others to people, and
    the page shades unsure words.
    """
    from pellucid.api import load
    from pellucid.decode.confidence import CALIBRATION, confidence_features
    from pellucid.decode.usability import quality_features
    from pellucid.store.directory import add_files
    from pellucid.workflows.calibration import (
        calibration_lines,
        find_unchanged,
        fit_calibration,
        fit_quality,
        grade_lines,
        judge_words,
        list_features,
        score_sentences,
    )

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
        from pellucid.workflows.improvement import dev_pairs_of, find_old_runs

        dev = dev_pairs_of(find_old_runs(Path(model))[0])
        sources, references = dev.sources, dev.targets

    translations = list(show_progress(loaded.translate_stream(sources, document=reads_before), total=len(sources)))
    searched = [i for i, found in enumerate(translations) if found.stop in ("eos", "length")]
    translations = [translations[i] for i in searched]
    references = [references[i] for i in searched]
    texts = [found.text for found in translations]
    unchanged = find_unchanged(texts, references, good_chrf, loaded.lowercase)

    # A pair alone would be scored without the sentence
    # before it, so such a model gets no curve of words.
    words = (
        []
        if reads_before
        else judge_words(
            loaded.translator,
            [sources[i] for i in searched],
            texts,
            references,
            loaded.lowercase,
        )
    )
    calibration = fit_calibration(
        list_features(translations, confidence_features), unchanged, words, {"good_chrf": good_chrf}
    )
    chrf = score_sentences(texts, references, loaded.lowercase)
    quality, worth = fit_quality(list_features(translations, quality_features), chrf)
    calibration = replace(
        calibration,
        quality=quality,
        about={**calibration.about, "quality": worth},
    )
    add_files(model, {CALIBRATION: calibration.to_json()})
    write_lines([*calibration_lines(dict(calibration.about)), *grade_lines(quality, worth)])
