"""Gives translations of a calibrated model their confidence, and a grade that says whether one can use them."""

from dataclasses import dataclass, replace
from math import isfinite

from pellucid.decode.confidence import Calibration
from pellucid.decode.line_segments import Line, LineSearch
from pellucid.decode.translation import Translation
from pellucid.decode.usability import choose_worst_grade


@dataclass(frozen=True)
class GradeTranslations:
    """The stage that adds the confidence of each translation and of its words, and grades its expected quality."""

    calibration: Calibration

    def __call__(self, lines: list[Line], search: LineSearch) -> list[Translation]:
        return [self.grade(translation) for translation in search(lines)]

    def grade(self, translation: Translation) -> Translation:
        """Return a translation with its grade and confidences.

        It stays as it is where nothing was searched for, and where it has no score.
        """
        is_searched = translation.stop in ("eos", "length")
        if not is_searched or not translation.pieces or not isfinite(translation.log_prob):
            return translation

        numbers = translation.log_prob, len(translation.pieces), len(translation.source_pieces)
        written = translation.text, translation.pieces, translation.piece_log_probs
        quality = self.calibration.quality
        by_quality = None if quality is None else quality.grade_chrf(quality.expect_chrf(*numbers))
        return replace(
            translation,
            grade=choose_worst_grade([translation.grade, by_quality]),
            confidence=self.calibration.confidence_of(*numbers),
            word_confidences=self.calibration.confidences_of_words(*written),
        )
