"""Lines of text in, translations out: prepares, groups by length, searches, and puts everything back in order."""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from math import fsum, isfinite
from typing import TYPE_CHECKING, TypeVar

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.assemble import SearchResult, Translation, assemble_translation
from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import FORBIDDEN, Hypothesis, require_finite
from pellucid.decode.line_preparation import LengthLimits, PreparedLine, Segment, prepare_lines, refuse_long_lines
from pellucid.decode.prefix import refuse_long_prefixes
from pellucid.decode.repetition_retry import choose_retried, forbid_repeats, needs_retry
from pellucid.decode.request import Engine, SearchBounds, SearchRequest
from pellucid.decode.required_terms import explain_no_room
from pellucid.decode.terms import Terms
from pellucid.decode.word_edges import Links, WordEdges
from pellucid.lazy_bundle import LazyBundle

if TYPE_CHECKING:
    from pellucid.decode.term_placement import TermAlignment
    from pellucid.decode.torch_engine import TorchEngine
    from pellucid.model import Transformer

LARGE_BLOCK = 512
"""Lines of a block from which on the next are begun early: whoever wants each answer at once asks for few."""

BLOCKS_AHEAD = 2
"""Blocks begun before one is handed on: while the last lines of one are searched again, the engine has the other."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Score:
    """What the model thinks of a given translation: a logarithm for each piece and the end mark, and their sum."""

    log_prob: float
    pieces: list[str]
    per_piece: list[float]


class Translator:
    """A model, or several that translate together, and their tokenizer. It keeps nothing between calls.

    `trained` is the most source pieces the model has been trained on: what is longer is split at sentence ends. Of a
    model that is `LazyBundle` the weights stay so, and torch is not imported, until something is asked that needs them:
    another `engine` put in the place of the torch engine may answer most.
    """

    def __init__(
        self,
        model: "Transformer | LazyBundle",
        tokenizer: Tokenizer,
        *others: "Transformer",
        trained: int | None = None,
    ):
        self.models_or_bundles = [model, *others]
        self.is_ensemble = bool(others)
        self.threads: int | None = None
        """Those torch gets beside an engine whose workers keep the processors busy; None leaves it what it has.

        With more it takes four times as long there, for its threads wait for one another by spinning.
        """
        self.tokenizer = tokenizer
        # One line in, one line out: the byte that would end the line is never written.
        forbidden = FORBIDDEN + tuple(i for i, piece in enumerate(tokenizer.target_names) if piece == "<0x0A>")
        self.bounds = SearchBounds(min(each.config.max_positions for each in self.models_or_bundles), forbidden)
        self.lengths = LengthLimits(min(trained or self.bounds.longest, self.bounds.longest), self.bounds.longest)

    @cached_property
    def word_edges(self) -> WordEdges:
        """What the pieces are of words, for searches that must begin with something or have something in them."""
        return WordEdges.of(self.tokenizer)

    @cached_property
    def models(self) -> "list[Transformer]":
        """The models themselves."""
        return [each.model if isinstance(each, LazyBundle) else each for each in self.models_or_bundles]

    @cached_property
    def torch(self) -> "TorchEngine":
        """The engine that runs them, and does all that no other can."""
        import torch

        from pellucid.decode.torch_engine import TorchEngine

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return TorchEngine(self.models, self.bounds.forbidden, self.word_edges)

    @cached_property
    def engine(self) -> Engine:
        """What searches: torch, unless another engine was put in its place."""
        return self.torch

    def inference(self) -> AbstractContextManager[None]:
        """As the function; a model whose weights still wait is in no training."""
        waits = any(isinstance(each, LazyBundle) and each.is_unloaded for each in self.models_or_bundles)
        return nullcontext() if waits else inference_only(*self.models)

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        progress: Callable[[int], None] | None = None,
        first_line: int = 1,
        *,
        terms: Terms | None = None,
        prefixes: Sequence[str] | None = None,
    ) -> list[Translation]:
        """One translation for each line, in their order; a blank line stays as it is, with stop = "empty".

        So does one that cannot be translated as asked, with stop = "failed" and the reason in its notes.

        `progress` hears how many lines are done. Lines are counted from `first_line`: that number is what an error
        names, and what the draws of sampling depend on together with the seed. The translation of a line has what
        `terms` ask of it (`search_with_terms` says where), and begins with its text of `prefixes`. ValueError, naming
        the lines, for those that the model cannot take, and for weights that are no numbers.
        """
        return self.begin_translation(lines, config, progress, first_line, terms, prefixes)()

    def begin_translation(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        progress: Callable[[int], None] | None,
        first_line: int,
        terms: Terms | None,
        prefixes: Sequence[str] | None,
    ) -> Callable[[], list[Translation]]:
        """Prepare the lines and set the engine to work; what is returned waits, and gives what `translate` does."""
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(
                f"{len(lines)} lines and {len(prefixes)} prefixes: each line needs its own, or an empty one"
            )
        prepared = prepare_lines(lines, first_line, self.tokenizer, self.lengths, config, terms, prefixes)
        parts = [part for line in prepared for part in line.segments]
        limit = partial(self.bounds.max_pieces, config=config)
        asked = [part.request for part in parts]
        refuse_long_prefixes((each.number, each.prefix, limit(each)) for each in asked if each.prefix)
        no_room = [
            explain_no_room(each.prefix, each.terms, limit(each), self.word_edges) if each.terms else ""
            for each in asked
        ]
        fits = [i for i, reason in enumerate(no_room) if not reason]
        done = LineProgress(prepared, progress)
        with self.inference():
            searched = self.begin_search([parts[i] for i in fits], config, lambda n: done(fits[n]))

        def finish() -> list[Translation]:
            found = [SearchResult([], notes=(reason,) if reason else ()) for reason in no_room]
            for i, reason in enumerate(no_room):
                if reason:
                    done(i)
            with self.inference():
                for i, each in zip(fits, searched(), strict=True):
                    found[i] = each if each.hypotheses else self.explain_failure(parts[i])
                found = self.add_alignments(parts, self.add_texts(found), config)
            rest = iter(found)
            return [
                assemble_translation(line, [next(rest) for _ in line.segments], self.tokenizer, config)
                for line in prepared
            ]

        return finish

    def explain_failure(self, part: Segment) -> SearchResult:
        """What is said of a part for which no search found anything; ValueError where weights are no numbers."""
        if part.request.terms or part.request.prefix:
            return SearchResult([], notes=("no translation was found that has its terms and begins as it must",))
        self.refuse_damaged()
        return SearchResult([], notes=("the model gives no translation of it a probability",))

    def refuse_damaged(self) -> None:
        """ValueError for weights that are infinite or no numbers."""
        from pellucid.weights import refuse_non_finite

        for model in self.models:
            refuse_non_finite(dict(model.named_parameters()), "the model is damaged: it")

    def begin_search(
        self, parts: Sequence[Segment], config: SearchConfig, done: Callable[[int], None] = lambda _: None
    ) -> Callable[[], list[SearchResult]]:
        """Set the engine to work; what is returned gives what is found for each part, terms in more than one search.

        What goes round in circles is searched again, and while the engine still has others to search for.
        """
        plain = [i for i, part in enumerate(parts) if not part.request.terms]
        others = [i for i, part in enumerate(parts) if part.request.terms]
        retried: list[tuple[list[int], Callable[[], list[list[Hypothesis]]]]] = []

        def arrived(some: dict[int, list[Hypothesis]]) -> None:
            circles = [plain[n] for n, each in some.items() if needs_retry(parts[plain[n]], each, config)]
            if circles:
                requests = [forbid_repeats(parts[i]).request for i in circles]
                retried.append((circles, self.begin_requests(requests, config)))
            for n in some:
                done(plain[n])

        searched = self.begin_requests([parts[i].request for i in plain], config, arrived)

        def finish() -> list[SearchResult]:
            found = dict(zip(plain, map(SearchResult, searched()), strict=True))
            found |= dict(
                zip(others, map(SearchResult, self.search_with_terms([parts[i] for i in others], config)), strict=True)
            )
            turned = [i for i in others if needs_retry(parts[i], found[i].hypotheses, config)]
            retried.append(
                (turned, partial(self.search_with_terms, [forbid_repeats(parts[i]) for i in turned], config))
            )
            for i in others:
                done(i)
            for circles, search in retried:
                found |= {i: choose_retried(found[i], each) for i, each in zip(circles, search(), strict=True)}
            return [found[i] for i in range(len(parts))]

        return finish

    def search_requests(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """What the engine finds for each request."""
        return self.begin_requests(requests, config)()

    def begin_requests(
        self,
        requests: Sequence[SearchRequest],
        config: SearchConfig,
        arrived: Callable[[dict[int, list[Hypothesis]]], None] = lambda _: None,
    ) -> Callable[[], list[list[Hypothesis]]]:
        """Set the engine to work; what is returned gives what it finds for each request.

        Equal requests are searched once: the answer does not depend on what stands beside them. `arrived` is told what
        each batch found, by the places of the requests, as soon as that is known.
        """
        equal: dict[Hashable, list[int]] = {}
        for i, each in enumerate(requests):
            equal.setdefault(i if config.method == "sample" else each.search_key, []).append(i)
        places = [*equal.values()]
        sizes = {n: len(requests[some[0]].source) for n, some in enumerate(places)}
        order = list(batch_by_length(sizes, config.batch or self.engine.batch_size, config.batch_tokens))
        searched = self.engine.search_all([[requests[places[n][0]] for n in batch] for batch in order], config)

        def finish() -> list[list[Hypothesis]]:
            found: dict[int, list[Hypothesis]] = {}
            for batch, several in zip(order, searched, strict=True):
                some = {i: each for n, each in zip(batch, several, strict=True) for i in places[n]}
                arrived(some)
                found |= some
            return [found[i] for i in range(len(requests))]

        return finish

    def search_with_terms(self, parts: Sequence[Segment], config: SearchConfig) -> list[list[Hypothesis]]:
        """The hypotheses of parts that have terms, with these in their places."""
        if not parts:
            return []
        from pellucid.decode.term_placement import search_with_terms

        search, align = partial(self.search_requests, config=config), partial(self.align_terms, config=config)
        return search_with_terms(parts, search, align, self.word_edges)

    def align_terms(
        self, parts: Sequence[Segment], targets: Sequence[list[int]], config: SearchConfig
    ) -> "list[TermAlignment]":
        """Which words of each translation are aligned with the sources of its terms."""
        from pellucid.decode.term_placement import align_terms

        sizes = {i: max(len(part.request.source), len(targets[i]) + 1) for i, part in enumerate(parts)}
        found: dict[int, TermAlignment] = {}
        for batch in batch_by_length(sizes, config.batch or self.torch.batch_size, tokens=4096):
            some = [parts[i] for i in batch], [targets[i] for i in batch]
            found.update(zip(batch, align_terms(self.models[0], self.tokenizer, *some), strict=True))
        return [found[i] for i in range(len(parts))]

    def add_texts(self, found: Sequence[SearchResult]) -> list[SearchResult]:
        """With the texts of the hypotheses."""
        texts = iter(self.tokenizer.decode_targets([one.tokens for each in found for one in each.hypotheses]))
        return [replace(each, texts=[next(texts) for _ in each.hypotheses]) for each in found]

    def add_alignments(
        self, parts: Sequence[Segment], found: list[SearchResult], config: SearchConfig
    ) -> list[SearchResult]:
        """With word alignments, where they were asked for or tags need them."""
        wanted = [i for i, part in enumerate(parts) if config.alignments or part.marked.tags]
        if not wanted:
            return found
        from pellucid.decode.alignment import align_sentences

        rows = [(i, each, text) for i in wanted for each, text in zip(found[i].hypotheses, found[i].texts, strict=True)]
        sizes = {n: max(len(parts[i].request.source), len(each.tokens) + 1) for n, (i, each, _) in enumerate(rows)}
        links: dict[int, Links] = {}
        for batch in batch_by_length(sizes, config.batch or self.torch.batch_size, tokens=4096):
            targets = [[*rows[n][1].tokens, *[EOS] * (rows[n][1].stop == "eos")] for n in batch]
            aligned = align_sentences(
                self.models[0],
                self.tokenizer,
                [parts[rows[n][0]].request.source for n in batch],
                targets,
                [parts[rows[n][0]].marked.text for n in batch],
                [rows[n][2] for n in batch],
            )
            links.update(zip(batch, aligned, strict=True))
        each = iter(links[n] for n in range(len(rows)))
        for i in wanted:
            found[i] = replace(found[i], links=[next(each) for _ in found[i].hypotheses])
        return found

    def translate_stream(
        self,
        lines: Iterable[str],
        config: SearchConfig,
        block: int = 2048,
        *,
        terms: Terms | None = None,
        prefixes: Iterable[str] | None = None,
    ) -> Iterator[Translation]:
        """As `translate`, for any number of lines: reads `block` of them, translates them, hands them on.

        Of large blocks the next two are read and begun before one is handed on, so that the engine is never idle.
        """
        rest = iter(lines)
        beginnings = None if prefixes is None else iter(prefixes)

        def begun() -> Iterator[Callable[[], list[Translation]]]:
            first_line = 1
            while some := list(islice(rest, block)):
                of_some = None if beginnings is None else list(islice(beginnings, len(some)))
                yield self.begin_translation(some, config, None, first_line, terms, of_some)
                first_line += len(some)

        for finish in read_ahead(begun(), BLOCKS_AHEAD) if block >= LARGE_BLOCK else begun():
            yield from finish()

    def score(self, sources: Sequence[str], targets: Sequence[str], batch: int) -> list[Score]:
        """The model's log-probability of each target given its source, all positions in one pass, in their order.

        ValueError for unequal numbers of lines, and, naming them, for lines with more pieces than the model takes.
        """
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets: each source needs its target")
        read, written = self.tokenizer.encode_source(sources), self.tokenizer.encode_target(targets)
        for side, ids in (("source", read), ("target", written)):
            refuse_long_lines(side, dict(enumerate(map(len, ids), 1)), self.lengths.most)
        sizes = {i: max(len(read[i]), len(written[i])) for i in range(len(read))}
        scores: dict[int, Score] = {}
        with self.inference():
            # Each position holds logits for the whole vocabulary, hence the small budget.
            for chosen in batch_by_length(sizes, batch or self.torch.batch_size, tokens=4096):
                asked = [read[i] for i in chosen], [written[i] for i in chosen]
                for i, each in zip(chosen, self.torch.log_probs(*asked), strict=True):
                    log_prob = fsum(each)
                    if not isfinite(log_prob):
                        self.refuse_damaged()
                    log_prob = require_finite(log_prob, f"line {i + 1}")
                    scores[i] = Score(log_prob, self.tokenizer.target_pieces(written[i]), each)
        return [scores[i] for i in range(len(read))]


class LineProgress:
    """Counts the lines all of whose parts are done, and tells `progress` when there are more."""

    def __init__(self, prepared: Sequence[PreparedLine], progress: Callable[[int], None] | None):
        self.progress = progress
        self.line_of = [number for number, line in enumerate(prepared) for _ in line.segments]
        self.left = Counter(self.line_of)
        self.lines = sum(not line.segments for line in prepared)

    def __call__(self, part: int) -> None:
        number = self.line_of[part]
        self.left[number] -= 1
        if not self.left[number]:
            self.lines += 1
            if self.progress is not None:
                self.progress(self.lines)


def batch_by_length(lengths: Mapping[int, int], sentences: int, tokens: int) -> Iterator[list[int]]:
    """The keys of `lengths`, longest first: at most so many a batch, and so many pieces with padding, but at least one.

    >>> list(batch_by_length({10: 2, 11: 5, 12: 2, 13: 4, 14: 1}, sentences=3, tokens=9))
    [[11], [13, 10], [12, 14]]
    """
    order = sorted(lengths, key=lambda i: -lengths[i])
    at = 0
    while at < len(order):
        count = max(1, min(sentences, tokens // lengths[order[at]]))
        yield order[at : at + count]
        at += count


def read_ahead(items: Iterable[Item], count: int) -> Iterator[Item]:
    """The same items, `count` more taken before one is handed on; what goes wrong in taking one comes after them all.

    >>> taken = iter([1, 2, 3, 4])
    >>> next(read_ahead(taken, 2)), next(taken)
    (1, 4)
    """
    held: deque[Item] = deque()
    try:
        for item in items:
            held.append(item)
            if len(held) > count:
                yield held.popleft()
    except Exception:
        yield from held
        raise
    yield from held


@contextmanager
def inference_only(*models: "Transformer") -> Iterator[None]:
    """No dropout and no gradients; a model that was in training is so again afterwards."""
    import torch

    training = [model for model in models if model.training]
    for model in training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for model in training:
            model.train()
