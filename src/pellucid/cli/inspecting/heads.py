"""`pellucid inspect heads`: measures what each attention head does, and how much it matters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pellucid.cli.files import (
    FIGURES,
    json_line,
    measurement_bar,
    name_file_in_errors,
    read_file_pair,
    read_sentences,
    require_file,
    save_figure,
    write_report,
)
from pellucid.cli.options import (
    DOCUMENT,
    JSON,
    LANGUAGE_TO_WRITE,
    MODEL,
    PLOT,
    SOURCE,
    TRANSLATIONS,
    file_option,
    option,
)
from pellucid.cli.terminal import format_table
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    from pellucid.decode.alignment import Links
    from pellucid.interpret.studies.head_studies import HeadImportance, HeadPatterns, HeadStudy
    from pellucid.interpret.studies.importance import Head, ScoreCurve
    from pellucid.interpret.studies.pattern_measures import StudyPairs
    from pellucid.interpret.studies.roles import Badge, FollowedRelation, QueryShare
    from pellucid.store.directory import Bundle

HEADS_EXAMPLES = """\
  pellucid inspect heads runs/demo/best --source runs/demo/data/dev.en --target runs/demo/data/dev.es
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --counts train.en --plot heads.png
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --badges runs/demo/best.heads.json
  pellucid inspect heads runs/demo/best --source dev.en --target dev.es --curve bleu --among encoder --json"""

CURVES = {"loss": "loss, nats a piece", "bleu": "BLEU"}
"""Measures that can be drawn against the heads kept, with their titles."""

POINTS = 9
"""Points of a curve."""

LEGEND = (
    "confidence: mean of the largest weights. entropy: of all weights, in nats. sink: share of the weight on EOS, the "
    "end token of the source; in decoder.*.self, on BOS, the start token. The other columns leave these tokens out, as "
    "queries and as keys.",
    "piece, word: the offset at which the largest weights are found most often, and how often. rarest, two: how often "
    "the largest weight is on the rarest piece, and on one of the two rarest, in sentences that have a rare piece; in "
    "brackets, how often by chance.",
    "silent: change of the loss, in nats a piece, when this head is silenced, and its standard error. gradient: "
    "E |dL/dxi|; unit: the same, scaled to length 1 in each attention.",
)


def show_heads(
    model: Annotated[str, MODEL],
    source: Annotated[str, SOURCE],
    target: Annotated[str, TRANSLATIONS],
    counts: Annotated[
        str | None, file_option("text to count rare source pieces in; without it, they are counted in --source")
    ] = None,
    alignments: Annotated[
        str | None, file_option("gold word alignments (0-0 1-2 ...); without them, the model's own are used")
    ] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    document: Annotated[bool, DOCUMENT] = False,
    lines: Annotated[int, option("number of pairs to study, spread evenly over the files; 0: all", min=0)] = 400,
    curve: Annotated[
        str, option("measure to draw against heads kept; for bleu, all is translated", "loss|bleu")
    ] = "loss",
    among: Annotated[
        str, option("heads that the curve silences; all others stay", "all|encoder|decoder|cross")
    ] = "all",
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
    from pellucid.api import load
    from pellucid.interpret.studies.head_studies import badges_object
    from pellucid.interpret.studies.importance import list_heads
    from pellucid.interpret.studies.pattern_measures import encode_study_pairs, spread_evenly

    if curve not in CURVES:
        raise ValueError(f"--curve {curve!r} cannot be drawn; choose one of {', '.join(CURVES)}")
    require_writable(plot, FIGURES)
    require_writable(badges)
    # Missing files are found now, not after minutes of measuring; "-" stands for a file that was not named.
    for path in (counts, alignments):
        require_file(path or "-")
    sources, targets = read_file_pair(source, target)
    line_numbers = spread_evenly(sources, lines)
    gold = None if alignments is None else _read_gold_links(alignments, sources, targets)
    loaded = load(model, engine="torch", target_language=language)
    bundle = loaded.bundle
    sources = loaded.translator.join_document(sources) if document else sources
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
    report = _measure_heads(bundle, pairs, links, curve, among)
    if badges is not None:
        content = badges_object(bundle, report.importance, report.badges, len(pairs))
        write_text_whole(badges, json_line(content) + "\n")
    if plot:
        from pellucid.interpret.plots.charts import draw_head_study

        save_figure(plot, lambda path: draw_head_study(**report.figure(), path=path))
    write_report(json, head_objects(report), head_report_lines(report))


def _measure_heads(
    bundle: "Bundle", pairs: "StudyPairs", links: "Sequence[Links] | None", curve: str, among: str
) -> "HeadReport":
    """Measure all heads' patterns and importance, and the curve over the heads of kind `among`, each with a bar."""
    from pellucid.interpret.studies import head_studies as study
    from pellucid.interpret.studies import importance
    from pellucid.interpret.studies.pattern_measures import count_batches

    transformer, config = bundle.model, bundle.model.config
    steps = count_batches(pairs, config)
    with measurement_bar("patterns", steps) as advance:
        patterns = study.study_patterns(transformer, bundle.tokenizer, pairs, links, advance)
    # One pass without silence, one for each silent head, and one for the gradients.
    with measurement_bar("importance", steps * (len(patterns.heads) + 2)) as advance:
        measured = study.measure_importance(transformer, pairs, advance)
    orders = measured.orders(config, among)
    counts_kept = importance.kept_counts(len(importance.list_heads(config, among)), POINTS)
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
    from pellucid.evaluate.alignment_rates import read_links, require_inside

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
    from pellucid.data.source_profile import load_source_profile
    from pellucid.decode.request import SearchConfig
    from pellucid.decode.translator import Translator
    from pellucid.evaluate.scores import corpus_scores
    from pellucid.interpret.studies.importance import ScoreCurve, silence_in_weights

    sources, references = zip(*pairs.texts, strict=True)
    profile = load_source_profile(bundle.directory, bundle.manifest)
    scores: dict[frozenset[Head], float] = {}
    for order in orders.values():
        for silent in (frozenset(order[count:]) for count in counts):
            if silent not in scores:  # with all heads or none, every order is the same
                # Silent in the weights, so that everything else of a translation is as usual.
                silenced = silence_in_weights(bundle.model, sorted(silent))
                translator = Translator(silenced, bundle.tokenizer, profile=profile)
                texts = [
                    translation.text for translation in translator.translate_sources(sources, SearchConfig(beam=1))
                ]
                scored = corpus_scores(texts, list(references), ["bleu"], bundle.tokenizer.lowercase)
                scores[silent] = scored["bleu"]["score"]
            advance()
    return [
        ScoreCurve(name, list(counts), [scores[frozenset(order[count:])] for count in counts])
        for name, order in orders.items()
    ]


@dataclass(frozen=True)
class HeadReport:
    """Everything a study of heads found; `gold` says whether alignments were given or are the model's own."""

    patterns: "HeadStudy"
    importance: "HeadImportance"
    badges: "dict[Head, list[Badge]]"
    curves: "Sequence[ScoreCurve]"
    curve: str
    among: str
    gold: bool
    pairs: int
    notes: Sequence[str]

    @property
    def heads(self) -> "list[Head]":
        """Return all heads, in the order of the study."""
        return [pattern.head for pattern in self.patterns.heads]

    def figure(self) -> dict[str, Any]:
        """Return the arguments of `plots.charts.draw_head_study`."""
        attentions = list(dict.fromkeys(head.attention for head in self.heads))
        rows = {name: [n for n, head in enumerate(self.heads) if head.attention == name] for name in attentions}
        marks = [",".join(badge.mark for badge in self.badges[head]) for head in self.heads]
        cost = [change.value for change in self.importance.ablation]
        return {
            "attentions": attentions,
            "importance": [[cost[n] for n in numbers] for numbers in rows.values()],
            "marks": [[marks[n] for n in numbers] for numbers in rows.values()],
            "similarity": self.patterns.similarity,
            "curves": {curve.order: (curve.kept, curve.values) for curve in self.curves},
            "curve_name": CURVES[self.curve],
        }


def head_report_lines(report: HeadReport) -> Iterator[str]:
    """Yield the tables of the report."""
    importance = report.importance
    yield f"{len(report.heads)} heads on {report.pairs:,} pairs, loss {importance.loss:.4f} nats a piece"
    yield from (f"note: {note}" for note in report.notes)
    yield ""
    columns = ["confidence", "entropy", "sink", "piece", "word", "rarest", "two", "silent"]
    rows = [["head", *columns, "", "gradient", "unit", "roles"]]
    for n, pattern in enumerate(report.patterns.heads):
        change = importance.ablation[n]
        rows.append(
            [
                str(pattern.head),
                *(_format_number(value, 2) for value in (pattern.confidence, pattern.entropy, pattern.sink)),
                _preferred_offset(pattern.pieces),
                _preferred_offset(pattern.words),
                *_rare_word_cells(pattern),
                f"{change.value:+.4f}",
                f"±{change.error:.4f}",
                f"{importance.gradient[n]:.4f}",
                f"{importance.normalised[n]:.2f}",
                " ".join(badge.mark for badge in report.badges[pattern.head]) or "-",
            ]
        )
    yield from format_table(rows, "lrrrrrrrrrrrl")
    yield ""
    yield from LEGEND
    if not any(
        pattern.rarest.queries for pattern in report.patterns.heads if pattern.head.attention.startswith("encoder.")
    ):
        yield "No source piece here is outside the 500 commonest of the text that was counted; try --counts FILE."
    yield ""
    yield from _relation_lines(report)
    yield (
        "Spearman's correlation with what silence costs: gradient "
        f"{_format_number(importance.correlation['gradient'], 2)}, with "
        f"length 1 in each attention {_format_number(importance.correlation['normalised'], 2)}."
    )
    yield _describe_costliest(report)
    yield ""
    yield from _curve_lines(report)
    yield ""
    awarded = [(head, badge) for head in report.heads for badge in report.badges[head]]
    yield from (f"{head}  {badge.mark}  {badge.says}" for head, badge in awarded)
    if not awarded:
        from pellucid.interpret.studies.roles import RULES

        yield "No head can be called anything by these rules:"
        yield from (f"  {mark}: {rule}" for mark, rule in RULES.items())


def _describe_costliest(report: HeadReport) -> str:
    """Return a sentence on the attention whose heads cost most, each silent alone.

    Michel et al. 2019 found it to be the last cross-attention.
    """
    costs: dict[str, float] = {}  # by attention, the sum over its heads
    for head, change in zip(report.heads, report.importance.ablation, strict=True):
        costs[head.attention] = costs.get(head.attention, 0.0) + change.value
    costliest = max(costs, key=lambda name: costs[name])
    sentence = f"Silent heads cost most in {costliest}, {costs[costliest]:+.4f} nats a piece added up over its heads"
    last = [name for name in costs if name.endswith(".cross")][-1]
    if last == costliest:
        return f"{sentence}."
    return f"{sentence}; in the last cross-attention, {last}, {costs[last]:+.4f}."


def _relation_lines(report: HeadReport) -> Iterator[str]:
    """Yield for each row that may align the best head and, to compare with, the best fixed offset."""
    best: dict[str, tuple[float, int, FollowedRelation]] = {}
    for candidate in report.patterns.aligned:
        # The negative number makes the first of equally good heads the largest.
        share, number = max((share, -n) for n, share in enumerate(candidate.shares))
        if candidate.relation not in best or share > best[candidate.relation][0]:
            best[candidate.relation] = (share, -number, candidate)
    if not best:
        return
    alignments = "gold alignments" if report.gold else "alignments that this model makes itself"
    rows = [[f"aligned ({alignments})", "best head", "hits", "fixed offset", "hits", "instances"]]
    for relation, (share, head, candidate) in best.items():
        cells = [f"{candidate.offset:+d}", f"{candidate.baseline:.1%}", f"{candidate.instances:,}"]
        rows.append([relation, f"{candidate.attention}.{head}", f"{share:.1%}", *cells])
    yield from format_table(rows, "llrrrr")
    yield ""


def _curve_lines(report: HeadReport) -> Iterator[str]:
    """Yield the table of loss or score against heads kept, order by order."""
    # Heads that the curve may take away; all others stay.
    kinds = {"all": "heads", "encoder": "encoder heads", "decoder": "self-attention heads of the decoder"}
    counts = report.curves[0].kept
    title = f"{CURVES[report.curve]}, {kinds.get(report.among, 'cross-attention heads')} kept"
    rows = [[title, *(str(count) for count in counts)]]
    digits = 3 if report.curve == "loss" else 2
    rows += [[curve.order, *(f"{value:.{digits}f}" for value in curve.values)] for curve in report.curves]
    yield from format_table(rows, "l" + "r" * len(counts))


def head_objects(report: HeadReport) -> Iterator[dict[str, Any]]:
    """Yield an object for the study, one for each head, relation and curve, and one for the similarity of heads."""
    from pellucid.interpret.studies.head_studies import SIMILARITY
    from pellucid.interpret.studies.roles import RULES

    importance = report.importance
    yield {
        "kind": "study",
        "pairs": report.pairs,
        "loss": importance.loss,
        "spearman": importance.correlation,
        "marks": "EOS, the end token of the source, and BOS, the start token of the target, are left out, as queries "
        "and as keys",
        "rules": RULES,
        "notes": list(report.notes),
    }
    for n, pattern in enumerate(report.patterns.heads):
        yield {
            "kind": "head",
            **{key: value for key, value in asdict(pattern).items() if key != "head"},
            "attention": pattern.head.attention,
            "head": pattern.head.number,
            "silent": asdict(importance.ablation[n]),
            "gradient": importance.gradient[n],
            "normalised": importance.normalised[n],
            "roles": [asdict(badge) for badge in report.badges[pattern.head]],
        }
    yield from ({"kind": "aligned", **asdict(relation)} for relation in report.patterns.aligned)
    for curve in report.curves:
        yield {"kind": "curve", "of": report.curve, "among": report.among, **asdict(curve)}
    heads = [str(head) for head in report.heads]
    yield {"kind": "similarity", "measure": SIMILARITY, "heads": heads, "rows": report.patterns.similarity}


def _preferred_offset(offsets: "dict[int, QueryShare]") -> str:
    """Return the offset with the largest share of queries, and that share."""
    shares = [(share.value, -abs(d), d) for d, share in offsets.items() if share.value is not None]
    if not shares:
        return "-"
    value, _, d = max(shares)  # the nearer word goes first among equal shares
    return f"{d:+d} {value:4.0%}" if d else f"0 {value:4.0%}"


def _rare_word_cells(pattern: "HeadPatterns") -> list[str]:
    """Return the shares for the rarest and the two rarest pieces, with chance in brackets."""
    pairs = (pattern.rarest.value, pattern.rarest_chance), (pattern.two_rarest.value, pattern.two_rarest_chance)
    return ["-" if value is None or chance is None else f"{value:.0%} ({chance:.0%})" for value, chance in pairs]


def _format_number(value: float | None, digits: int) -> str:
    """Return a number with so many digits, or a dash for None and NaN."""
    # Only NaN differs from itself: Spearman's correlation of equal values, for one.
    return "-" if value is None or value != value else f"{value:.{digits}f}"
