"""Quality gate: whether a smaller form of a model translates as well as the model itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.evaluate.scores import corpus_scores, repetition_rate

LARGEST_DROP = 0.3
"""Largest drop of chrF that passes, in points of 0 to 100."""


@dataclass(frozen=True)
class GateVerdict:
    """chrF and repetition rate of the whole model and of its smaller form."""

    sentences: int
    chrf_full: float
    chrf_small: float
    repetition_full: float
    repetition_small: float

    @property
    def reasons(self) -> list[str]:
        """Reasons to refuse the smaller form; none when it passes."""
        reasons = []
        if self.chrf_full - self.chrf_small > LARGEST_DROP:
            drop = self.chrf_full - self.chrf_small
            reasons.append(f"chrF falls by {drop:.2f} to {self.chrf_small:.2f}, {LARGEST_DROP} is allowed")
        if self.repetition_small > self.repetition_full:
            reasons.append(
                f"translations that run in a loop rise from {self.repetition_full:.2%} to {self.repetition_small:.2%}"
            )
        return reasons

    @property
    def passed(self) -> bool:
        """Whether there is no reason to refuse the smaller form."""
        return not self.reasons


def judge_smaller_model(
    full: Sequence[str], small: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> GateVerdict:
    """Compare the translations of the same sentences by the model and by its smaller form; `lowercase` ignores case.

    Raises ValueError for unequal numbers, and for references without a word.
    """
    scores = (corpus_scores(texts, references, ["chrf"], lowercase)["chrf"] for texts in (full, small))
    chrf_full, chrf_small = (score["score"] for score in scores)
    return GateVerdict(len(references), chrf_full, chrf_small, repetition_rate(full), repetition_rate(small))
