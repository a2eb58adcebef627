"""Numbers and bullets before a line, quotation marks and brackets around it, and notes behind it, are told from it."""

from time import process_time

import pytest

from pellucid.data.text.line_splitting import SplitRules, split_line
from pellucid.data.text.surroundings import MARK_KINDS, find_mark_kinds, trim_marks
from tests.growth import assert_linear

ALL = frozenset(MARK_KINDS)


def trim(text: str, kinds: frozenset[str] = ALL) -> str:
    return text[slice(*trim_marks(text, 0, len(text), kinds))]


@pytest.mark.parametrize(
    "text",
    [
        "1. The ball", "12) The ball", "(3) The ball", "3.1. The ball", "1.2.3 The ball", "a) The ball", "iv) The ball",
        "XII. The ball", "7 - The ball", "- The ball", "• The ball", "– The ball", "* The ball", "+ The ball",
        '"The ball"', "“The ball”", "„The ball“", "«The ball»", "»The ball«", "‘The ball’", "「The ball」",
        "- [ ] The ball", "* [x] The ball",
        "(The ball)", "[The ball]", "（The ball）", '1. "The ball"', "- (The ball)", '"(The ball)"', '"The ball".',
    ],
)  # fmt: skip
def test_marks_around_a_line_are_found(text: str):
    assert trim(text) == "The ball"
    assert find_mark_kinds(text)


@pytest.mark.parametrize("note", ["[1]", " [12]", "¹", "²³", "*", " *", "**", "†", "‡", "[1][2]", "¹*"])
def test_signs_of_footnotes_behind_a_sentence_are_found(note: str):
    assert trim(f"The ball.{note}") == "The ball."
    assert trim(f"“The ball!”{note}") == "The ball!"
    assert find_mark_kinds(f"The ball?{note}") == {"notes"}


LABELS = [
    "https://example.org/a_(b)?c=1", "www.example.org", "tom.b@example.org", "@tom", "@tom.b@example.org", "#ball",
    "12:45", "[1:02:03]", "AB-1234",
]  # fmt: skip


@pytest.mark.parametrize("label", [*LABELS, "12:45 PM", "12:45 p.m.:", "AB-12:", "@tom:", "www.example.org –"])
def test_an_address_a_name_a_topic_a_time_and_a_code_before_a_capital_are_found(label: str):
    assert trim(f"{label} The ball") == "The ball"
    assert trim(f"{label} “The ball”") == "The ball"
    assert trim(f"@b {label} Élan") == "Élan"
    assert find_mark_kinds(f"{label} ¿Qué?") == {"labels"}


@pytest.mark.parametrize("label", [*LABELS, "(1234)", "{name}", "{{a.b}}", "{}"])
def test_labels_behind_the_end_of_a_sentence_are_found(label: str):
    assert trim(f"The ball. {label}") == "The ball."
    assert trim(f"The ball! #a {label}") == "The ball!"
    assert trim(f"The ball? {label}", ALL - {"labels"}) == f"The ball? {label}"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org is an address", "See https://example.org", "@tom, come here", "@tom", "#ball",
        "12:45 Uhr", "12:45 is late", "COVID-19 Patients", "F-16 Fighters", "He came at 12:45", "3:1 Bayern",
        "12. 12:45", "tom@example.org", "# The ball", "The ball (1234)", "{name} The ball",
    ],
)  # fmt: skip
def test_labels_that_belong_to_a_sentence_stay(text: str):
    assert trim(text) == text


@pytest.mark.parametrize(
    "text",
    ["The ball[1]", "5 m²", "*The ball.*", "**The ball.** He ran.*", "12.¹", "See [1].", "The ball. [see below]", "x*"],
)
def test_signs_inside_a_sentence_are_no_notes(text: str):
    assert trim(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "The ball", "3 balls", "1984 was a year", "3.5 million people", "2 - 1 = 1", "5-10 people", "A ball.", "I. ",
        '"Yes," he said, "no."', "(One) and (two)", "-5 degrees", "12", "1. 2. 3.",
        "10 km", "5) 6)", "Don't", "*ball*", "«One» «two»",
    ],
)  # fmt: skip
def test_text_that_only_looks_like_marks_stays(text: str):
    assert trim(text) == text


@pytest.mark.parametrize(
    "text", ["“The ball.", "The ball.”", "„The ball", "The ball»", '"The ball', 'The ball"', "—The ball"]
)
def test_a_quotation_mark_whose_partner_is_elsewhere_and_the_dash_of_a_speaker_are_found(text: str):
    assert trim(text).strip(".") == "The ball"


@pytest.mark.parametrize("text", ['The ball of 5"', "The balls'", "'Tis a ball", "“A” and “B", "-ing", "-x ball"])
def test_other_signs_at_one_end_stay(text: str):
    assert trim(text) == text


def test_apostrophes_inside_words_are_no_quotation_marks():
    assert trim("'Don't drop Pete's ball'") == "Don't drop Pete's ball"


def test_only_the_kinds_that_are_named_are_trimmed():
    text = '1. "The ball"'
    assert find_mark_kinds(text) == {"numbers", "quotes"}
    assert trim(text, frozenset({"numbers"})) == '"The ball"'
    assert trim(text, frozenset({"quotes"})) == text


def test_a_span_inside_a_longer_text_is_trimmed_within_its_bounds():
    text = 'xx "The ball" yy'
    assert text[slice(*trim_marks(text, 3, 13, ALL))] == "The ball"


@pytest.mark.parametrize("mark", ["(1) ", "- ", "1. - ", "«"])
def test_thousands_of_marks_before_a_line_take_no_longer_than_other_text(mark: str):
    def measure_seconds(size: int) -> float:
        line = mark * size + "The ball."
        start = process_time()
        split_line(line, rules=SplitRules(marks=ALL))
        return process_time() - start

    assert_linear(measure_seconds, 4000)
