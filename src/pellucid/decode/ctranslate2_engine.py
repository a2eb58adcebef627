"""The engine that runs a converted model in CTranslate2, and hands to torch what that cannot decide alike."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import fsum, isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.config import SearchConfig
from pellucid.decode.ctranslate2_query import CTranslate2Query, rank_like_beam_search
from pellucid.decode.hypothesis import Hypothesis, length_divisor
from pellucid.decode.request import CLOSE_CALL, SearchBounds, SearchRequest
from pellucid.interop.conversion_cache import converted_directory
from pellucid.interop.ctranslate2_library import import_ctranslate2, precision_of
from pellucid.lazy_bundle import LazyBundle

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.decode.torch_engine import TorchEngine

BATCHES_PER_WORKER = 4
"""Batches under way for each worker."""

BATCH_SIZES = {"int8": 32}
"""Sentences for which a worker is quickest, by precision; 64 in the others."""


class CTranslate2Engine:
    """Finds what `TorchEngine` finds, in float32 the same pieces, several times faster; `log_probs` are left empty.

    CTranslate2 ranks otherwise, knows one limit for a batch and few rules. So it is asked for all hypotheses, and they
    are ranked here. A request goes to `fallback`, alone, if a forbidden piece was written, if the scores that decide it
    are a close call in float32 (in other precisions the same text is not promised), or if it is not plain or does not
    end within its limit; but of a greedy search every beginning is what a search with a lower limit finds, and a piece
    that may not follow changes no other choice: that one is cut here, searched without repeats there, and has its
    log-probability from a pass over what was found. So is the best of a beam where the same text is not promised.

    One difference is left: forbidden pieces take part in the search, where the torch engine has none. (CTranslate2 can
    leave them out only by giving their probability to others, which changes every score.) Where one drives another
    hypothesis out of the beam and then falls out itself, nothing shows.
    """

    def __init__(
        self,
        directory: str | Path,
        tokenizer: Tokenizer,
        bounds: SearchBounds,
        fallback: "Callable[[], TorchEngine]",
        *,
        shortlist: bool = False,
        workers: int | None = None,
        threads: int = 1,
    ):
        """`directory` is what `convert` wrote; `shortlist` uses the `vmap` it was given; `bounds` are `fallback`'s.

        Unless told otherwise, a worker for each processor and one thread for each worker: fastest for many sentences.
        Raises ValueError for a directory that CTranslate2 does not load, and where it is not installed.
        """
        self.source_names = tokenizer.source_names
        self.target_names = targets = tokenizer.target_names
        self.ids = {piece: i for i, piece in enumerate(targets)}
        self.end = targets[EOS]
        self.forbidden = frozenset(targets[i] for i in bounds.forbidden)
        self.bounds = bounds
        self.fallback = fallback
        self.shortlist = shortlist
        self.threads = threads
        self.workers = workers or count_processors()
        self.translator = load_translator(Path(directory), self.workers, threads)
        precision = self.translator.compute_type.partition("_")[0]
        self.batch_size = BATCH_SIZES.get(precision, 64)
        self.same_text = precision == "float32"

    @classmethod
    def for_bundle(
        cls,
        found: "Bundle | LazyBundle",
        bounds: SearchBounds,
        fallback: "Callable[[], TorchEngine]",
        precision: str = "float32",
        **options: Any,
    ) -> "CTranslate2Engine":
        """The engine for a model directory, converted now or before; `options` are those of the engine."""
        try:
            return cls(converted_directory(found, precision), found.tokenizer, bounds, fallback, **options)
        except ValueError:
            # Another process may have taken it for outdated and removed it just then. What is really wrong is so twice.
            return cls(converted_directory(found, precision), found.tokenizer, bounds, fallback, **options)

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """For each request its hypotheses, best first: at least one, at most `config.n_best`."""
        return self.submit(requests, config)()

    def search_all(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """As `search`, batch by batch in their order; some are under way at once, so that no worker is idle.

        Not all: what is asked for between two batches is to come before the last.
        """
        rest = iter(batches)
        begun = deque(self.submit(batch, config) for batch in islice(rest, BATCHES_PER_WORKER * self.workers))

        def found() -> Iterator[list[list[Hypothesis]]]:
            while begun:
                done = begun.popleft()()
                begun.extend(self.submit(batch, config) for batch in islice(rest, 1))
                yield done

        return found()

    def submit(self, requests: Sequence[SearchRequest], config: SearchConfig) -> Callable[[], list[list[Hypothesis]]]:
        """Begin to search, and return at once; what is returned waits, when called, and gives what `search` would."""
        limits = {
            i: self.bounds.max_pieces(each, config) for i, each in enumerate(requests) if self.can_search(each, config)
        }
        question = CTranslate2Query.for_config(config, max(limits.values(), default=1))
        answers: dict[int, Any] = {}
        for no_repeat in {requests[i].no_repeat for i in limits}:
            some = [i for i in limits if requests[i].no_repeat == no_repeat]
            answers.update(
                zip(some, self.begin_batch([requests[i].source for i in some], question, no_repeat), strict=True)
            )

        def found() -> list[list[Hypothesis]]:
            sure = {i: self.decide(answers[i].result(), question, limits[i], config) for i in limits}
            if self.can_truncate(config):
                cut = {
                    i: [*each[0].tokens, EOS] if each else self.truncate(answers[i].result(), limits[i])
                    for i, each in sure.items()
                    if not each or requests[i].no_repeat
                }
                if some := {i: each for i, each in cut.items() if each}:
                    sure |= self.score_truncated(requests, some, config)
            unsure = [i for i in range(len(requests)) if not sure.get(i)]
            if unsure:
                rest = self.fallback().search([requests[i] for i in unsure], config)
                sure |= dict(zip(unsure, rest, strict=True))
            return [sure[i] or [] for i in range(len(requests))]

        return found

    def can_search(self, request: SearchRequest, config: SearchConfig) -> bool:
        """Whether CTranslate2 can search for this at all; for a source of nothing but the end mark it does not."""
        return (
            not (request.prefix or request.terms or (request.no_repeat and not self.can_truncate(config)))
            and config.method != "sample"
            and 1 < len(request.source) <= self.bounds.longest
            and 2 * config.beam <= len(self.ids)
        )

    def can_truncate(self, config: SearchConfig) -> bool:
        """Whether CTranslate2 says well enough what begins a text and how one goes on without repeats."""
        greedy = config.method == "greedy" or config.beam == 1
        return greedy or (config.n_best == 1 and not self.same_text)

    def begin_batch(self, sources: list[list[int]], question: CTranslate2Query, no_repeat: int) -> list[Any]:
        """What is under way for each source; nothing is cut and nothing replaced."""
        if not sources:
            return []
        names = self.source_names
        return self.translator.translate_batch(
            [[names[i] for i in source] for source in sources],
            **question.as_options(),
            asynchronous=True,
            no_repeat_ngram_size=no_repeat,
            max_batch_size=len(sources),
            max_input_length=0,
            min_decoding_length=0,
            return_end_token=True,
            use_vmap=self.shortlist,
        )

    def decide(
        self, answer: Any, question: CTranslate2Query, limit: int, config: SearchConfig
    ) -> list[Hypothesis] | None:
        """The best `n_best`, if they are sure to be those that `beam_search` returns."""
        texts = answer.hypotheses
        if not all(texts):
            return None
        lengths = [len(text) for text in texts]
        scores = answer.scores or [nan] * len(texts)
        log_probs = [score * n**question.exponent for score, n in zip(scores, lengths, strict=True)]
        ended = [text[-1:] == [self.end] for text in texts]
        if not all(map(self.forbidden.isdisjoint, texts)):
            return None
        order = rank_like_beam_search(
            lengths, log_probs, ended, question, limit, config, CLOSE_CALL if self.same_text else 0.0
        )
        if order is None:
            return None
        return [
            Hypothesis(
                [self.ids[piece] for piece in texts[i][:-1]],
                log_probs[i] / length_divisor(lengths[i], config.length_penalty),
                log_probs[i],
                "eos",
                [],
            )
            for i in order
        ]

    def truncate(self, answer: Any, limit: int) -> list[int] | None:
        """The most likely pieces within this limit, the end mark too if it was written; None if one may not be.

        Of a greedy search they are what a search with this limit finds.
        """
        text = answer.hypotheses[0][:limit]
        if not text or not self.forbidden.isdisjoint(text):
            return None
        return [self.ids[piece] for piece in text]

    def score_truncated(
        self, requests: Sequence[SearchRequest], found: dict[int, list[int]], config: SearchConfig
    ) -> dict[int, list[Hypothesis]]:
        """What was found for these requests, with its log-probability where that is wanted."""
        if not config.scores:
            return {number: [make_hypothesis(ids, nan, config)] for number, ids in found.items()}
        # CTranslate2 reads a text whole and adds an end mark, for which the longest there is has no position left.
        read = {number: [self.target_names[i] for i in ids if i != EOS] for number, ids in found.items()}
        short = [number for number, names in read.items() if len(names) < self.bounds.longest]
        long = [number for number in found if number not in short]
        sources = [[self.source_names[i] for i in requests[number].source] for number in short]
        passes = self.translator.score_batch(sources, [read[number] for number in short], max_input_length=0)
        log_probs = {number: each.log_probs for number, each in zip(short, passes, strict=True)}
        if long:
            exact = self.fallback().log_probs([requests[i].source for i in long], [found[i] for i in long])
            log_probs.update(zip(long, exact, strict=True))
        totals = {number: fsum(log_probs[number][: len(ids)]) for number, ids in found.items()}
        return {n: [make_hypothesis(ids, totals[n], config)] for n, ids in found.items() if isfinite(totals[n])}


def make_hypothesis(ids: list[int], log_prob: float, config: SearchConfig) -> Hypothesis:
    """One of these pieces, the end mark last if it was written."""
    ended = ids[-1] == EOS
    score = log_prob / length_divisor(len(ids), config.length_penalty)
    return Hypothesis(ids[:-1] if ended else ids, score, log_prob, "eos" if ended else "length", [])


def load_translator(directory: Path, workers: int, threads: int) -> Any:
    """CTranslate2's translator for a directory; in float32 where this processor has no use for what is stored."""
    library, precision = import_ctranslate2(), precision_of(directory)
    kind = precision if precision in library.get_supported_compute_types("cpu") else "float32"
    try:
        return library.Translator(
            str(directory), compute_type=kind, inter_threads=workers, intra_threads=threads, max_queued_batches=-1
        )
    except RuntimeError as error:
        raise ValueError(f"CTranslate2 does not load {directory}: {error}") from None


def count_processors() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
