"""`pellucid inspect heads`: measures what each attention head does, and how much it matters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import (
    json_line,
    name_file_in_errors,
    open_output,
    read_file_pair,
    read_sentences,
    require_file,
    write_lines,
)
from pellucid.cli.inspecting.output import JSON, PLOT, measurement_bar, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.decode.alignment import Links

EXAMPLES = """\
  pellucid inspect heads runs/demo/best --source runs/demo/data/dev.en --target runs/demo/data/dev.es
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --counts train.en --plot heads.png
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --conllu parsed.conllu --badges badges.json
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --chrf --curve bleu --among encoder --json"""

CURVES = ("loss", "chrf", "bleu")


def run(
    model: Annotated[str, MODEL],
    source: Annotated[str, typer.Option(metavar="FILE", help="source sentences, one per line, plain or .gz")],
    target: Annotated[str, typer.Option(metavar="FILE", help="their translations, line by line")],
    counts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="text to count rare source pieces in; without it, they are counted in --source"
        ),
    ] = None,
    conllu: Annotated[
        str | None, typer.Option(metavar="FILE", help="parsed sentences of the source language, in CoNLL-U format")
    ] = None,
    alignments: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="gold word alignments (0-0 1-2 ...); without them, the model's own are used"),
    ] = None,
    lines: Annotated[
        int, typer.Option(min=0, help="number of pairs to study, spread evenly over the files; 0: all")
    ] = 400,
    chrf: Annotated[
        bool, typer.Option("--chrf", help="also translate with each head silent, for chrF with paired bootstrap; slow")
    ] = False,
    curve: Annotated[
        str,
        typer.Option(
            metavar="loss|chrf|bleu", help="measure to draw against heads kept; for the scores, all is translated"
        ),
    ] = "loss",
    among: Annotated[
        str, typer.Option(metavar="all|encoder|decoder|cross", help="heads that the curve removes; all others stay")
    ] = "all",
    points: Annotated[int, typer.Option(min=2, help="number of points of the curve")] = 9,
    random: Annotated[int, typer.Option(min=1, help="number of random orders to compare with")] = 3,
    beam: Annotated[int, typer.Option(min=1, help="beam for translating")] = 1,
    samples: Annotated[int, typer.Option(min=1, help="number of test sets that the bootstrap draws")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="random seed of the random orders and of the bootstrap")] = 1,
    badges: Annotated[
        str | None, typer.Option(metavar="FILE", help="write roles and importance of the heads as one JSON object")
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Measure what each head does, and how much it matters.

    For every head of self-attention and cross-attention, show how confident it is, how much weight it gives to special
    tokens, whether it reads a neighbour (-1, +1), rare words (R), aligned words (A) or, given parsed sentences, a
    syntactic relation (S); what its silence costs, in loss and with --chrf in chrF; and the gradient of the loss with
    respect to it. Then show the loss, or with --curve a score, against heads kept, by both kinds of importance and by
    random orders.

    The end mark of the source and the start mark of the target are left out, as queries and as keys; the weight they
    get is shown on its own, as sink. Loss is in nats per piece, with teacher forcing.
    """
    from pellucid.cli.inspecting.heads_report import HeadReport, badges_for_page, head_objects, head_report_lines
    from pellucid.cli.inspecting.silenced_scores import SilencedTranslator
    from pellucid.inspect import conllu as parsing
    from pellucid.inspect import heads as study
    from pellucid.inspect import importance
    from pellucid.inspect.pattern_measures import count_batches, encode_study_pairs, spread_evenly
    from pellucid.inspect.roles import follow_syntax
    from pellucid.store.directory import load_bundle

    if curve not in CURVES:
        raise ValueError(f"--curve {curve!r} cannot be drawn; choose one of {', '.join(CURVES)}")
    require_figure(plot)
    # Badges are written after the measuring, so their folder is checked before it.
    if badges is not None and not Path(badges).resolve().parent.is_dir():
        raise ValueError(f"--badges {badges}: {Path(badges).parent} is not a folder")
    # Missing files are found now, not after minutes of measuring; "-" stands for a file that was not named.
    for path in (counts, conllu, alignments):
        require_file(path or "-")
    sources, targets = read_file_pair(source, target)
    line_numbers = spread_evenly(sources, lines)
    gold = None if alignments is None else read_gold_links(alignments, sources, targets)
    parsed_sentences = []
    if conllu is not None:
        with name_file_in_errors(conllu):
            parsed_sentences = list(parsing.read_conllu(read_sentences(conllu)))
    bundle = load_bundle(model)
    transformer, config = bundle.model, bundle.model.config
    # The table has every head; the curve takes away those of --among only.
    all_heads, curve_heads = importance.list_heads(config), importance.list_heads(config, among)
    with name_file_in_errors(f"{source} and {target}"):
        pairs = encode_study_pairs(
            bundle.tokenizer,
            config,
            [sources[n] for n in line_numbers],
            [targets[n] for n in line_numbers],
            None if counts is None else read_sentences(counts),
            line_numbers,
        )

    steps = count_batches(pairs, config)
    with measurement_bar("patterns", steps) as advance:
        # Gold has a line for each line of the files; the study took some of them.
        links = None if gold is None else [gold[n] for n in line_numbers]
        patterns = study.study_patterns(transformer, bundle.tokenizer, pairs, links, advance)
    relations, notes = follow_syntax(transformer, bundle.tokenizer, parsed_sentences) if parsed_sentences else ([], [])
    # One pass without silence, one for each silent head, and one for the gradients.
    with measurement_bar("importance", steps * (len(all_heads) + 2)) as advance:
        measured = study.measure_importance(transformer, pairs, advance)

    translator = SilencedTranslator(bundle, [text for text, _ in pairs.texts], [text for _, text in pairs.texts], beam)
    changes = None
    if chrf:
        with measurement_bar("chrF", len(all_heads)) as advance:
            changes = translator.changes(all_heads, "chrf", samples, seed, advance)
    # The curve removes heads in the order of each importance, and in random orders to compare with.
    orders = measured.orders(config, among, random, seed)
    counts_kept = importance.kept_counts(len(curve_heads), points)
    # Loss advances with each batch; a score needs all translations of a point, and advances with each point.
    with measurement_bar("curve", len(orders) * len(counts_kept) * (steps if curve == "loss" else 1)) as advance:
        if curve == "loss":
            curves = study.loss_curves(transformer, pairs, orders, counts_kept, advance)
        else:
            curves = translator.curves(orders, counts_kept, curve, advance)

    roles = study.award_badges(patterns, relations)
    notes = [*pairs.notes, *notes]
    report = HeadReport(
        patterns, measured, relations, roles, changes, curves, curve, among, gold is not None, len(pairs), notes
    )
    if badges is not None:
        with open_output(badges) as write:
            assert write is not None
            write(json_line(badges_for_page(report, bundle)) + "\n")
    if plot:
        from pellucid.plots.charts import draw_head_study

        save_figure(plot, lambda path: draw_head_study(**report.figure(), path=path))
    if json:
        write_objects(head_objects(report))
    else:
        write_lines(head_report_lines(report))


def read_gold_links(path: str, sources: Sequence[str], targets: Sequence[str]) -> "list[Links]":
    """Return the sure links of each pair; raise ValueError, naming the line, if the file does not fit the pairs."""
    from pellucid.evaluate.alignment import read_links, require_inside

    with name_file_in_errors(path):
        gold = read_links(read_sentences(path))
        if len(gold) != len(sources):
            raise ValueError(f"{len(gold):,} lines of links and {len(sources):,} pairs: each line aligns one pair")
        require_inside(gold, [text.split() for text in sources], [text.split() for text in targets])
    return [sorted(links) for links in gold.sure]
