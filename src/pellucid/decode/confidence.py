"""Confidence of a translation: how likely it is that it needs no change, by a curve that was fitted on a dev set."""

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isfinite, log
from pathlib import Path
from typing import Any

CALIBRATION = "calibration.json"
"""File of a model directory that holds its calibration."""


def confidence_features(log_prob: float, pieces: int, source_pieces: int) -> tuple[float, ...]:
    """Return what a translation is judged by, without scale.

    They are 1; the log-probability, in nats: that of exactly this text; the same for each piece; the logarithm of the
    number of pieces; and how far the ratio of both lengths is from 1.
    """
    return 1.0, log_prob, log_prob / pieces, log(pieces), abs(log(pieces / source_pieces))


@dataclass(frozen=True)
class Calibration:
    """Weights of the features, whose sum is a score, and the confidence from each of some rising scores on."""

    weights: tuple[float, ...]
    scores: tuple[float, ...]
    confidences: tuple[float, ...]
    """One more than scores: the first is that below all of them."""
    about: Mapping[str, Any]
    """Definition of "needs no change", and what was measured on the half of dev that nothing was fitted on."""

    def __post_init__(self) -> None:
        numbers = (*self.weights, *self.scores, *self.confidences)
        if not (
            len(self.weights) == len(confidence_features(-1.0, 1, 1))
            and len(self.confidences) == len(self.scores) + 1
            and all(isinstance(number, float) and isfinite(number) for number in numbers)
            and all(a < b for a, b in pairwise(self.scores))
            and all(a <= b for a, b in pairwise((0.0, *self.confidences, 1.0)))
        ):
            raise ValueError("weights, scores and confidences do not make a rising curve from 0 to 1")

    def confidence_of(self, log_prob: float, pieces: int, source_pieces: int) -> float:
        """Return the confidence of a translation of this log-probability and these numbers of pieces, EOS included."""
        features = confidence_features(log_prob, pieces, source_pieces)
        score = sum(weight * feature for weight, feature in zip(self.weights, features, strict=True))
        return self.confidences[bisect_right(self.scores, score)]

    def to_json(self) -> str:
        """Return the calibration as the text of its file."""
        return json.dumps(asdict(self), indent=1) + "\n"


def read_calibration(directory: Path, manifest: Mapping[str, Any]) -> Calibration | None:
    """Read the calibration of a model directory, whose files were verified; None where it has none.

    Raises ValueError for a file that is no calibration.
    """
    if CALIBRATION not in manifest["files"]:
        return None
    path = directory / CALIBRATION
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        curve = {name: tuple(table[name]) for name in ("weights", "scores", "confidences")}
        return Calibration(**curve, about=dict(table["about"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is no calibration ({error!s:.200}); make it again: pellucid calibrate") from None
