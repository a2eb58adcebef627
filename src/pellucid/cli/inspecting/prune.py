"""`pellucid inspect prune`: finds heads that a model can do without, and removes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import name_file_in_errors, read_file_pair, require_file, write_lines
from pellucid.cli.inspecting.measurement_bar import measurement_bar
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.cli.inspecting.prune_report import PruningResult, PruningStudy
    from pellucid.cli.inspecting.pruning_measurer import PruningMeasurer
    from pellucid.inspect.gates import GatedModel
    from pellucid.inspect.importance import Head
    from pellucid.inspect.study_pairs import StudyPairs
    from pellucid.model import Transformer

EXAMPLES = """\
  pellucid inspect prune runs/demo/best --source runs/demo/data/dev.en --target runs/demo/data/dev.es --among encoder
  pellucid inspect prune runs/demo/best --source dev.en --target dev.es --within 0.2 --out runs/demo/pruned
  pellucid inspect prune runs/demo/best --source test.en --target test.es --rank-source dev.en --rank-target dev.es \\
    --by gradient --keep 20 --plot pruning.png
  pellucid inspect prune runs/demo/best --source dev.en --target dev.es --by l0 --strength 0.02 --among encoder \\
    --train-source train.en --train-target train.es --out runs/demo/gated"""

RANKINGS = ("ablation", "gradient", "l0")


def run(
    model: Annotated[str, MODEL],
    source: Annotated[str, typer.Option(metavar="FILE", help="sentences, one a line, plain or .gz")],
    target: Annotated[str, typer.Option(metavar="FILE", help="their translations, line by line")],
    rank_source: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="other sentences to rank the heads on; without them, half of the others"),
    ] = None,
    rank_target: Annotated[str | None, typer.Option(metavar="FILE", help="their translations")] = None,
    by: Annotated[str, typer.Option(metavar="|".join(RANKINGS), help="what says which heads go first")] = "ablation",
    among: Annotated[str, typer.Option(metavar="all|encoder|decoder|cross", help="heads that may go")] = "all",
    keep: Annotated[int | None, typer.Option(min=0, metavar="N", help="how many of these heads stay")] = None,
    within: Annotated[
        float | None, typer.Option(min=0, metavar="BLEU", help="or as few as lose no more than this")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="write the smaller model here, a new place")] = None,
    strength: Annotated[
        float | None, typer.Option(metavar="LAMBDA", help="l0: the price of a head, in nats of loss a piece")
    ] = None,
    train_source: Annotated[str | None, typer.Option(metavar="FILE", help="l0: sentences to learn gates on")] = None,
    train_target: Annotated[str | None, typer.Option(metavar="FILE", help="l0: their translations")] = None,
    updates: Annotated[int, typer.Option(min=1, help="l0: updates of gates and weights")] = 400,
    batch_tokens: Annotated[int, typer.Option(min=1, help="l0: target positions in a batch")] = 2048,
    lines: Annotated[int, typer.Option(min=0, help="pairs of each file, spread evenly over it; 0 is all")] = 1000,
    points: Annotated[int, typer.Option(min=2, help="points of the curve")] = 9,
    random: Annotated[int, typer.Option(min=1, help="random orders drawn beside the others")] = 5,
    beam: Annotated[int, typer.Option(min=1, help="of what is translated")] = 4,
    samples: Annotated[int, typer.Option(min=1, help="test sets that the bootstrap draws")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="of random orders, of gates and of the bootstrap")] = 1,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Find heads a model can do without, and remove them.

    Heads are ranked on pairs of their own: those of --rank-source, or every second one of --source. On the others the
    smaller models are measured: BLEU, chrF and loss against heads kept, in the order of what silence costs (ablation),
    of the steepness of the loss (gradient), and in random orders.

    --keep or --within chooses a model; its heads are removed from the matrices, not masked. Size, speed and scores
    follow, beside those of the whole model, and --out writes it as a model directory. With --within, the number is
    chosen on the pairs it is measured on: measure once more on others before you rely on it.

    --by l0 trains gates on the heads, with the model, on training pairs (Voita et al. 2019); --strength decides how
    many close.
    """
    check_prune_options(by, keep, within, out, strength, (train_source, train_target), (rank_source, rank_target))
    require_figure(plot)
    for path in (rank_source, rank_target, train_source, train_target):
        require_file(path or "-")
    from pellucid.bundle import load_bundle
    from pellucid.cli.inspecting import prune_report
    from pellucid.cli.inspecting.pruning_measurer import PruningMeasurer
    from pellucid.inspect import importance

    rank_files = (rank_source, rank_target) if rank_source and rank_target else None
    bundle = load_bundle(model)
    heads = importance.list_heads(bundle.model.config, among)
    if len(heads) < (keep or 1):
        raise ValueError(
            f"{model} has {len(heads)} {prune_report.HEAD_KINDS[among]}: too few to keep {keep or 1} of them"
        )
    ranking, measured = ranking_and_test_pairs(bundle, (source, target), rank_files, lines)
    removing = PruningMeasurer(bundle, measured, beam, len(heads))
    orders, counts = rank_heads(bundle, ranking, among, random, seed), importance.kept_counts(len(heads), points)
    trained, removed = None, None
    if by == "l0":
        assert strength is not None and train_source and train_target
        gated = learn_which_heads(bundle, (train_source, train_target), strength, among, updates, batch_tokens, seed)
        trained, removed = gated.model, gated.closed_heads
    with measurement_bar("curve", len(orders) * len(counts)) as done:
        curves = removing.curves(orders, counts, done)
    if within is not None:
        keep = removing.fewest_within(orders[by], counts, within)
    if keep is not None:
        removed = sorted(orders[by][keep:], key=heads.index)
    result = None if removed is None else compare_pruned(removing, trained, by, removed, samples, seed)
    study = prune_report.PruningStudy(
        model,
        among,
        len(heads),
        beam,
        ranked_on=f"{len(ranking):,} pairs",
        measured_on=f"{len(measured):,} other pairs",
        curves=curves,
        learned=result.point if result is not None and trained is not None else None,
        notes=list(dict.fromkeys([*ranking.notes, *measured.notes])),
    )
    if result is not None and out is not None:
        write_pruned_model(out, bundle, result, study, strength)
    show_pruning(study, result, out, json, plot)


def check_prune_options(
    by: str,
    keep: int | None,
    within: float | None,
    out: str | None,
    strength: float | None,
    train: tuple[str | None, str | None],
    rank: tuple[str | None, str | None],
) -> None:
    """ValueError, before anything is read, with all that is wrong with the options."""
    problems = []
    if by not in RANKINGS:
        problems.append(f"--by is {by!r}, it must be one of {', '.join(RANKINGS)}")
    if (rank[0] is None) != (rank[1] is None):
        problems.append("--rank-source and --rank-target belong together")
    if keep is not None and within is not None:
        problems.append("--keep and --within both say how many heads stay; give one")
    if by == "l0":
        if strength is None or None in train:
            problems.append("--by l0 learns: it needs --strength, --train-source and --train-target")
        if keep is not None or within is not None:
            problems.append("--by l0: --strength decides how many heads stay, not --keep or --within")
    elif strength is not None or train != (None, None):
        problems.append("--strength and --train-source belong to --by l0")
    elif out is not None and keep is None and within is None:
        problems.append("--out needs --keep or --within, which say how many heads stay")
    if out is not None and Path(out).exists():
        problems.append(f"--out {out} is there already; choose a new place")
    if problems:
        raise ValueError("; ".join(problems))


def ranking_and_test_pairs(
    bundle: "Bundle", files: tuple[str, str], rank_files: tuple[str, str] | None, lines: int
) -> "tuple[StudyPairs, StudyPairs]":
    """Pairs to rank the heads on, and other pairs to measure with."""
    from pellucid.inspect.study_pairs import encode_study_pairs, spread_evenly

    def encode_chosen(
        files: tuple[str, str], texts: tuple[list[str], list[str]], chosen: Sequence[int]
    ) -> "StudyPairs":
        with name_file_in_errors(" and ".join(files)):
            sides = ([side[n] for n in chosen] for side in texts)
            return encode_study_pairs(bundle.tokenizer, bundle.model.config, *sides, numbers=chosen)

    texts = read_file_pair(*files)
    chosen = spread_evenly(texts[0], lines)
    if rank_files is not None:
        of_ranking = read_file_pair(*rank_files)
        ranking = encode_chosen(rank_files, of_ranking, spread_evenly(of_ranking[0], lines))
        return ranking, encode_chosen(files, texts, chosen)
    if len(chosen) < 2:
        raise ValueError(f"{files[0]}: one half ranks the heads, the other measures; {len(chosen)} lines are too few")
    return encode_chosen(files, texts, chosen[0::2]), encode_chosen(files, texts, chosen[1::2])


def rank_heads(bundle: "Bundle", pairs: "StudyPairs", among: str, random: int, seed: int) -> "dict[str, list[Head]]":
    """The heads by what their silence costs, by the gradient, and in random orders, those to be kept longest first."""
    from pellucid.inspect import heads as study
    from pellucid.inspect import importance
    from pellucid.inspect.study_pairs import count_batches

    config = bundle.model.config
    with measurement_bar("importance", count_batches(pairs, config) * (len(importance.list_heads(config)) + 2)) as done:
        return study.measure_importance(bundle.model, pairs, done).orders(config, among, random, seed)


def learn_which_heads(
    bundle: "Bundle", files: tuple[str, str], strength: float, among: str, updates: int, batch_tokens: int, seed: int
) -> "GatedModel":
    """Gates trained on training pairs, in an order drawn by the seed."""
    from pellucid.data.corpus import SentencePairs
    from pellucid.data.stream import Stream, encode_pairs
    from pellucid.inspect.gates import GateConfig, learn_gates

    config = GateConfig(strength=strength, among=among, updates=updates, seed=seed)
    sides = read_file_pair(*files)
    with name_file_in_errors(" and ".join(files)):
        pairs, _ = encode_pairs(SentencePairs.from_lists(*sides), bundle.tokenizer, bundle.model.config.max_positions)
    with measurement_bar("gates", updates) as done:
        return learn_gates(bundle.model, iter(Stream(pairs, batch_tokens, seed)), config, lambda _: done())


def compare_pruned(
    removing: "PruningMeasurer",
    trained: "Transformer | None",
    by: str,
    removed: "Sequence[Head]",
    samples: int,
    seed: int,
) -> "PruningResult":
    """The smaller model beside the whole one; its weights are those of the whole one, or else of `trained`."""
    from pellucid.cli.inspecting.prune_report import PruningResult
    from pellucid.inspect.pruning import remove_heads

    whole = removing.bundle.model
    after = remove_heads(trained or whole, removed)
    difference, logit = removing.largest_difference(trained or whole, after, removed)
    return PruningResult(
        after,
        by,
        removed,
        removing.point_of_model(after, removing.among - len(removed)),
        tuple(sum(each.numel() for each in model.parameters()) for model in (whole, after)),
        difference,
        logit,
        removing.scores(after, samples, seed),
        removing.speeds(after),
    )


def write_pruned_model(
    out: str, bundle: "Bundle", result: "PruningResult", study: "PruningStudy", strength: float | None
) -> None:
    """The model directory, whole or not at all; its manifest says what it was made from, and how."""
    from pellucid.bundle import save_bundle
    from pellucid.trace.facts import model_facts

    of = model_facts(bundle)
    kept = {key: value for key, value in bundle.manifest.items() if key in ("data", "step", "imported")}
    of_that = {"of": bundle.manifest["pruned"]} if "pruned" in bundle.manifest else {}
    made: dict[str, Any] = {
        "from": of.name,
        "sha256": of.sha256,
        "by": result.by,
        "among": study.among,
        "heads": [str(head) for head in result.removed],
        **({} if strength is None else {"strength": strength}),
        "ranked_on": study.ranked_on,
        "measured_on": study.measured_on,
        "bleu": result.scores[0].b.score,
        "signature": result.scores[0].signature,
        "beam": study.beam,
        **of_that,
    }
    save_bundle(out, result.model, bundle.tokenizer, **kept, pruned=made)


def show_pruning(
    study: "PruningStudy", result: "PruningResult | None", out: str | None, json: bool, plot: str | None
) -> None:
    """Tables or objects, and the figure."""
    from pellucid.cli.inspecting import prune_report

    if plot:
        from pellucid.plots.pruning import draw_pruning_curves

        curves = {
            title: {each.order: [getattr(point, score) for point in each.points] for each in study.curves}
            for score, (title, _) in prune_report.SCORE_TITLES.items()
        }
        point = study.learned
        titles = prune_report.SCORE_TITLES.items()
        learned = (
            None if point is None else (point.kept, {title: getattr(point, score) for score, (title, _) in titles})
        )
        kept = [point.kept for point in study.curves[0].points]
        title = f"{study.model}, {study.kind} ranked on {study.ranked_on}, measured on {study.measured_on}"
        save_figure(
            plot, lambda path: draw_pruning_curves(kept, curves, path, title=title, heads=study.kind, learned=learned)
        )
    if json:
        write_objects(
            [*prune_report.study_objects(study), *([] if result is None else [prune_report.result_object(result, out)])]
        )
        return
    write_lines(prune_report.study_lines(study))
    if result is not None:
        write_lines(["", *prune_report.result_lines(result)])
        if out is not None:
            write_lines([f"written: {out}"])
