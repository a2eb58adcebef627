"""`pellucid inspect heads`: what each head does, and how much it matters."""

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
from pellucid.cli.inspecting.measurement_bar import measurement_bar
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects
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
    source: Annotated[str, typer.Option(metavar="FILE", help="sentences, one a line, plain or .gz")],
    target: Annotated[str, typer.Option(metavar="FILE", help="their translations, line by line")],
    counts: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="text that says which source pieces are rare; without it, the sentences do"),
    ] = None,
    conllu: Annotated[
        str | None, typer.Option(metavar="FILE", help="parsed sentences of the source language, in CoNLL-U")
    ] = None,
    alignments: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="gold word alignments (0-0 1-2 ...); without it, the model's own are taken"),
    ] = None,
    lines: Annotated[int, typer.Option(min=0, help="pairs looked at, spread evenly over the files; 0 is all")] = 400,
    chrf: Annotated[
        bool, typer.Option("--chrf", help="also translate with each head silent: chrF, with paired bootstrap; slow")
    ] = False,
    curve: Annotated[
        str, typer.Option(metavar="loss|chrf|bleu", help="what is drawn against heads kept; scores translate")
    ] = "loss",
    among: Annotated[
        str, typer.Option(metavar="all|encoder|decoder|cross", help="heads that the curve takes away; the rest stay")
    ] = "all",
    points: Annotated[int, typer.Option(min=2, help="points of the curve")] = 9,
    random: Annotated[int, typer.Option(min=1, help="random orders drawn beside the others")] = 3,
    beam: Annotated[int, typer.Option(min=1, help="of what is translated")] = 1,
    samples: Annotated[int, typer.Option(min=1, help="test sets that the bootstrap draws")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="of random orders and of the bootstrap")] = 1,
    badges: Annotated[
        str | None, typer.Option(metavar="FILE", help="write roles and importance of the heads as one JSON object")
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """What each head does, and how much it matters.

    For every head of self-attention and cross-attention: how sure it is, how much it gives to marks, whether it reads a
    neighbour (-1, +1), rare words (R), aligned words (A) or, given parsed sentences, a relation (S); what its silence
    costs, in loss and with --chrf in chrF; how steep the loss is in it. Then the loss, or with --curve a score, against
    heads kept, by both kinds of importance and by random orders.

    The end mark of the source and the start mark of the target are left out, as queries and as keys: their share stands
    by itself, as sink. Loss is in nats a piece, with the true translation before it.
    """
    from pellucid.bundle import load_bundle
    from pellucid.cli.inspecting.heads_report import HeadReport, badges_for_page, head_objects, head_report_lines
    from pellucid.cli.inspecting.silenced_scores import SilencedTranslator
    from pellucid.inspect import conllu as parsing
    from pellucid.inspect import heads as study
    from pellucid.inspect import importance
    from pellucid.inspect.relations import follow_syntax
    from pellucid.inspect.study_pairs import count_batches, encode_study_pairs, spread_evenly

    if curve not in CURVES:
        raise ValueError(f"--curve {curve!r} is nothing that can be drawn; choose one of {', '.join(CURVES)}")
    require_figure(plot)
    if badges is not None and not Path(badges).resolve().parent.is_dir():
        raise ValueError(f"--badges {badges}: {Path(badges).parent} is not a folder")
    for path in (counts, conllu, alignments):
        require_file(path or "-")
    sources, targets = read_file_pair(source, target)
    chosen = spread_evenly(sources, lines)
    gold = None if alignments is None else read_gold_links(alignments, sources, targets)
    parsed = []
    if conllu is not None:
        with name_file_in_errors(conllu):
            parsed = list(parsing.read_conllu(read_sentences(conllu)))
    bundle = load_bundle(model)
    transformer, config = bundle.model, bundle.model.config
    every, kept = importance.list_heads(config), importance.list_heads(config, among)
    if not every:
        raise ValueError(f"{model} has no attention head left to look at")
    with name_file_in_errors(f"{source} and {target}"):
        pairs = encode_study_pairs(
            bundle.tokenizer,
            config,
            [sources[n] for n in chosen],
            [targets[n] for n in chosen],
            None if counts is None else read_sentences(counts),
            chosen,
        )

    steps = count_batches(pairs, config)
    with measurement_bar("patterns", steps) as done:
        right = None if gold is None else [gold[n] for n in chosen]
        looked = study.study_patterns(transformer, bundle.tokenizer, pairs, right, done)
    followed, notes = follow_syntax(transformer, bundle.tokenizer, parsed) if parsed else ([], [])
    with measurement_bar("importance", steps * (len(every) + 2)) as done:
        weighed = study.measure_importance(transformer, pairs, done)

    silenced = SilencedTranslator(bundle, [text for text, _ in pairs.texts], [text for _, text in pairs.texts], beam)
    changes = None
    if chrf:
        with measurement_bar("chrF", len(every)) as done:
            changes = silenced.changes(every, "chrf", samples, seed, done)
    orders = weighed.orders(config, among, random, seed)
    numbers = importance.kept_counts(len(kept), points)
    with measurement_bar("curve", len(orders) * len(numbers) * (steps if curve == "loss" else 1)) as done:
        if curve == "loss":
            curves = study.loss_curves(transformer, pairs, orders, numbers, done)
        else:
            curves = silenced.curves(orders, numbers, curve, done)

    roles = study.award_badges(looked, followed)
    notes = [*pairs.notes, *notes]
    report = HeadReport(
        looked, weighed, followed, roles, changes, curves, curve, among, gold is not None, len(pairs), notes
    )
    if badges is not None:
        with open_output(badges) as write:
            assert write is not None
            write(json_line(badges_for_page(report, bundle)) + "\n")
    if plot:
        from pellucid.plots.heads import draw_head_study

        save_figure(plot, lambda path: draw_head_study(**report.figure(), path=path))
    if json:
        write_objects(head_objects(report))
    else:
        write_lines(head_report_lines(report))


def read_gold_links(path: str, sources: Sequence[str], targets: Sequence[str]) -> "list[Links]":
    """The sure links of each pair; ValueError, naming the line, for a file that has not just these."""
    from pellucid.evaluate.alignment import read_links, require_inside

    with name_file_in_errors(path):
        gold = read_links(read_sentences(path))
        if len(gold) != len(sources):
            raise ValueError(f"{len(gold):,} lines of links and {len(sources):,} pairs: each line aligns one pair")
        require_inside(gold, [text.split() for text in sources], [text.split() for text in targets])
    return [sorted(links) for links in gold.sure]
