"""`pellucid score`: log-probabilities that a model gives to translations."""

from typing import Annotated

from pellucid.cli.files import (
    name_file_in_errors,
    open_output,
    read_file_pair,
    read_pair_rows,
    score_lines,
    set_language,
    write_lines,
)
from pellucid.cli.options import (
    CLUSTER,
    CORES,
    DEVICE,
    DOCUMENT,
    JSON,
    LANGUAGE_OF_TRANSLATIONS,
    LINES_PER_PART,
    MODEL,
    PART_LINES,
    SOURCE_LANGUAGE,
    WORKERS,
    file_option,
)

SCORE_EXAMPLES = """\
  pellucid score runs/demo/best --source test.en --target test.es
  pellucid score runs/demo/best --source test.en --target test.es --json > scores.jsonl
  pellucid score runs/demo/best --source memory.tmx --from en --to es
  pellucid score runs/demo/best --source 'books/*.en' --target 'books/*.es' --out scores --cluster auto"""


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
    out: Annotated[
        str | None,
        file_option("write here instead of to standard output; appears once all is written"),
    ] = None,
    device: Annotated[str, DEVICE] = "cpu",
    cluster: Annotated[str | None, CLUSTER] = None,
    workers: Annotated[int | None, WORKERS] = None,
    cores: Annotated[int, CORES] = 1,
    part_lines: Annotated[int, PART_LINES] = LINES_PER_PART,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Score given translations by their log-probability.

    Write one number per line, or per unit of a file of pairs: a natural logarithm, at most 0, the
    sum over the pieces of the translation and EOS, the end token. --json also shows each piece:
    {"log_prob", "pieces", "per_piece"}. There is no search, so this also works for translations
    that the model would never write.

    How a score is rounded, in its sixth decimal place or so, depends on the other pairs among the
    same 2,048 lines.

    With --cluster, --source and --target may be patterns in quotes, such as 'books/*.en' and
    'books/*.es', whose files belong together where the same text stands in place of the star, and
    --out is a folder, which gets a file for each source. A file of pairs is given to one worker.
    All else is as in `pellucid translate --cluster`.
    """
    options = locals()
    if cluster is not None:
        from pellucid.cli.cluster_scoring import score_on_cluster

        score_on_cluster(options)
        return

    from pellucid.api import load
    from pellucid.store.atomic import require_writable

    require_writable(out)
    if target is None:
        sources, targets = read_pair_rows(source, source_language, target_language)
    else:
        sources, targets = read_file_pair(source, target)

    loaded = set_language(load(model, device=device), target_language, is_of_file=target is None)
    # A pair that is too long may be so on either side, so both files are named.
    with name_file_in_errors(source if target is None else f"{source} and {target}"):
        scores = loaded.score(sources, targets, document=document)
    with open_output(out) as write:
        write_lines(score_lines(scores, json), write)
