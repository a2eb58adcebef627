"""CTranslate2 engine; requests whose result could differ from torch's fall back to torch."""

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import fsum, inf, isfinite, log10, nan
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from pellucid.cpu import count_processors
from pellucid.data.tokenizer import EOS, Tokenizer, strip_eos
from pellucid.decode.request import (
    CLOSE_CALL,
    Hypothesis,
    SearchBounds,
    SearchConfig,
    SearchRequest,
    continue_always,
    length_divisor,
)
from pellucid.interop.conversion_cache import converted_directory
from pellucid.interop.ctranslate2_library import (
    GPU_PRECISIONS,
    VOCABULARY_MAP,
    adds_source_end,
    import_ctranslate2,
    load_cublas,
    precision_of,
    split_device,
)
from pellucid.interop.shortlists import OfferedPieces, read_vmap
from pellucid.store.directory import Bundle

if TYPE_CHECKING:
    from pellucid.decode.torch_engine import TorchEngine

BATCHES_PER_WORKER = 4  # batches submitted at a time for each worker
# Sentences in a batch at which a worker is fastest, by precision; 64 in the other precisions.
BATCH_SIZES = {"int8": 32}
# A GPU takes about as long for many sentences as for few: its time goes to starting kernels.
GPU_BATCH_SIZE = 256


class CTranslate2Engine:
    """Engine with the results of `TorchEngine`, in float32 the same tokens, several times faster, without `log_probs`.

    CTranslate2 ranks hypotheses differently, has one length limit for a batch, and few
    rules. So it is asked for all hypotheses, and they are ranked here. A request goes to
    `fallback`, alone, if a forbidden token was written, if the scores that decide it are a
    close call in float32 (in other precisions the same text is not promised), if it has a
    prefix, or if a text does not end within its limit.

    Two kinds of request can be cut here instead: requests for a greedy search, and for the best of
    a beam where the same text is not promised. Every beginning of a greedy text is what a search
    with a lower limit finds, and a token that may not follow changes no other choice. Their
    log-probability comes from one more pass over the text.

    One difference is left: forbidden tokens take part in the search, where the torch
    engine has none. (CTranslate2 can leave them out only by giving their probability to
    others, which changes every score.) Where one drives another hypothesis out of the beam
    and then falls out itself, nothing shows.

    With a shortlist the text is found by a search among the pieces that it offers to the
    sentence itself. CTranslate2 offers each sentence what the shortlist has for any sentence
    of its batch. So a beam search gets a batch of its own for each sentence; a greedy search
    only where its text has a piece that was offered to a neighbour, for without one every
    piece was the likeliest of its own too. CTranslate2's probabilities of a shortlist's
    pieces add up to 1, so scores come from one more pass over the text, among all pieces.
    Lists of `n_best` are searched among all pieces.
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
        device: str = "cpu",
        compute_type: str | None = None,
    ):
        """Load the model that `convert` wrote to `directory`; `fallback` returns an engine with the same `bounds`.

        `shortlist` uses the `vmap` that `convert` was given; the texts then differ from the texts
        of `TorchEngine`. Without `workers` there is one for each processor, and one for a GPU.
        `device` is "cpu", "cuda", or one of several GPUs such as "cuda:1"; `compute_type` is what
        it computes in, by default the precision of the directory. Raises ValueError for a directory
        that CTranslate2 does not load or run there, and where CTranslate2 is not installed.
        """
        self.source_names = tokenizer.source_names
        self.target_names = pieces = tokenizer.target_names
        # CTranslate2 takes and returns pieces, not ids.
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.end = pieces[EOS]
        self.forbidden = frozenset(pieces[i] for i in bounds.forbidden)
        self.bounds = bounds
        self.fallback = fallback
        self.threads = threads
        is_gpu = device != "cpu"
        # With one thread each this is fastest for many sentences. Workers of a GPU would share it.
        self.workers = workers or (1 if is_gpu else count_processors())

        self.translator = load_translator(
            Path(directory), self.workers, threads, device, compute_type
        )
        self.adds_source_end = adds_source_end(Path(directory))
        self.offered: OfferedPieces | None = (
            read_vmap(Path(directory) / VOCABULARY_MAP) if shortlist else None
        )
        precision = self.translator.compute_type.partition("_")[0]
        self.batch_size = GPU_BATCH_SIZE if is_gpu else BATCH_SIZES.get(precision, 64)
        self.same_text = precision == "float32"
        if is_gpu:
            self._require_gpu_translation(device)

    def _require_gpu_translation(self, device: str) -> None:
        """Translate one piece, and raise ValueError with the reason where the GPU cannot.

        CTranslate2 looks for NVIDIA's libraries only when it multiplies matrices, so that a model
        is loaded also where none of them is there.
        """
        try:
            self.translator.translate_batch(
                [self.source_names[-1:]], beam_size=1, max_decoding_length=1
            )
        except RuntimeError as error:
            raise ValueError(
                f"CTranslate2 cannot translate on {device}: {error}; it needs CUDA 12's cuBLAS: "
                "pip install nvidia-cublas-cu12, or take engine = 'torch'"
            ) from None

    @classmethod
    def for_bundle(
        cls,
        bundle: Bundle,
        bounds: SearchBounds,
        fallback: "Callable[[], TorchEngine]",
        precision: str = "float32",
        **options: Any,
    ) -> "CTranslate2Engine":
        """Make the engine for a model directory, converted now or before; `options` are passed on to the engine."""

        stored = GPU_PRECISIONS.get(precision, precision)

        def load() -> "CTranslate2Engine":
            directory = converted_directory(bundle, stored)
            return cls(
                directory, bundle.tokenizer, bounds, fallback, compute_type=precision, **options
            )

        try:
            return load()
        except ValueError:
            # Another process may have taken it for outdated and removed it just then. A real fault
            # shows twice.
            return load()

    def search(
        self, requests: Sequence[SearchRequest], config: SearchConfig
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, best first: at least one, at most `config.n_best`."""
        return self.submit(requests, config).finish()

    def search_all(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """Search batch by batch, in order, with several batches submitted at a time, so that no worker is idle."""
        remaining = iter(batches)
        # Not all at once: what another thread asks for meanwhile shall not wait for the last of
        # them.
        first = islice(remaining, BATCHES_PER_WORKER * self.workers)
        submitted = deque(self.submit(batch, config) for batch in first)
        while submitted:
            result = submitted.popleft().finish()

            # What the others need besides is submitted before the next batch, and ready when it is
            # their turn.
            for batch in submitted:
                batch.advance()
            submitted.extend(self.submit(batch, config) for batch in islice(remaining, 1))
            yield result

    def submit(self, requests: Sequence[SearchRequest], config: SearchConfig) -> "SubmittedBatch":
        """Start a search and return at once."""
        return SubmittedBatch(self, requests, config)

    def search_in_stages(
        self, requests: Sequence[SearchRequest], config: SearchConfig
    ) -> Generator[Sequence[Any], None, dict[int, list[Hypothesis]]]:
        """Submit what CTranslate2 is asked, stage by stage, and yield what is to be waited for before the next.

        Returns the hypotheses of each request, by its index, as far as CTranslate2 can decide them.
        """
        limits: dict[int, int] = {}
        # What is asked together: the n-gram size is one for a batch, and with a shortlist a beam
        # search has a batch of its own.
        groups: dict[Hashable, list[int]] = {}
        is_alone = self.uses_shortlist(config) and not is_greedy(config)
        for i, request in enumerate(requests):
            if self.can_search(request, config):
                limits[i] = self.bounds.max_pieces(request, config)
                groups.setdefault(("alone", i) if is_alone else request.no_repeat, []).append(i)

        questions: dict[int, Question] = {}
        for group in groups.values():
            questions |= self.ask(group, requests, limits, config)
        yield [question.answer for question in questions.values()]

        answers = {i: question.answer.result() for i, question in questions.items()}
        again: dict[int, Question] = {}
        for i, answer in answers.items():
            if self.depends_on_batch(answer, questions[i].query, requests[i], limits[i], config):
                again |= self.ask([i], requests, limits, config)

        if again:
            yield [question.answer for question in again.values()]
            questions |= again
            answers |= {i: question.answer.result() for i, question in again.items()}

        decided: dict[int, list[Hypothesis] | None] = {}
        for i, limit in limits.items():
            decided[i] = self.decide(answers[i], questions[i].query, limit, config)

        if self.can_truncate(config):
            to_score: dict[int, list[int]] = {}
            for i, hypotheses in decided.items():
                # Without repeats and with a shortlist CTranslate2 scores by changed probabilities.
                is_changed = self.uses_shortlist(config) or requests[i].no_repeat > 0
                if hypotheses and is_changed:
                    to_score[i] = [*hypotheses[0].tokens, EOS]
                elif not hypotheses and (ids := self.truncate(answers[i], limits[i])):
                    to_score[i] = ids
            if to_score:
                decided |= yield from self.score_texts(requests, to_score, config)
        return {i: hypotheses for i, hypotheses in decided.items() if hypotheses}

    def search_with_fallback(
        self, requests: Sequence[SearchRequest], indices: Sequence[int], config: SearchConfig
    ) -> dict[int, list[Hypothesis]]:
        """Return the hypotheses of the requests with these indices, searched for by the other engine."""
        if not indices:
            return {}
        results = self.fallback().search([requests[i] for i in indices], config)
        return dict(zip(indices, results, strict=True))

    def can_search(self, request: SearchRequest, config: SearchConfig) -> bool:
        """Return whether CTranslate2 can search for a request at all."""
        return (
            not (request.prefix or request.not_empty)
            and not (request.no_repeat and not self.can_truncate(config))
            and config.method != "sample"
            # It does not translate a source of EOS alone.
            and 1 < len(request.source) <= self.bounds.longest
            and 2 * config.beam <= len(self.ids)
        )

    def uses_shortlist(self, config: SearchConfig) -> bool:
        """Return whether a search is among the pieces of the shortlist alone."""
        return self.offered is not None and config.n_best == 1

    def promises_same_text(self, config: SearchConfig) -> bool:
        """Return whether the texts of a search must equal the texts of the torch engine."""
        return self.same_text and not self.uses_shortlist(config)

    def can_truncate(self, config: SearchConfig) -> bool:
        """Return whether a beginning of a text that CTranslate2 found, and a text without repeats, may be used."""
        return is_greedy(config) or (config.n_best == 1 and not self.promises_same_text(config))

    def depends_on_batch(
        self,
        answer: Any,
        query: "CTranslate2Query",
        request: SearchRequest,
        limit: int,
        config: SearchConfig,
    ) -> bool:
        """Return whether a text could be another one if its sentence were searched for by itself."""
        if is_greedy(config):
            # With all its pieces its own, the likeliest piece of each step is the likeliest of its
            # own.
            text = answer.hypotheses[0][:limit]
            return self.uses_shortlist(config) and not self.offers_all(request, text)
        # Beyond its own limit a search goes on only because a neighbour's is higher. The torch
        # engine decides that where its texts are promised.
        goes_on = query.limit > limit and max(map(len, answer.hypotheses)) > limit
        return goes_on and not self.promises_same_text(config)

    def offers_all(self, request: SearchRequest, text: list[str]) -> bool:
        """Return whether the shortlist offers every piece of a text to the sentence of this request."""
        assert self.offered is not None
        return self.offered.include(text, [self.source_names[i] for i in request.source])

    def ask(
        self,
        indices: list[int],
        requests: Sequence[SearchRequest],
        limits: dict[int, int],
        config: SearchConfig,
    ) -> "dict[int, Question]":
        """Submit the requests with these indices to CTranslate2 as one batch."""
        # CTranslate2 has one limit for a batch: the largest.
        # `decide` looks at the limit of each request.
        limit = max(limits[i] for i in indices)
        query = CTranslate2Query.for_config(config, limit, self.uses_shortlist(config))
        sources = [requests[i].source for i in indices]
        pending = self.begin_batch(sources, query, requests[indices[0]].no_repeat)
        return {i: Question(query, answer) for i, answer in zip(indices, pending, strict=True)}

    def source_pieces(self, source: list[int]) -> list[str]:
        """Return the pieces of a source as CTranslate2 takes them: without EOS where it adds that itself."""
        ids = strip_eos(source) if self.adds_source_end else source
        return [self.source_names[i] for i in ids]

    def begin_batch(
        self, sources: list[list[int]], query: "CTranslate2Query", no_repeat: int
    ) -> list[Any]:
        """Submit the sources to CTranslate2, and return its pending result for each."""
        return self.translator.translate_batch(
            [self.source_pieces(source) for source in sources],
            beam_size=query.width,
            num_hypotheses=query.ended,
            patience=query.ended / query.width,
            length_penalty=query.exponent,
            max_decoding_length=query.limit,
            return_scores=query.scores,
            asynchronous=True,
            no_repeat_ngram_size=no_repeat,
            max_batch_size=len(sources),
            max_input_length=0,  # no limit: by default longer sources are cut off
            min_decoding_length=0,
            return_end_token=True,
            use_vmap=query.shortlist,
        )

    def decide(
        self, answer: Any, query: "CTranslate2Query", limit: int, config: SearchConfig
    ) -> list[Hypothesis] | None:
        """Return the best `n_best` hypotheses if they surely equal the result of `beam_search`, otherwise None."""
        texts = answer.hypotheses
        if not all(texts):
            return None

        lengths = [len(text) for text in texts]
        scores = answer.scores or [nan] * len(texts)
        # CTranslate2 returns log_prob / length^exponent.
        log_probs = [score * n**query.exponent for score, n in zip(scores, lengths, strict=True)]
        ended = [text[-1:] == [self.end] for text in texts]

        if not all(map(self.forbidden.isdisjoint, texts)):
            return None

        close_call = CLOSE_CALL if self.promises_same_text(config) else 0.0
        order = rank_like_beam_search(lengths, log_probs, ended, query, limit, config, close_call)
        if order is None:
            return None

        best = []
        for i in order:
            ids = [self.ids[piece] for piece in texts[i]]
            best.append(make_hypothesis(ids, log_probs[i], config))
        return best

    def truncate(self, answer: Any, limit: int) -> list[int] | None:
        """Return the ids of the best text up to this limit, EOS included if it was written; None if one is forbidden.

        For a greedy search they are what a search with this limit finds.
        """
        text = answer.hypotheses[0][:limit]
        if not text or not self.forbidden.isdisjoint(text):
            return None
        return [self.ids[piece] for piece in text]

    def score_texts(
        self, requests: Sequence[SearchRequest], texts: dict[int, list[int]], config: SearchConfig
    ) -> Generator[Sequence[Any], None, dict[int, list[Hypothesis]]]:
        """Yield what is to be waited for; return a hypothesis for each text, with its log-probability if wanted."""
        if not config.scores:
            return {number: [make_hypothesis(ids, nan, config)] for number, ids in texts.items()}

        pieces = {}
        for number, ids in texts.items():
            pieces[number] = [self.target_names[i] for i in ids if i != EOS]

        # CTranslate2 reads a text whole and adds EOS, for which a text of the greatest length has no
        # position left.
        short = [number for number, names in pieces.items() if len(names) < self.bounds.longest]
        long = [number for number in texts if number not in short]

        pending = self.translator.score_batch(
            [self.source_pieces(requests[number].source) for number in short],
            [pieces[number] for number in short],
            max_input_length=0,
            asynchronous=True,
        )
        yield pending

        log_probs = {}
        for number, answer in zip(short, pending, strict=True):
            log_probs[number] = answer.result().log_probs
        if long:
            sources = [requests[number].source for number in long]
            exact = self.fallback().log_probs(sources, [texts[number] for number in long])
            log_probs.update(zip(long, exact, strict=True))

        hypotheses = {}
        for number, ids in texts.items():
            # Of a text without EOS, the number of the EOS that CTranslate2 added is left out.
            total = fsum(log_probs[number][: len(ids)])
            if isfinite(total):
                hypotheses[number] = [make_hypothesis(ids, total, config)]
        return hypotheses


@dataclass(frozen=True)
class Question:
    """A search that CTranslate2 was asked for, for one sentence, and its answer, which may be on its way."""

    query: "CTranslate2Query"
    answer: Any


class SubmittedBatch:
    """A batch of requests that CTranslate2 works on meanwhile."""

    def __init__(
        self, engine: CTranslate2Engine, requests: Sequence[SearchRequest], config: SearchConfig
    ):
        """Submit it and return at once."""
        self.engine = engine
        self.requests = requests
        self.config = config
        self.decided: dict[int, list[Hypothesis]] | None = None
        self._stages = engine.search_in_stages(requests, config)
        self._awaited: Sequence[Any] = ()
        self._next_stage()

    def advance(self) -> None:
        """Submit what is needed besides, if the answers for that have come; never waits."""
        if self.decided is None and self._awaited and self._has_answers():
            self._next_stage()

    def finish(self) -> list[list[Hypothesis]]:
        """Wait for the answers, and return the hypotheses of each request."""

        # Who stops a search must not wait for batches that others submitted before it.
        checks = {request.check_wanted for request in self.requests} - {continue_always}
        while self.decided is None:
            while checks and not self._has_answers():
                for check_wanted in checks:
                    check_wanted()
                sleep(0.002)
            self._next_stage()
        for check_wanted in checks:
            check_wanted()

        undecided = [i for i in range(len(self.requests)) if i not in self.decided]
        fallback = self.engine.search_with_fallback(self.requests, undecided, self.config)
        decided = self.decided | fallback
        return [decided[i] for i in range(len(self.requests))]

    def _has_answers(self) -> bool:
        return all(answer.done() for answer in self._awaited)

    def _next_stage(self) -> None:
        try:
            self._awaited = next(self._stages)
        except StopIteration as end:
            self.decided = end.value


def is_greedy(config: SearchConfig) -> bool:
    """Return whether a search takes the likeliest piece at each step."""
    return config.method == "greedy" or config.beam == 1


def make_hypothesis(ids: list[int], log_prob: float, config: SearchConfig) -> Hypothesis:
    """Return the hypothesis with these ids; the last id is EOS if the text ended."""
    ended = ids[-1] == EOS
    score = log_prob / length_divisor(len(ids), config.length_penalty)
    return Hypothesis(ids[:-1] if ended else ids, score, log_prob, "eos" if ended else "length", [])


def load_translator(
    directory: Path,
    workers: int,
    threads: int,
    device: str = "cpu",
    compute_type: str | None = None,
) -> Any:
    """Load a directory as CTranslate2's translator, on the CPU or on a GPU.

    It computes in `compute_type`, by default the precision of the directory. A CPU that does not
    support that computes in float32. Raises ValueError for a directory that cannot be loaded, and
    for what a GPU does not support.
    """
    library = import_ctranslate2()
    wanted = compute_type or precision_of(directory)
    name, index = split_device(device)
    if name != "cpu":
        load_cublas()
    try:
        supported = library.get_supported_compute_types(name, index)
        if wanted not in supported and name == "cpu":
            wanted = "float32"
        return library.Translator(
            str(directory),
            device=name,
            device_index=index,
            compute_type=wanted,
            inter_threads=workers,
            intra_threads=threads,
            max_queued_batches=-1,
        )
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"CTranslate2 cannot load {directory} on {device}: {error}") from None


# Bound of a log-probability: CTranslate2 marks an empty slot with about the smallest number there
# is; real log-probabilities lie above this bound.
_NO_SCORE = -1e9


@dataclass(frozen=True)
class CTranslate2Query:
    """Options of a CTranslate2 search whose answer contains all that is needed to rank as `beam_search` does.

    CTranslate2 stops when `ended` hypotheses have ended, and returns that many: if more ended in
    the last step, it drops the ones with the least log_prob / length^`exponent`. Without `scores` a
    greedy search computes no softmax.
    """

    width: int
    limit: int
    ended: int
    exponent: float
    scores: bool = True
    shortlist: bool = False

    @classmethod
    def for_config(
        cls, config: SearchConfig, limit: int, shortlist: bool = False
    ) -> "CTranslate2Query":
        """Make the query for a search config and a length limit; `shortlist` searches among its pieces alone."""
        width = config.beam if config.method == "beam" else 1
        if config.n_best == 1:
            # For the best alone, `beam` hypotheses are enough: all that was dropped is less likely
            # than all of them. The exponent divides by exactly 1; 0 would stop at the first end.
            # A shortlist's are not the model's.
            scores = width > 1 or (config.scores and not shortlist)
            return cls(width, limit, width, exponent=1e-30, scores=scores, shortlist=shortlist)
        # For more, search on until 2 beam - 1 have ended, as many as can have when `beam_search`
        # stops. The exponent drops the longest, which come from later steps; it is as large as
        # float32 allows, and whole, to be exact.
        return cls(width, limit, ended=2 * width - 1, exponent=-(35 // log10(limit + 1)))


def rank_like_beam_search(
    lengths: list[int],
    log_probs: list[float],
    ended: list[bool],
    query: "CTranslate2Query",
    limit: int,
    config: SearchConfig,
    close_call: float = CLOSE_CALL,
) -> list[int] | None:
    """Return the indices of CTranslate2's hypotheses that `beam_search` returns, best first; None if that is not sure.

    It is not sure where scores differ by less than `close_call`.

    >>> config = SearchConfig(beam=2, length_penalty=1.0)
    >>> rank_like_beam_search([7, 1], [-3.0, -3.5], [True, True], CTranslate2Query.for_config(config, limit=9), 9,
    ...     config)  # -3 / 2 beats -3.5 / 1
    [0]
    """
    if query.scores and not all(_NO_SCORE < log_prob <= 0 for log_prob in log_probs):
        return None
    if query.width == 1:  # there is one, and no other outcome that it could be near to
        return [0] if ended[0] and lengths[0] <= limit else None

    ends = sorted(n for n, at_end in zip(lengths, ended, strict=True) if at_end)
    # `beam_search` stops at the step in which the W-th hypothesis ends: what ends later it never
    # sees.
    last = min(limit, ends[query.width - 1]) if len(ends) >= query.width else limit
    scores: dict[int, float] = {}
    for i, length in enumerate(lengths):
        if ended[i] and length <= last:
            scores[i] = log_probs[i] / length_divisor(length, config.length_penalty)

    order = sorted(scores, key=lambda i: -scores[i])

    if len(order) < config.n_best:
        return None
    first, remaining = order[: config.n_best], order[config.n_best :]

    best_dropped = -inf
    if len(lengths) == query.ended:
        # What was dropped is ranked below all of these, and a longer text makes the most of that.
        their_scores = []
        for log_prob, length in zip(log_probs, lengths, strict=True):
            their_scores.append(log_prob / length**query.exponent)
        least = min(their_scores)
        best_dropped = least * last**query.exponent / length_divisor(last, config.length_penalty)
    best_remaining = max(best_dropped, *(scores[i] for i in remaining), -inf)
    deciding = [*(scores[i] for i in first), best_remaining]

    # A score has the rounding of its log-probability divided by the same number, which is the least
    # for the shortest.
    close = close_call / length_divisor(min(lengths), config.length_penalty)
    return first if all(a - b >= close for a, b in pairwise(deciding)) else None
