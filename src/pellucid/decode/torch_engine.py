"""The torch engine: runs the models themselves, with the searches of this folder."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.beam import beam_search
from pellucid.decode.config import SearchConfig
from pellucid.decode.constrained import constrained_search
from pellucid.decode.ensemble import EnsembleState, ensemble_step, mean_log_probs
from pellucid.decode.greedy import greedy_search
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.packed_model import ModelPacker
from pellucid.decode.request import CLOSE_CALL, SearchBounds, SearchRequest
from pellucid.decode.rules import no_repeat_rule, prefix_rule
from pellucid.decode.sample import sample_search
from pellucid.decode.search import Rule, SearchState, Step, forbidden_rule
from pellucid.decode.search_steps import StepObserver
from pellucid.decode.step import ModelState, model_step, pad_sentences, score_targets
from pellucid.decode.word_edges import WordEdges
from pellucid.model import Transformer
from pellucid.processor import share_processor


class TorchEngine:
    """Engine that runs one model, or several with the same vocabulary, in torch."""

    batch_size = 64

    def __init__(self, models: Sequence[Transformer], forbidden: tuple[int, ...], words: WordEdges = WordEdges()):  # noqa: B008
        self.models = models
        self.forbidden = forbidden
        self.words = words
        self.bounds = SearchBounds(min(model.config.max_positions for model in models), forbidden)
        self.packers = [ModelPacker(model) for model in models]
        share_processor()

    def search_all(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """Search batch by batch, in order; on a CPU each batch runs on a thread of its own."""
        # One thread a batch, because products this small do not gain from sharing threads.
        workers = min(torch.get_num_threads(), len(batches))
        if workers < 2 or self.device.type != "cpu":
            yield from (self.search(batch, config) for batch in batches)
            return
        self.copy_models()  # once before the threads, so that they share one packed copy of each weight
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(lambda batch: self.search(batch, config), batches)

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request; in float32 they do not depend on the other requests of the batch.

        tests/laws/test_batches.py holds it to that; in bfloat16 it is not promised.
        """
        if not requests:
            return []
        with torch.inference_mode():
            results = self.search_batch(requests, config)
            # Neighbours in a batch change how sums are rounded and nothing else. So a search that came so near to
            # another outcome that rounding may have decided is made again, alone.
            if len(requests) > 1 and self.dtype == torch.float32:
                for i, hypotheses in enumerate(results):
                    if hypotheses and hypotheses[0].margin < CLOSE_CALL:
                        [results[i]] = self.search_batch([requests[i]], config)
        return results

    def search_batch(
        self, requests: Sequence[SearchRequest], config: SearchConfig, observe: StepObserver | None = None
    ) -> list[list[Hypothesis]]:
        """Search for all requests in one batch; only beam and greedy search without terms call the observer."""
        limits = [self.limit(request, config) for request in requests]
        step, state = self.begin_step(pad_sentences([request.source for request in requests], self.device))

        def step_while_wanted(tokens: Int[Tensor, " R"], state: SearchState) -> Float[Tensor, "R V"]:
            for request in requests:
                request.check_wanted()
            return step(tokens, state)

        arguments = {
            "step": step_while_wanted,
            "state": state,
            "limits": torch.tensor(limits, device=self.device),
            "length_penalty": config.length_penalty,
            "rules": self.rules(requests),
        }
        if config.method == "sample":
            draws = self.sampling_draws(requests, config, max(limits))
            sampling = {"temperature": config.temperature, "top_k": config.top_k, "top_p": config.top_p}
            return sample_search(**arguments, draws=draws, **sampling)
        width, n_best = (1, 1) if config.method == "greedy" else (config.beam, config.n_best)
        if any(request.terms for request in requests):
            return constrained_search(
                **arguments,
                terms=[request.terms for request in requests],
                width=width,
                n_best=n_best,
                words=self.words,
            )
        if width == 1:
            return greedy_search(**arguments, observe=observe)
        return beam_search(**arguments, width=width, n_best=n_best, observe=observe)

    def log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of each target, from one pass over all."""
        if not sources:
            return []
        with torch.inference_mode():
            return mean_log_probs([score_targets(model, sources, targets) for model in self.models])

    def limit(self, request: SearchRequest, config: SearchConfig) -> int:
        """Return how many tokens the translation of a request may have at most, EOS included."""
        return self.bounds.max_pieces(request, config)

    def rules(self, requests: Sequence[SearchRequest]) -> list[Rule]:
        """Make the rules of a batch: forbidden tokens for all, prefixes and no repeats for those that ask for them."""
        rules, prefixes = [forbidden_rule(self.forbidden)], [request.prefix for request in requests]
        if any(prefixes):
            rules.append(prefix_rule(prefixes, self.words))
        if any(request.no_repeat for request in requests):
            rules.append(no_repeat_rule([request.no_repeat for request in requests], prefixes))
        return rules

    def sampling_draws(
        self, requests: Sequence[SearchRequest], config: SearchConfig, length: int
    ) -> Float[Tensor, "B N T"]:
        """Return the uniform random numbers of each request, which follow from the seed and its line number."""
        # The first segment has no number of its own, so a line that is not split draws by its line number alone.
        numbers = [(request.number, request.segment) if request.segment else (request.number,) for request in requests]
        seeds = [
            [[config.seed, *request_numbers, copy] for copy in range(config.n_best)] for request_numbers in numbers
        ]
        draws = [[np.random.default_rng(seed).random(length) for seed in copies] for copies in seeds]
        return torch.tensor(np.array(draws), dtype=torch.float32, device=self.device)

    def begin_step(self, source: Int[Tensor, "B S"]) -> tuple[Step, SearchState]:
        """Encode the sources; return the step that continues their translations, and its state before the first."""
        models = self.copy_models()
        steps = [model_step(model) for model in models]
        states = [ModelState(model.encode(source)) for model in models]
        if len(models) == 1:
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
