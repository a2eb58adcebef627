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
from pellucid.cli.inspecting.study_views import MISSING, Column, column_lines
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
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    from pellucid.decode.alignment import Links
    from pellucid.interpret.studies.head_studies import HeadImportance, HeadPatterns, HeadStudy
    from pellucid.interpret.studies.importance import Head, LossChange, ScoreCurve
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
    "confidence: mean of the largest weights. entropy: of all weights, in nats. sink: share of the "
    "weight on EOS, the end token of the source; in decoder.*.self, on BOS, the start token. The "
    "other columns leave these tokens out, as queries and as keys.",
    "piece, word: the offset at which the largest weights are found most often, and how often. "
    "rarest, two: how often the largest weight is on the rarest piece, and on one of the two "
    "rarest, in sentences that have a rare piece; in brackets, how often by chance.",
    "silent: change of the loss, in nats a piece, when this head is silenced, and its standard "
    "error. gradient: E |dL/dxi|; unit: the same, scaled to length 1 in each attention.",
)

NO_RARE_PIECES = "No source piece here is outside the 500 commonest of the text that was counted; try --counts FILE."


def show_heads(
    model: Annotated[str, MODEL],
    source: Annotated[str, SOURCE],
    target: Annotated[str, TRANSLATIONS],
    counts: Annotated[
        str | None,
        file_option("text to count rare source pieces in; without it, they are counted in --source"),
    ] = None,
    alignments: Annotated[
        str | None,
        file_option("gold word alignments (0-0 1-2 ...); without them, the model's own are used"),
    ] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    document: Annotated[bool, DOCUMENT] = False,
    lines: Annotated[
        int,
        option("number of pairs to study, spread evenly over the files; 0: all", min=0),
    ] = 400,
    curve: Annotated[
        str, option("measure to draw against heads kept; for bleu, all is translated", "loss|bleu")
    ] = "loss",
    among: Annotated[
        str, option("heads that the curve silences; all others stay", "all|encoder|decoder|cross")
    ] = "all",
    badges: Annotated[
        str | None,
        file_option("write roles and importance of the heads as one JSON object"),
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Measure what each head does, and how much it matters.

    For every head show how confident it is, how much weight it gives to special tokens, and whether
    it reads a neighbour (-1, +1), rare words (R) or aligned words (A); how much the loss grows if
    it is silenced, and the gradient of the loss with respect to it. Then show the loss, or with
    --curve bleu the BLEU, against the number of heads kept, in the order of both kinds of
    importance and in a random order.

    EOS, the end token of the source, and BOS, the start token of the target, are left out, as
    queries and as keys; the weight that they get is shown separately, as sink. Loss is in nats per
    piece, with teacher forcing.
    """
    from pellucid.api import load
    from pellucid.decode.corpus_sources import join_document
    from pellucid.interpret.studies.head_studies import badges_object
    from pellucid.interpret.studies.importance import list_heads
    from pellucid.interpret.studies.pattern_measures import encode_study_pairs, spread_evenly

    if curve not in CURVES:
        choices = ", ".join(CURVES)
        raise ValueError(f"--curve {curve!r} cannot be drawn; choose one of {choices}")

    require_writable(plot, FIGURES)
    require_writable(badges)
    # Missing files are found now, not after minutes of
    # measuring; "-" stands for a file that was not named.
    for path in (counts, alignments):
        require_file(path or "-")

    sources, targets = read_file_pair(source, target)
    line_numbers = spread_evenly(sources, lines)
    gold = None if alignments is None else _read_gold_links(alignments, sources, targets)
    loaded = load(model, engine="torch", target_language=language)
    bundle = loaded.bundle
    sources = join_document(loaded.translator, sources) if document else sources

    # Refuses what is no kind of heads before anything is measured.
    list_heads(bundle.model.config, among)
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
    """Measure all heads' patterns and importance, and the curve over the heads of kind `among`."""
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
    # Loss advances with each batch; BLEU needs all
    # translations of a point, and advances with each point.
    points = len(orders) * len(counts_kept)

    with measurement_bar("curve", points * (steps if curve == "loss" else 1)) as advance:
        if curve == "loss":
            curves = study.loss_curves(transformer, pairs, orders, counts_kept, advance)
        else:
            curves = _bleu_curves(bundle, pairs, orders, counts_kept, advance)

    return HeadReport(
        patterns=patterns,
        importance=measured,
        badges=study.award_badges(patterns),
        curves=curves,
        curve=curve,
        among=among,
        gold=links is not None,
        pairs=len(pairs),
        notes=pairs.notes,
    )


def _read_gold_links(path: str, sources: Sequence[str], targets: Sequence[str]) -> "list[Links]":
    """Return the sure links of each pair.

    Raises ValueError, naming the line, if the file does not fit the pairs.
    """
    from pellucid.evaluate.alignment_rates import read_links, require_inside

    with name_file_in_errors(path):
        gold = read_links(read_sentences(path))
        if len(gold) != len(sources):
            counts = f"{len(gold):,} lines of links and {len(sources):,} pairs"
            raise ValueError(f"{counts}: each line aligns one pair")
        source_words = [text.split() for text in sources]
        target_words = [text.split() for text in targets]
        require_inside(gold, source_words, target_words)
    return [sorted(links) for links in gold.sure]


def _bleu_curves(
    bundle: "Bundle",
    pairs: "StudyPairs",
    orders: "Mapping[str, Sequence[Head]]",
    counts: Sequence[int],
    advance: Callable[[], object],
) -> "list[ScoreCurve]":
    """Return the BLEU of greedy translations with only so many first heads of each order kept."""
    from pellucid.data.source_profile import load_source_profile
    from pellucid.decode.corpus_sources import translate_sources
    from pellucid.decode.request import SearchConfig
    from pellucid.decode.translator import Translator
    from pellucid.evaluate.scores import corpus_scores
    from pellucid.interpret.studies.importance import ScoreCurve, silence_in_weights

    sources, references = zip(*pairs.texts, strict=True)
    profile = load_source_profile(bundle.directory, bundle.manifest)
    lowercase = bundle.tokenizer.lowercase

    def measure_bleu(silent: "frozenset[Head]") -> float:
        # Silent in the weights, so that everything else of a translation is as usual.
        silenced = silence_in_weights(bundle.model, sorted(silent))
        translator = Translator(silenced, bundle.tokenizer, profile=profile)
        translations = translate_sources(translator, sources, SearchConfig(beam=1))
        texts = [translation.text for translation in translations]
        return corpus_scores(texts, list(references), ["bleu"], lowercase)["bleu"]["score"]

    # With all heads or none, every order is the same, and is measured once.
    scores: dict[frozenset[Head], float] = {}
    curves = []
    for name, order in orders.items():
        values = []
        for count in counts:
            silent = frozenset(order[count:])
            if silent not in scores:
                scores[silent] = measure_bleu(silent)
            values.append(scores[silent])
            advance()
        curves.append(ScoreCurve(name, list(counts), values))

    return curves


@dataclass(frozen=True)
class HeadReport:
    """Everything a study of heads found.

    `gold` says whether alignments were given or are the model's own.
    """

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
        costs: dict[str, list[float]] = {}  # by attention
        marks: dict[str, list[str]] = {}
        for head, change in zip(self.heads, self.importance.ablation, strict=True):
            costs.setdefault(head.attention, []).append(change.value)
            mark = ",".join(badge.mark for badge in self.badges[head])
            marks.setdefault(head.attention, []).append(mark)

        return {
            "attentions": list(costs),
            "importance": list(costs.values()),
            "marks": list(marks.values()),
            "similarity": self.patterns.similarity,
            "curves": {curve.order: (curve.kept, curve.values) for curve in self.curves},
            "curve_name": CURVES[self.curve],
        }


@dataclass(frozen=True)
class HeadRow:
    """Everything that a study found of one head: a row of its table."""

    pattern: "HeadPatterns"
    silent: "LossChange"
    gradient: float
    normalised: float
    badges: "Sequence[Badge]"


def head_rows(report: HeadReport) -> Iterator[HeadRow]:
    """Yield what the study found, head by head."""
    importance = report.importance
    for n, pattern in enumerate(report.patterns.heads):
        yield HeadRow(
            pattern,
            importance.ablation[n],
            importance.gradient[n],
            importance.normalised[n],
            report.badges[pattern.head],
        )


HEAD_COLUMNS: "Sequence[Column[HeadRow]]" = (
    Column("head", lambda row: str(row.pattern.head), side="l"),
    Column("confidence", lambda row: _none_for_nan(row.pattern.confidence), ".2f"),
    Column("entropy", lambda row: _none_for_nan(row.pattern.entropy), ".2f"),
    Column("sink", lambda row: _none_for_nan(row.pattern.sink), ".2f"),
    Column("piece", lambda row: _preferred_offset(row.pattern.pieces)),
    Column("word", lambda row: _preferred_offset(row.pattern.words)),
    Column("rarest", lambda row: _beside_chance(row.pattern.rarest, row.pattern.rarest_chance)),
    Column("two", lambda row: _beside_chance(row.pattern.two_rarest, row.pattern.two_rarest_chance)),
    Column("silent", lambda row: row.silent.value, "+.4f"),
    Column("", lambda row: f"±{row.silent.error:.4f}"),
    Column("gradient", lambda row: row.gradient, ".4f"),
    Column("unit", lambda row: row.normalised, ".2f"),
    Column("roles", lambda row: " ".join(badge.mark for badge in row.badges) or None, side="l"),
)


def head_report_lines(report: HeadReport) -> Iterator[str]:
    """Yield the tables of the report."""
    loss = f"loss {report.importance.loss:.4f} nats a piece"
    yield f"{len(report.heads)} heads on {report.pairs:,} pairs, {loss}"
    yield from (f"note: {note}" for note in report.notes)
    yield ""

    yield from column_lines(head_rows(report), HEAD_COLUMNS)
    yield ""
    yield from LEGEND
    encoder = [p for p in report.patterns.heads if p.head.attention.startswith("encoder.")]
    if not any(pattern.rarest.queries for pattern in encoder):
        yield NO_RARE_PIECES

    yield ""

    yield from _relation_lines(report)
    gradient, unit = (_format_correlation(report.importance.correlation[name]) for name in ("gradient", "normalised"))
    yield (
        f"Spearman's correlation with what silence costs: gradient {gradient}, with length 1 in each attention {unit}."
    )
    yield _describe_costliest(report)
    yield ""

    yield from _curve_lines(report)
    yield ""
    yield from _badge_lines(report)


def _badge_lines(report: HeadReport) -> Iterator[str]:
    """Yield a line for each badge or, if there is none, the rules by which they are given."""
    from pellucid.interpret.studies.roles import RULES

    if not any(report.badges[head] for head in report.heads):
        yield "No head can be called anything by these rules:"
        yield from (f"  {mark}: {rule}" for mark, rule in RULES.items())
    for head in report.heads:
        for badge in report.badges[head]:
            yield f"{head}  {badge.mark}  {badge.says}"


def _describe_costliest(report: HeadReport) -> str:
    """Return a sentence on the attention whose heads cost most, each silent alone.

    Michel et al. 2019 found it to be the last cross-attention.
    """
    costs: dict[str, float] = {}  # by attention, the sum over its heads
    for head, change in zip(report.heads, report.importance.ablation, strict=True):
        costs[head.attention] = costs.get(head.attention, 0.0) + change.value
    costliest = max(costs, key=lambda name: costs[name])
    cost = f"{costs[costliest]:+.4f} nats a piece added up over its heads"
    sentence = f"Silent heads cost most in {costliest}, {cost}"
    last = [name for name in costs if name.endswith(".cross")][-1]
    if last == costliest:
        return f"{sentence}."
    return f"{sentence}; in the last cross-attention, {last}, {costs[last]:+.4f}."


@dataclass(frozen=True)
class BestHead:
    """Head of all attentions that follows a relation most often, and how often."""

    relation: "FollowedRelation"
    head: int
    share: float


RELATION_COLUMNS: "Sequence[Column[BestHead]]" = (
    Column("best head", lambda best: f"{best.relation.attention}.{best.head}", side="l"),
    Column("hits", lambda best: best.share, ".1%"),
    Column("fixed offset", lambda best: best.relation.offset, "+d"),
    Column("hits", lambda best: best.relation.baseline, ".1%"),
    Column("instances", lambda best: best.relation.instances, ","),
)


def _relation_lines(report: HeadReport) -> Iterator[str]:
    """Yield for each row that may align the best head and, beside it, the best fixed offset."""
    best: dict[str, BestHead] = {}
    for candidate in report.patterns.aligned:
        share = max(candidate.shares)
        head = candidate.shares.index(share)  # the first of equally good heads
        if candidate.relation not in best or share > best[candidate.relation].share:
            best[candidate.relation] = BestHead(candidate, head, share)

    if not best:
        return
    links = "gold alignments" if report.gold else "alignments that this model makes itself"
    name = Column[BestHead](f"aligned ({links})", lambda best: best.relation.relation, side="l")
    yield from column_lines(best.values(), [name, *RELATION_COLUMNS])
    yield ""


def _curve_lines(report: HeadReport) -> Iterator[str]:
    """Yield the table of loss or score against heads kept, order by order."""
    # Heads that the curve may take away; all others stay.
    kinds = {
        "all": "heads",
        "encoder": "encoder heads",
        "decoder": "self-attention heads of the decoder",
    }
    kind = kinds.get(report.among, "cross-attention heads")
    title = f"{CURVES[report.curve]}, {kind} kept"
    columns = [Column["ScoreCurve"](title, lambda curve: curve.order, side="l")]
    digits = ".3f" if report.curve == "loss" else ".2f"
    for n, count in enumerate(report.curves[0].kept):
        columns.append(Column(str(count), lambda curve, n=n: curve.values[n], digits))
    yield from column_lines(report.curves, columns)


def head_objects(report: HeadReport) -> Iterator[dict[str, Any]]:
    """Yield an object for the study, one for each head, relation and curve, and one for the similarity of heads."""
    from pellucid.interpret.studies.head_studies import SIMILARITY
    from pellucid.interpret.studies.roles import RULES

    yield {
        "kind": "study",
        "pairs": report.pairs,
        "loss": report.importance.loss,
        "spearman": report.importance.correlation,
        "marks": "EOS, the end token of the source, and BOS, the start token of the target, are "
        "left out, as queries and as keys",
        "rules": RULES,
        "notes": list(report.notes),
    }

    for row in head_rows(report):
        measures = asdict(row.pattern)
        del measures["head"]
        yield {
            "kind": "head",
            **measures,
            "attention": row.pattern.head.attention,
            "head": row.pattern.head.number,
            "silent": asdict(row.silent),
            "gradient": row.gradient,
            "normalised": row.normalised,
            "roles": [asdict(badge) for badge in row.badges],
        }

    for relation in report.patterns.aligned:
        yield {"kind": "aligned", **asdict(relation)}
    for curve in report.curves:
        yield {"kind": "curve", "of": report.curve, "among": report.among, **asdict(curve)}
    yield {
        "kind": "similarity",
        "measure": SIMILARITY,
        "heads": [str(head) for head in report.heads],
        "rows": report.patterns.similarity,
    }


def _preferred_offset(offsets: "dict[int, QueryShare]") -> str | None:
    """Return the offset with the largest share of queries, and that share."""
    shares = []
    for d, share in offsets.items():
        if share.value is not None:
            shares.append((share.value, -abs(d), d))  # of equal shares the nearer word goes first
    if not shares:
        return None
    value, _, d = max(shares)
    return f"{d:+d} {value:4.0%}" if d else f"0 {value:4.0%}"


def _beside_chance(share: "QueryShare", chance: float | None) -> str | None:
    """Return a share with the share by chance in brackets."""
    if share.value is None or chance is None:
        return None
    return f"{share.value:.0%} ({chance:.0%})"


def _none_for_nan(value: float | None) -> float | None:
    # Only NaN differs from itself.
    return None if value is None or value != value else value


def _format_correlation(value: float | None) -> str:
    """Return a correlation with two digits, or a dash for one of equal values, which is NaN."""
    number = _none_for_nan(value)
    return MISSING if number is None else f"{number:.2f}"
