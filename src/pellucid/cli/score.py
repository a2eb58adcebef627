"""`pellucid score`: log-probabilities that a model gives to translations."""

from typing import Annotated

from pellucid.cli.files import (
    name_file_in_errors,
    read_file_pair,
    read_pair_rows,
    set_language,
    write_report,
)
from pellucid.cli.options import (
    DEVICE,
    DOCUMENT,
    JSON,
    LANGUAGE_OF_TRANSLATIONS,
    MODEL,
    SOURCE_LANGUAGE,
    file_option,
)

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
    device: Annotated[str, DEVICE] = "cpu",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Score given translations by their log-probability.

    Write one number per line, or per unit of a file of pairs: a natural logarithm, at most 0, the
    sum over the pieces of the translation and EOS, the end token. --json also shows each piece:
    {"log_prob", "pieces", "per_piece"}. There is no search, so this also works for translations
    that the model would never write.
    """
    from pellucid.api import load

    if target is None:
        sources, targets = read_pair_rows(source, source_language, target_language)
    else:
        sources, targets = read_file_pair(source, target)

    loaded = set_language(load(model, device=device), target_language, is_of_file=target is None)
    # A pair that is too long may be so on either side, so both files are named.
    with name_file_in_errors(source if target is None else f"{source} and {target}"):
        scores = loaded.score(sources, targets, document=document)
    write_report(json, scores, (f"{score.log_prob:.6f}" for score in scores))
