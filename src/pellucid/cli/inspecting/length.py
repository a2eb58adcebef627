"""`pellucid inspect length`: loss and chrF by the length of the source."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import (
    FIGURES,
    name_file_in_errors,
    read_file_pair,
    save_figure,
    show_progress,
    write_lines,
    write_objects,
)
from pellucid.cli.options import JSON, MODEL, PLOT, file_option, option, search_default, search_option
from pellucid.cli.terminal import write_table
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.inspect.lengths import MeasuredSentence

EXAMPLES = """\
  pellucid inspect length runs/demo/best --source test.en --target test.es
  pellucid inspect length runs/demo/best --source test.en --target test.es --join 4 --plot length.png"""


def run(
    model: Annotated[str, MODEL],
    source: Annotated[str, file_option("source sentences, one per line, plain or .gz; - is standard input")],
    target: Annotated[str, file_option("their translations, line by line")],
    join: Annotated[int, option("also join up to N neighbouring lines, to get longer ones", "N")] = 1,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Measure loss and chrF by the length of the source.

    See whether the model stays good beyond the longest source it was trained on. Lines are translated whole, however
    long they are; `pellucid translate` would split them at sentence ends. A model that was trained with data.context
    reads each line alone here, without the sentence before.
    """
    from pellucid.api import load
    from pellucid.decode.request import SearchConfig
    from pellucid.evaluate.scores import make_metric
    from pellucid.inspect.lengths import bucket_by_length, join_lines

    SearchConfig(beam=beam)  # refuses an impossible beam before a file or the model is read
    require_writable(plot, FIGURES)
    if join < 1:
        raise ValueError(f"--join is {join}, it must be 1 or more")
    source_lines, target_lines = (join_lines(lines, join) for lines in read_file_pair(source, target))
    loaded = load(model)
    with name_file_in_errors(f"{source} and {target}"):
        measured, left_out = _measure_sentences(loaded, source_lines, target_lines, beam)
        trained = loaded.manifest.get("longest_source")
        # An entry that is missing or None says that nobody knows, as after training on from such a model.
        longest = trained if isinstance(trained, int) else None
        chrf = make_metric("chrf", loaded.lowercase)
        buckets = bucket_by_length(
            measured, lambda texts, references: chrf.corpus_score(texts, references).score, longest
        )
    if plot:
        from pellucid.plots.charts import draw_by_length

        # A bucket is drawn at the middle of its lengths.
        middles = [(bucket.first + bucket.last) / 2 for bucket in buckets]
        numbers = [bucket.loss for bucket in buckets], [bucket.chrf for bucket in buckets]
        save_figure(plot, draw_by_length, middles, *numbers, longest_seen=longest)
    if json:
        write_objects({"longest_seen": longest, **vars(bucket)} for bucket in buckets)
    else:
        rows = [["pieces", "sentences", "loss", "chrF", "length ratio", ""]]
        for bucket in buckets:
            beyond = "longer than any seen in training" if bucket.unseen else ""
            counts = [f"{bucket.first}-{bucket.last}", f"{bucket.sentences:,}"]
            rows.append([*counts, f"{bucket.loss:.3f}", f"{bucket.chrf:.1f}", f"{bucket.ratio:.2f}", beyond])
        write_table(rows, "rrrrrl")
        training_length = f"the longest source of training had {longest} pieces" if longest else LENGTH_NOT_KNOWN
        write_lines(["", f"loss in nats a piece; length ratio in characters; {training_length}"])
    if left_out:
        typer.echo(f"{left_out:,} lines have more pieces than this model takes, and were left out", err=True)


LENGTH_NOT_KNOWN = "the model directory does not say how long the sources of training were"


def _measure_sentences(
    loaded: "Model", sources: Sequence[str], references: Sequence[str], beam: int
) -> "tuple[list[MeasuredSentence], int]":
    """Measure each line that the model can take; return the measurements and the number of lines it cannot take."""
    from pellucid.inspect.lengths import MeasuredSentence

    tokenizer, limit = loaded.bundle.tokenizer, loaded.translator.lengths.longest
    source_ids, target_ids = tokenizer.encode_source(sources), tokenizer.encode_target(references)
    fits = [
        n
        for n in range(len(source_ids))
        if len(source_ids[n]) <= limit and len(target_ids[n]) <= limit and sources[n].strip()
    ]
    lines, line_references = [sources[n] for n in fits], [references[n] for n in fits]
    scores = loaded.score(lines, line_references)  # of the references: loss needs no search
    # Refused, not split: a line translated in parts says nothing of its length. 64 at a time, so that the bar moves.
    translations = loaded.translate_stream(lines, 64, beam=beam, too_long="refuse")
    measured = [
        MeasuredSentence(len(source_ids[n]), score.log_prob, len(score.pieces), translation.text, references[n])
        for n, score, translation in zip(fits, scores, show_progress(translations, len(fits)), strict=True)
    ]
    return measured, sum(bool(line.strip()) for line in sources) - len(fits)
