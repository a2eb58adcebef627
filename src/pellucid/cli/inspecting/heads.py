"""`pellucid inspect heads`: measures what each attention head does, and how much it matters."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import (
    json_line,
    measurement_bar,
    name_file_in_errors,
    read_file_pair,
    read_sentences,
    require_file,
    write_lines,
)
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL, file_option
from pellucid.store.atomic import write_text_whole

if TYPE_CHECKING:
    from pellucid.cli.inspecting.heads_report import HeadReport
    from pellucid.decode.alignment import Links
    from pellucid.inspect.importance import Head, ScoreCurve
    from pellucid.inspect.pattern_measures import StudyPairs
    from pellucid.store.directory import Bundle

EXAMPLES = """\
  pellucid inspect heads runs/demo/best --source runs/demo/data/dev.en --target runs/demo/data/dev.es
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --counts train.en --plot heads.png
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --badges runs/demo/best.heads.json
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --curve bleu --among encoder --json"""

CURVES = ("loss", "bleu")


def run(
    model: Annotated[str, MODEL],
    source: Annotated[str, file_option("source sentences, one per line, plain or .gz")],
    target: Annotated[str, file_option("their translations, line by line")],
    counts: Annotated[
        str | None, file_option("text to count rare source pieces in; without it, they are counted in --source")
    ] = None,
    alignments: Annotated[
        str | None, file_option("gold word alignments (0-0 1-2 ...); without them, the model's own are used")
    ] = None,
    lines: Annotated[
        int, typer.Option(min=0, help="number of pairs to study, spread evenly over the files; 0: all")
    ] = 400,
    curve: Annotated[
        str,
        typer.Option(metavar="loss|bleu", help="measure to draw against heads kept; for bleu, all is translated"),
    ] = "loss",
    among: Annotated[
        str, typer.Option(metavar="all|encoder|decoder|cross", help="heads that the curve silences; all others stay")
    ] = "all",
    points: Annotated[int, typer.Option(min=2, help="number of points of the curve")] = 9,
    badges: Annotated[str | None, file_option("write roles and importance of the heads as one JSON object")] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Measure what each head does, and how much it matters.

    For every head of self-attention and cross-attention, show how confident it is, how much weight it gives to special
    tokens, and whether it reads a neighbour (-1, +1), rare words (R) or aligned words (A). Also show how much the loss
    grows if the head is silenced, and the gradient of the loss with respect to it. Then show the loss, or with --curve
    bleu the BLEU, against the number of heads kept, in the order of both kinds of importance and in a random order.

    EOS, the end token of the source, and BOS, the start token of the target, are left out, as queries and as keys; the
    weight that they get is shown separately, as sink. Loss is in nats per piece, with teacher forcing.
    """
    from pellucid.cli.inspecting.heads_report import head_objects, head_report_lines
    from pellucid.inspect.heads import badges_object
    from pellucid.inspect.importance import list_heads
    from pellucid.inspect.pattern_measures import encode_study_pairs, spread_evenly
    from pellucid.store.directory import load_bundle

    if curve not in CURVES:
        raise ValueError(f"--curve {curve!r} cannot be drawn; choose one of {', '.join(CURVES)}")
    require_figure(plot)
    # Badges are written after the measuring, so their folder is checked before it.
    if badges is not None and not Path(badges).resolve().parent.is_dir():
        raise ValueError(f"--badges {badges}: {Path(badges).parent} is not a folder")
    # Missing files are found now, not after minutes of measuring; "-" stands for a file that was not named.
    for path in (counts, alignments):
        require_file(path or "-")
    sources, targets = read_file_pair(source, target)
    line_numbers = spread_evenly(sources, lines)
    gold = None if alignments is None else _read_gold_links(alignments, sources, targets)
    bundle = load_bundle(model)
    list_heads(bundle.model.config, among)  # refuses what is no kind of heads before anything is measured
    with name_file_in_errors(f"{source} and {target}"):
        pairs = encode_study_pairs(
            bundle.tokenizer,
            bundle.model.config,
            [sources[n] for n in line_numbers],
            [targets[n] for n in line_numbers],
            None if counts is None else read_sentences(counts),
            line_numbers,
        )
    # Gold has a line for each line of the files; the study took some of them.
    links = None if gold is None else [gold[n] for n in line_numbers]
    report = _measure_heads(bundle, pairs, links, curve, among, points)
    if badges is not None:
        content = badges_object(bundle, report.importance, report.badges, len(pairs))
        write_text_whole(badges, json_line(content) + "\n")
    if plot:
        from pellucid.plots.charts import draw_head_study

        save_figure(plot, lambda path: draw_head_study(**report.figure(), path=path))
    if json:
        write_objects(head_objects(report))
    else:
        write_lines(head_report_lines(report))


def _measure_heads(
    bundle: "Bundle", pairs: "StudyPairs", links: "Sequence[Links] | None", curve: str, among: str, points: int
) -> "HeadReport":
    """Measure the patterns of all heads, their importance, and the curve over those of `among`, each with a bar."""
    from pellucid.cli.inspecting.heads_report import HeadReport
    from pellucid.inspect import heads as study
    from pellucid.inspect import importance
    from pellucid.inspect.pattern_measures import count_batches

    transformer, config = bundle.model, bundle.model.config
    steps = count_batches(pairs, config)
    with measurement_bar("patterns", steps) as advance:
        patterns = study.study_patterns(transformer, bundle.tokenizer, pairs, links, advance)
    # One pass without silence, one for each silent head, and one for the gradients.
    with measurement_bar("importance", steps * (len(patterns.heads) + 2)) as advance:
        measured = study.measure_importance(transformer, pairs, advance)
    orders = measured.orders(config, among)
    counts_kept = importance.kept_counts(len(importance.list_heads(config, among)), points)
    # Loss advances with each batch; BLEU needs all translations of a point, and advances with each point.
    with measurement_bar("curve", len(orders) * len(counts_kept) * (steps if curve == "loss" else 1)) as advance:
        if curve == "loss":
            curves = study.loss_curves(transformer, pairs, orders, counts_kept, advance)
        else:
            curves = _bleu_curves(bundle, pairs, orders, counts_kept, advance)
    badges = study.award_badges(patterns)
    return HeadReport(patterns, measured, badges, curves, curve, among, links is not None, len(pairs), pairs.notes)


def _read_gold_links(path: str, sources: Sequence[str], targets: Sequence[str]) -> "list[Links]":
    """Return the sure links of each pair; raise ValueError, naming the line, if the file does not fit the pairs."""
    from pellucid.evaluate.alignment import read_links, require_inside

    with name_file_in_errors(path):
        gold = read_links(read_sentences(path))
        if len(gold) != len(sources):
            raise ValueError(f"{len(gold):,} lines of links and {len(sources):,} pairs: each line aligns one pair")
        require_inside(gold, [text.split() for text in sources], [text.split() for text in targets])
    return [sorted(links) for links in gold.sure]


def _bleu_curves(
    bundle: "Bundle",
    pairs: "StudyPairs",
    orders: "Mapping[str, Sequence[Head]]",
    counts: Sequence[int],
    advance: Callable[[], object],
) -> "list[ScoreCurve]":
    """Return the BLEU of greedy translations with only the first heads of each order kept, for each of these counts."""
    from pellucid.decode.request import SearchConfig
    from pellucid.decode.translate import Translator
    from pellucid.evaluate.scores import corpus_scores
    from pellucid.inspect.importance import ScoreCurve, silence_in_weights

    sources, references = zip(*pairs.texts, strict=True)
    scores: dict[frozenset[Head], float] = {}
    for order in orders.values():
        for silent in (frozenset(order[count:]) for count in counts):
            if silent not in scores:  # with all heads or none, every order is the same
                # Silent in the weights, so that everything else of a translation is as usual.
                translator = Translator(silence_in_weights(bundle.model, sorted(silent)), bundle.tokenizer)
                texts = [translation.text for translation in translator.translate(sources, SearchConfig(beam=1))]
                scored = corpus_scores(texts, list(references), ["bleu"], bundle.tokenizer.lowercase)
                scores[silent] = scored["bleu"]["score"]
            advance()
    return [
        ScoreCurve(name, list(counts), [scores[frozenset(order[count:])] for count in counts])
        for name, order in orders.items()
    ]
