"""The torch engine: runs one model, or several together, with the searches of this folder, and scores given targets."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial, reduce
from math import log
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.cpu import share_processor
from pellucid.data.tokenizer import BOS, PAD, Tokenizer
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search, sample_search
from pellucid.decode.packed_model import ModelPacker
from pellucid.decode.request import (
    CLOSE_CALL,
    Hypothesis,
    SearchBounds,
    SearchConfig,
    SearchRequest,
)
from pellucid.decode.search import (
    Rule,
    SearchState,
    Step,
    StepObserver,
    forbidden_rule,
    log_probabilities,
    no_repeat_rule,
    not_empty_rule,
    wanted_rule,
)
from pellucid.model import Memory, Transformer
from pellucid.model.cache import Cache
from pellucid.store.directory import Bundle

if TYPE_CHECKING:
    from pellucid.decode.terms.required import WordEdges


class TorchEngine:
    """Engine that runs one model, or several with the same vocabulary, in torch."""

    batch_size = 64

    def __init__(
        self,
        models: Sequence[Transformer],
        forbidden: tuple[int, ...],
        tokenizer: Tokenizer | None = None,
    ):
        """Make the engine; without the `tokenizer`, which knows where words end, no token touches another."""
        self.models, self.forbidden, self.tokenizer = models, forbidden, tokenizer
        self.bounds = SearchBounds(min(model.config.max_positions for model in models), forbidden)
        self.packers = [ModelPacker(model) for model in models]
        share_processor()

    @cached_property
    def word_edges(self) -> "WordEdges":
        """Word edges of the target vocabulary, for searches with a prefix."""
        # The folder terms/ is imported when it is first needed: most searches have no prefix.
        from pellucid.decode.terms.required import WordEdges

        return WordEdges.from_tokenizer(self.tokenizer) if self.tokenizer else WordEdges()

    def search_all(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """Search batch by batch, in order; on a CPU each batch runs on a thread of its own."""
        # One thread a batch, because products this small do not gain from sharing threads.
        workers = min(torch.get_num_threads(), len(batches))
        if workers < 2 or self.device.type != "cpu":
            return map(partial(self.search, config=config), batches)
        return self.search_on_threads(batches, config, workers)

    def search_on_threads(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig, workers: int
    ) -> Iterator[list[list[Hypothesis]]]:
        """Search batch by batch, in order, several at the same time."""
        # Once before the threads, so that they share one packed copy of each weight.
        self.copy_models()
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(partial(self.search, config=config), batches)

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request.

        In float32 they do not depend on the other requests of the batch. tests/laws/test_batches.py
        holds it to that; in bfloat16 it is not promised.
        """
        if not requests:
            return []

        with torch.inference_mode():
            search_together = self.make_search(requests, config)
            results = search_together()

            # Neighbours in a batch change how sums are rounded and nothing else. So a search that
            # came so near to another outcome that rounding may have decided is made again, alone.
            if len(requests) > 1 and self.dtype == torch.float32:
                for i, hypotheses in enumerate(results):
                    if hypotheses and hypotheses[0].margin < CLOSE_CALL:
                        [results[i]] = self.search_batch([requests[i]], config)
        return results

    def search_batch(
        self,
        requests: Sequence[SearchRequest],
        config: SearchConfig,
        observe: StepObserver | None = None,
    ) -> list[list[Hypothesis]]:
        """Search for all requests in one batch; beam and greedy search call the observer."""
        search_together = self.make_search(requests, config, observe)
        return search_together()

    def make_search(
        self,
        requests: Sequence[SearchRequest],
        config: SearchConfig,
        observe: StepObserver | None = None,
    ) -> Callable[[], list[list[Hypothesis]]]:
        """Return the search of one batch, with the sources encoded and everything set: calling it runs it."""
        limits = [self.bounds.max_pieces(request, config) for request in requests]
        step, state = self.begin_step(pad_sentences([request.source for request in requests], self.device))
        # Each check once: the texts of one call have one in common.
        checks = {request.check_wanted for request in requests}
        arguments = {
            "step": step,
            "state": state,
            "limits": torch.tensor(limits, device=self.device),
            "length_penalty": config.length_penalty,
            "rules": [*self.rules(requests), wanted_rule(checks)],
        }
        if config.method == "sample":
            draws = self.sampling_draws(requests, config, max(limits))
            sampling = {
                "temperature": config.temperature,
                "top_k": config.top_k,
                "top_p": config.top_p,
            }
            return partial(sample_search, **arguments, draws=draws, **sampling)

        width, n_best = (1, 1) if config.method == "greedy" else (config.beam, config.n_best)
        if width == 1:
            return partial(greedy_search, **arguments, observe=observe)
        return partial(beam_search, **arguments, width=width, n_best=n_best, observe=observe)

    def log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of each target, from one pass over all."""
        if not sources:
            return []
        with torch.inference_mode():
            return mean_log_probs([score_targets(model, sources, targets) for model in self.models])

    def rules(self, requests: Sequence[SearchRequest]) -> list[Rule]:
        """Make the rules of a batch: forbidden tokens for all, and what some of them ask for."""
        rules, prefixes = [forbidden_rule(self.forbidden)], [request.prefix for request in requests]
        if any(prefixes):
            from pellucid.decode.terms.prefix_rule import prefix_rule

            rules.append(prefix_rule(prefixes, self.word_edges))
        if any(request.no_repeat for request in requests):
            rules.append(no_repeat_rule([request.no_repeat for request in requests], prefixes))
        if any(request.not_empty for request in requests):
            rules.append(not_empty_rule([request.not_empty for request in requests]))
        return rules

    def sampling_draws(
        self, requests: Sequence[SearchRequest], config: SearchConfig, length: int
    ) -> Float[Tensor, "B N T"]:
        """Return the uniform random numbers of each request, which follow from the seed and its line number."""
        # The first segment has no number of its own, so a line that is not split draws by its line
        # number alone.
        draws = []
        for request in requests:
            number = (request.number, request.segment) if request.segment else (request.number,)
            draws_of_line = []
            for copy in range(config.n_best):
                generator = np.random.default_rng([config.seed, *number, copy])
                draws_of_line.append(generator.random(length))
            draws.append(draws_of_line)
        return torch.tensor(np.array(draws), dtype=torch.float32, device=self.device)

    def begin_step(self, source: Int[Tensor, "B S"]) -> tuple[Step, SearchState]:
        """Encode the sources; return the step that continues their translations, and its state before the first."""
        steps, states = [], []
        for model in self.copy_models():
            steps.append(model_step(model))
            states.append(ModelState(model.encode(source)))
        if len(steps) == 1:
            return steps[0], states[0]
        return ensemble_step(steps), EnsembleState(states)

    def copy_models(self) -> list[Transformer]:
        """Return the models as searches run them, with packed weights."""
        return [packer.copy_model() for packer in self.packers]

    @property
    def device(self) -> torch.device:
        """Device of the models."""
        return self.models[0].output_embedding.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return self.models[0].output_embedding.weight.dtype


class ModelState:
    """State of a model between two steps: the memory, one row a sentence, and the cache, one row a hypothesis."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.cache = Cache()

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Keep the given old rows of the cache and the given old sentences of the memory, in this order."""
        # Copying the memory costs time, and an equal count means equal sentences
        # (`SearchState.select`).
        if len(sentences) != len(self.memory.states):
            self.memory = self.memory.select(sentences)
        self.cache.select(rows, sentences)


def model_step(model: Transformer) -> Step:
    """Make the step of one model: it decodes one more position of each row from the cache in a `ModelState`."""

    def step(ids: Int[Tensor, " R"], state: ModelState) -> Float[Tensor, "R V"]:
        return model.logits(model.decode(ids[:, None], state.memory, cache=state.cache))[:, 0]

    return step


def score_targets(model: Transformer, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
    """Return the log-probability of each token of each target, given its source and the tokens before it.

    A target that ends with EOS has a number for EOS too.
    """
    device = next(model.parameters()).device
    labels = pad_sentences(targets, device)
    # Teacher forcing: the decoder reads the target shifted right, from BOS to the last token but
    # one.
    decoder_inputs = pad_sentences([[BOS, *ids[:-1]] for ids in targets], device)
    logits = model(pad_sentences(sources, device), decoder_inputs)
    log_probs = log_probabilities(logits.flatten(0, 1)).gather(1, labels.flatten()[:, None])
    rows = log_probs.view_as(labels).tolist()
    return [row[: len(ids)] for row, ids in zip(rows, targets, strict=True)]


def pad_sentences(sentences: list[list[int]], device: torch.device, padding: int = PAD) -> Int[Tensor, "B S"]:
    """Return the sentences as one tensor, a row each, with padding up to the longest."""
    longest = max(map(len, sentences))
    return torch.tensor([ids + [padding] * (longest - len(ids)) for ids in sentences], device=device)


class EnsembleState:
    """States of several steps, which always keep the same rows and sentences."""

    def __init__(self, states: Sequence[SearchState]):
        self.states = states

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Keep these old rows and sentences of every state."""
        for state in self.states:
            state.select(rows, sentences)


def ensemble_step(steps: Sequence[Step]) -> Step:
    """Make one step of several with the same vocabulary: log((p_1 + ... + p_M) / M), the mean of their probabilities.

    The state of the step is an `EnsembleState`. It returns log-probabilities, in float32 at least,
    instead of logits.
    """

    def step(ids: Int[Tensor, " R"], state: EnsembleState) -> Float[Tensor, "R V"]:
        log_probs: list[Float[Tensor, "R V"]] = []
        for model_step, own_state in zip(steps, state.states, strict=True):
            log_probs.append(log_probabilities(model_step(ids, own_state)))

        # The mean of log-probabilities instead would let one model alone rule a token out. The
        # searches take another log-softmax of this, which leaves log-probabilities as they are.
        return reduce(torch.logaddexp, log_probs) - log(len(steps))

    return step


def mean_log_probs(scored: Sequence[list[list[float]]]) -> list[list[float]]:
    """Combine each model's log-probabilities of given tokens into the ensemble's, as `ensemble_step` does.

    >>> from math import exp
    >>> [[first, second]] = mean_log_probs([[[log(0.5), -1.0]], [[log(0.3), -1.0]]])
    >>> round(exp(first), 9), second
    (0.4, -1.0)
    """
    rows = (torch.tensor(sentence, dtype=torch.float64) for sentence in zip(*scored, strict=True))
    return [(log_probs.logsumexp(dim=0) - log(len(log_probs))).tolist() for log_probs in rows]


def require_one_vocabulary(bundles: Sequence[Bundle]) -> None:
    """Raise ValueError, naming every directory whose tokenizer differs from the first one's: token ids must agree."""
    first, *others = bundles
    problems, expected = [], first.tokenizer.contents
    for other in others:
        contents = other.tokenizer.contents
        differences = []
        for n, side in enumerate(("source", "target")):
            if (contents[n], contents[n + 2]) != (expected[n], expected[n + 2]):
                differences.append(f"{side} pieces")
        if other.tokenizer.lowercase != first.tokenizer.lowercase:
            differences.append(f"lowercase {other.tokenizer.lowercase}")
        if differences:
            problems.append(f"{other.directory} ({', '.join(differences)})")

    if problems:
        raise ValueError(
            f"models that translate together need the same tokenizer, and these have another than {first.directory}: "
            f"{'; '.join(problems)}; train them on the same pairs with the same [tokenizer] settings"
        )
