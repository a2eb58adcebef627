"""Confidence of a translation: how likely it is that it needs no change, by a curve that was fitted on a dev set."""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isfinite, log
from pathlib import Path
from typing import Any

from pellucid.data.text.word_pieces import piece_bytes, word_piece_ranges
from pellucid.decode.usability import QualityEstimate

CALIBRATION = "calibration.json"  # file of a model directory that holds its calibration


def confidence_features(log_prob: float, pieces: int, source_pieces: int) -> tuple[float, ...]:
    """Return what a translation is judged by, without scale.

    They are 1; the log-probability of exactly this text, in nats; the same for each piece; the
    logarithm of the number of pieces; and how far the ratio of both lengths is from 1.
    """
    return 1.0, log_prob, log_prob / pieces, log(pieces), abs(log(pieces / source_pieces))


@dataclass(frozen=True)
class ConfidenceCurve:
    """The confidence from each of some rising scores on, which rises with them.

    It has one confidence more than scores: the first is that below all of them.
    """

    scores: tuple[float, ...]
    confidences: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (*self.scores, *self.confidences)
        if not (
            len(self.confidences) == len(self.scores) + 1
            and all(isinstance(number, float) and isfinite(number) for number in numbers)
            and all(a < b for a, b in pairwise(self.scores))
            and all(a <= b for a, b in pairwise((0.0, *self.confidences, 1.0)))
        ):
            raise ValueError("scores and confidences do not make a rising curve from 0 to 1")

    def confidence_at(self, score: float) -> float:
        """Return the confidence at a score."""
        return self.confidences[bisect_right(self.scores, score)]


@dataclass(frozen=True)
class Calibration:
    """Weights of the features, whose sum is the score of a sentence, its curve, and the curve of single words.

    The score of a word is the log-probability of its pieces, in nats. There is no curve of words
    where too few translations are spelled by their pieces.
    """

    weights: tuple[float, ...]
    curve: ConfidenceCurve
    words: ConfidenceCurve | None
    # Definition of "needs no change", and what was measured on the half of dev that nothing was
    # fitted on.
    about: Mapping[str, Any]
    quality: QualityEstimate | None = None
    """What the grades follow from; None in a calibration of an older version."""

    def __post_init__(self) -> None:
        features = confidence_features(-1.0, 1, 1)
        if len(self.weights) != len(features) or not all(map(isfinite, self.weights)):
            raise ValueError("the weights are not one finite number for each feature")

    def confidence_of(self, log_prob: float, pieces: int, source_pieces: int) -> float:
        """Return the confidence of a translation of this log-probability and these numbers of pieces, EOS included."""
        features = confidence_features(log_prob, pieces, source_pieces)
        return self.curve.confidence_at(
            sum(weight * feature for weight, feature in zip(self.weights, features, strict=True))
        )

    def confidences_of_words(
        self, text: str, pieces: Sequence[str], piece_log_probs: Sequence[float]
    ) -> tuple[float, ...] | None:
        """Return the confidence of each word of a translation.

        It is None without a curve, and where `word_log_probs` is None.
        """
        log_probs = None if self.words is None else word_log_probs(text, pieces, piece_log_probs)
        if self.words is None or log_probs is None:
            return None
        return tuple(map(self.words.confidence_at, log_probs))

    def to_json(self) -> str:
        """Return the calibration as the text of its file."""
        return json.dumps(asdict(self), indent=1) + "\n"


def word_log_probs(text: str, pieces: Sequence[str], piece_log_probs: Sequence[float]) -> list[float] | None:
    """Return the log-probability of each word of a translation, split at white space, as the sum over its pieces.

    None where the pieces do not spell the text, as where tags were put back, or have no numbers of
    their own.

    >>> word_log_probs("la bola", ["▁la", "▁bo", "la", "</s>"], [-0.5, -1.0, -0.25, -0.125])
    [-0.5, -1.25]
    """
    if len(pieces) != len(piece_log_probs):
        return None

    written = pieces[:-1] if pieces and pieces[-1] == "</s>" else pieces
    if b"".join(map(piece_bytes, written)).decode("utf-8", "replace").split() != text.split():
        return None
    return [sum(piece_log_probs[span.start : span.stop]) for span in word_piece_ranges(written, text)]


def read_calibration(directory: Path, manifest: Mapping[str, Any]) -> Calibration | None:
    """Read the calibration of a model directory, whose files were verified; None where it has none.

    Raises ValueError for a file that is no calibration.
    """
    if CALIBRATION not in manifest["files"]:
        return None

    path = directory / CALIBRATION
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        words = None if table["words"] is None else _read_curve(table["words"])
        about, quality = dict(table["about"]), _read_quality(table.get("quality"))
        return Calibration(tuple(table["weights"]), _read_curve(table["curve"]), words, about, quality)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is no calibration ({error!s:.200}); make it again: pellucid calibrate") from None


def _read_curve(table: Mapping[str, Any]) -> ConfidenceCurve:
    """Return a curve as it was written."""
    return ConfidenceCurve(tuple(table["scores"]), tuple(table["confidences"]))


def _read_quality(table: Mapping[str, Any] | None) -> QualityEstimate | None:
    """Return an estimate of quality as it was written; None where there is none."""
    if table is None:
        return None
    return QualityEstimate(tuple(table["weights"]), table["redo_below"], table["look_below"])
