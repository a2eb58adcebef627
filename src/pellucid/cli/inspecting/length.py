"""`pellucid inspect length`: loss and chrF by the length of the source."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import name_file_in_errors, read_file_pair, write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects, write_table
from pellucid.cli.options import MODEL, search_default, search_option
from pellucid.cli.progress import show_progress

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.inspect.lengths import MeasuredSentence

EXAMPLES = """\
  pellucid inspect length runs/demo/best --source test.en --target test.es
  pellucid inspect length runs/demo/best --source test.en --target test.es --join 4 --plot length.png"""


def run(
    model: Annotated[str, MODEL],
    source: Annotated[
        str, typer.Option(metavar="FILE", help="sentences, one a line, plain or .gz; - is standard input")
    ],
    target: Annotated[str, typer.Option(metavar="FILE", help="a translation of each, line by line")],
    join: Annotated[
        int,
        typer.Option(metavar="N", help="put neighbouring lines together too, up to N, so that there are longer ones"),
    ] = 1,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Loss and chrF by the length of the source.

    Whether the model stays good beyond the longest source it was trained on. Lines are translated whole, however
    long, which `pellucid translate` would split at sentence ends.
    """
    from pellucid.api import load
    from pellucid.decode.config import SearchConfig
    from pellucid.evaluate.scores import chrf_score
    from pellucid.inspect.lengths import bucket_by_length, join_lines

    SearchConfig(beam=beam)
    require_figure(plot)
    if join < 1:
        raise ValueError(f"--join is {join}, it must be 1 or more")
    read, wanted = (join_lines(lines, join) for lines in read_file_pair(source, target))
    loaded = load(model)
    with name_file_in_errors(f"{source} and {target}"):
        measured, left_out = measure_sentences(loaded, read, wanted, beam)
        trained = loaded.manifest.get("longest_source")
        longest = trained if isinstance(trained, int) else None
        found = bucket_by_length(
            measured, lambda texts, references: chrf_score(texts, references, loaded.lowercase)["score"], longest
        )
    if plot:
        from pellucid.plots.lengths import draw_by_length as drawn

        middles = [(each.first + each.last) / 2 for each in found]
        numbers = [each.loss for each in found], [each.chrf for each in found]
        save_figure(plot, lambda path: drawn(middles, *numbers, path, longest_seen=longest))
    if json:
        write_objects({"longest_seen": longest, **vars(each)} for each in found)
    else:
        rows = [["pieces", "sentences", "loss", "chrF", "length ratio", ""]]
        for each in found:
            beyond = "longer than any seen in training" if each.unseen else ""
            counts = [f"{each.first}-{each.last}", f"{each.sentences:,}"]
            rows.append([*counts, f"{each.loss:.3f}", f"{each.chrf:.1f}", f"{each.ratio:.2f}", beyond])
        write_table(rows, "rrrrrl")
        known = f"the longest source of training had {longest} pieces" if longest else LENGTH_NOT_KNOWN
        write_lines(["", f"loss in nats a piece; length ratio in characters; {known}"])
    if left_out:
        typer.echo(f"{left_out:,} lines have more pieces than this model takes, and were left out", err=True)


LENGTH_NOT_KNOWN = "the model directory does not say how long the sources of training were"


def measure_sentences(
    loaded: "Model", sources: Sequence[str], references: Sequence[str], beam: int
) -> "tuple[list[MeasuredSentence], int]":
    """What is needed of each line that the model can take, and how many it cannot."""
    from pellucid.inspect.lengths import MeasuredSentence

    tokenizer, most = loaded.bundle.tokenizer, loaded.translator.lengths.most
    read, written = tokenizer.encode_source(sources), tokenizer.encode_target(references)
    fits = [n for n in range(len(read)) if len(read[n]) <= most and len(written[n]) <= most and sources[n].strip()]
    lines, wanted = [sources[n] for n in fits], [references[n] for n in fits]
    scores = loaded.score(lines, wanted)
    translations = loaded.translate_stream(lines, 64, beam=beam, too_long="refuse")
    found = [
        MeasuredSentence(len(read[n]), score.log_prob, len(score.pieces), each.text, references[n])
        for n, score, each in zip(fits, scores, show_progress(translations, len(fits)), strict=True)
    ]
    return found, sum(bool(line.strip()) for line in sources) - len(fits)
