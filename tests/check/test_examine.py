"""The doctor of parallel text: each planted fault is found at its line, clean text has none, and nothing is lost."""

import json
import re
from itertools import islice
from xml.etree import ElementTree

import numpy as np
import pytest

from pellucid.data.source_profile import profile_sources
from pellucid.workflows.check import corpus_faults
from pellucid.workflows.check.check_page import report_as_html
from pellucid.workflows.check.corpus_faults import bare_text
from pellucid.workflows.check.evidence import Shift
from pellucid.workflows.check.examine import (
    CorpusReport,
    examine_corpus,
    faults_removed,
    glance_at_corpus,
    report_as_object,
    write_fixed,
)
from pellucid.workflows.check.pair_faults import FAULTS, PAIR_CHECKS
from tools.phrasebook import draw_phrases

Pairs = tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def clean() -> Pairs:
    """Return 2,500 pairs of the phrasebook, no two of which are nearly the same."""
    phrases = {bare_text(phrase.source): phrase for phrase in islice(draw_phrases(seed=7), 4_000)}
    chosen = list({bare_text(phrase.target): phrase for phrase in phrases.values()}.values())[:2_500]
    assert len(chosen) == 2_500
    return [phrase.source for phrase in chosen], [phrase.target for phrase in chosen]


@pytest.fixture(scope="module")
def short(clean: Pairs) -> Pairs:
    """Return 600 of them, enough for what is seen in a single pair."""
    return clean[0][:600], clean[1][:600]


def examine(sources: list[str], targets: list[str], against: list[str] | None = None) -> CorpusReport:
    assert len(sources) == len(targets)
    return examine_corpus(lambda: zip(range(1, len(sources) + 1), sources, targets, strict=True), against)


def marked_lines(report: CorpusReport, fault: str) -> list[int]:
    return (report.marks[fault][0] + 1).tolist() if fault in report.marks else []


def test_clean_text_has_no_fault(clean):
    report = examine(*clean)
    assert {name: finding.examples[:2] for name, finding in report.findings.items()} == {}
    assert (report.pairs, report.faulty, report.blocks, report.notes) == (2_500, 0, [], [])


PLANTED = {
    "empty": (lambda s, t: (s, " ")),
    "copy": (lambda s, t: (s, s)),
    "mojibake": (lambda s, t: (s, "ñ¿é" .encode().decode("latin-1") + t)),
    "control": (lambda s, t: (s.replace(" ", "\u200b ", 1), t)),
    "markup": (lambda s, t: (f"<b>{s}</b>", t)),
    "placeholder": (lambda s, t: (f"{{name}}: {s}", t)),
    "address": (lambda s, t: (s, f"{t} https://example.com/a")),
    "number": (lambda s, t: (f"{s} (1984)", f"{t} (1985)")),
    "punctuation": (lambda s, t: (s.rstrip(".!?") + ".", t.rstrip(".!?") + "?")),
    "capitals": (lambda s, t: (s.upper(), t)),
    "normal_form": (lambda s, t: (s, f"{t} man\u0303ana".replace(". man", " man") + ".")),
    "long": (lambda s, t: (s * 60, t * 60)),
    "ratio": (lambda s, t: (s, " ".join([t] * 12))),
    "sentences": (lambda s, t: (s, f"{t} Es verdad. No es mentira.")),
    "language": (lambda s, t: ("Die Kinder spielen heute im Garten hinter dem großen Haus.", t)),
}  # fmt: skip
"""Faults of single pairs, and how a clean pair gets one."""


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_at_its_lines(short, fault):
    sources, targets = map(list, short)
    lines = [83, 297, 571]
    for line in lines:
        # The longest sentences of the neighbourhood: in a short one there is no room for some faults.
        sources[line - 1], targets[line - 1] = PLANTED[fault](
            "The old doctor bought 3 yellow books.", "La vieja médica compró 3 libros amarillos."
        )
    assert marked_lines(examine(sources, targets), fault) == lines


def test_all_checks_of_pairs_are_tested():
    assert set(PAIR_CHECKS) <= set(PLANTED)


def test_repetitions_and_leaks_are_found(clean):
    sources, targets = map(list, clean)
    sources[10], targets[10] = sources[4], targets[4]
    sources[20], targets[20] = sources[5].upper() + "!!", targets[5]
    sources[30] = sources[6]
    for line in range(100, 2_100, 80):
        sources[line], targets[line] = f"Read more on page {line}.", f"Leer más en la página {line}."
    report = examine(sources, targets, against=[sources[1].lower(), targets[2], "Yes."])
    assert marked_lines(report, "duplicate") == [11]
    assert marked_lines(report, "near_duplicate") == [21]
    assert marked_lines(report, "many_targets") == [7, 31]
    assert marked_lines(report, "boilerplate") == [line + 1 for line in range(180, 2_100, 80)]
    assert marked_lines(report, "leaked") == [2, 3]


@pytest.mark.parametrize(
    ("first", "last", "offset"), [(301, 420, 1), (1_200, 1_700, -1), (600, 640, -3), (2_300, 2_320, 2)]
)
def test_a_shifted_block_is_found_to_the_line(clean, first, last, offset):
    sources, targets = map(list, clean)
    block = targets[first - 1 : last]
    targets[first - 1 : last] = [block[(n - offset) % len(block)] for n in range(len(block))]
    report = examine(sources, targets)
    assert report.blocks == [Shift(first, last, offset)]
    assert marked_lines(report, "shifted") == list(range(first, last + 1))
    example = report.findings["shifted"].examples[0]
    index = sources.index(example.source)
    assert example.right_target == clean[1][index] if offset > 0 else example.right_target is not None


def test_a_text_that_has_shifted_from_its_second_half_on_is_found_to_the_line(clean):
    sources, targets = clean
    assert examine(sources, [*targets[:900], *targets[901:], "Es todo."]).blocks == [Shift(901, 2_500, -1)]
    assert examine(sources, [*targets[:40], "Es todo.", *targets[40:-1]]).blocks == [Shift(41, 2_500, 1)]


def test_a_block_of_other_text_is_named(clean):
    sources, targets = map(list, clean)
    targets[500:600] = targets[1_500:1_600][::-1]
    report = examine(sources, targets)
    [block] = report.blocks
    assert block.offset == 0
    assert abs(block.first - 501) <= 3
    assert abs(block.last - 600) <= 3


def test_pairs_that_are_no_translations_are_found(clean):
    sources, targets = map(list, clean)
    wrong = np.sort(np.random.default_rng(1).choice(len(targets), 125, replace=False))
    moved = [targets[i] for i in np.roll(wrong, 7)]
    for i, target in zip(wrong, moved, strict=True):
        targets[i] = target
    found = set(marked_lines(examine(sources, targets), "not_translation"))
    right = found & {i + 1 for i in wrong}
    assert len(right) >= 0.9 * len(found)
    assert len(right) >= 0.8 * len(wrong)


def test_a_small_text_says_what_was_not_looked_for(clean):
    report = examine(clean[0][:30], [*clean[1][:29], "Nada de esto es verdad."])
    assert "not_translation" not in report.marks
    assert "too few to learn" in report.notes[0]


def test_unrelated_sides_are_not_judged(clean):
    shuffled = np.random.default_rng(3).permutation(clean[1]).tolist()
    report = examine(clean[0], shuffled)
    assert any("do not tell its pairs from shuffled ones" in note for note in report.notes)
    assert not report.blocks


def test_what_is_kept_and_what_is_removed_is_everything_that_was_read(clean, tmp_path):
    sources, targets = map(list, clean)
    sources[3], targets[8], targets[12] = "", sources[8], "a\ttab </b>"
    targets[50:99] = targets[51:100]
    report = examine(sources, targets)
    faults = faults_removed(remove=["control"])
    rows = list(zip(range(1, len(sources) + 1), sources, targets, strict=True))
    kept, removed = write_fixed(report, rows, str(tmp_path / "clean"), faults)
    kept_pairs = [(tmp_path / f"clean.{side}").read_text("utf-8").split("\n")[:-1] for side in ("source", "target")]
    removed_rows = [row.split("\t") for row in (tmp_path / "clean.removed.tsv").read_text("utf-8").split("\n")[:-1]]
    assert (len(kept_pairs[0]), len(removed_rows), kept + removed) == (kept, removed, len(rows))
    assert all(len(row) == 4 and set(row[1].split(",")) <= set(faults) for row in removed_rows)
    # Together, in the order of their lines, they are the text that was read: no line has moved.
    together = {int(line): (source, target) for line, _, source, target in removed_rows}
    left = iter(zip(*kept_pairs, strict=True))
    for line, source, target in rows:
        assert (together.get(line) or next(left)) == (source, target.replace("\t", " "))
    assert report.faulty <= removed
    assert {4, 9, 13} <= set(together)


def test_a_text_that_changes_while_it_is_fixed_is_refused(clean, tmp_path):
    report = examine(clean[0][:50], clean[1][:50])
    for rows in (40, 60):
        changed = zip(range(1, rows + 1), clean[0][:rows], clean[1][:rows], strict=True)
        with pytest.raises(ValueError, match="has changed while it was checked"):
            write_fixed(report, changed, str(tmp_path / "x"), ["copy"])
        assert list(tmp_path.iterdir()) == []


def test_json_names_every_fault_with_its_lines(clean):
    sources, targets = map(list, clean)
    targets[700:800] = [*targets[701:800], targets[700]]
    targets[20] = sources[20]
    answer = json.loads(json.dumps(report_as_object(examine(sources, targets), ["a.en", "a.es"])))
    assert set(answer) == {
        "files",
        "pairs",
        "faulty",
        "faults",
        "shifts",
        "blocks",
        "spellings",
        "no_pair",
        "not_judged",
    }
    assert answer["shifts"] == [{"first_line": 701, "last_line": 800, "offset": -1}]
    for fault in answer["faults"]:
        assert set(fault) == {"fault", "title", "pairs", "share", "means", "costs", "option", "examples"}
        assert fault["examples"]
        assert all({"line", "source", "target"} <= set(example) for example in fault["examples"])
    assert {fault["fault"] for fault in answer["faults"]} >= {"shifted", "copy"}


def test_rare_spellings_are_named_with_their_side_and_their_lines(clean):
    sources, targets = map(list, clean)
    for line in (3, 40):
        sources[line - 1] = sources[line - 1].replace(" ", "\u00a0", 1)
    targets[8] = f"“{targets[8]}"
    # From one line in a thousand on a spelling is learned: 3 of 2,500.
    for line in (100, 200, 300):
        sources[line - 1] += " It’s"
    # On the other side the same character is rare; and a character without a plain counterpart is none.
    targets[49], targets[59] = targets[49] + " L’H", targets[59] + " m²☃"
    report = examine(sources, targets)
    assert marked_lines(report, "spelling") == [3, 9, 40, 50]
    assert report.details_of("spelling") == [
        "U+00A0 (no-break space) in 2 lines of the source, read as a space when the model translates",
        "U+2019 (right single quotation mark) in 1 line of the target, too few for the model to learn to write it; the "
        "plain spelling is '",
        "U+201C (left double quotation mark) in 1 line of the target, too few for the model to learn to write it; the "
        'plain spelling is "',
    ]
    # One example of each first, the commonest first.
    assert [example.line for example in report.findings["spelling"].examples] == [3, 50, 9, 40]
    assert not report.removed_pairs(faults_removed()).any()
    answer = report_as_object(report, ["a.en", "a.es"])["spellings"]
    assert isinstance(answer, list)
    assert answer[0] == {
        "side": "source", "character": "\u00a0", "name": "U+00A0 (no-break space)", "plain": " ", "lines": 2
    }  # fmt: skip
    page = report_as_html(report, ["a.en", "a.es"])
    assert "<h2>rare spellings: 4 pairs</h2>" in page
    assert "U+00A0 (no-break space) in 2 lines of the source" in page


def test_a_spelling_is_rare_for_the_check_where_it_is_for_the_model(clean):
    """`pellucid check` names the characters of the sources that `SourceProfile` does not know, and no others."""
    for odd in (1, 2, 3, 5):
        sources = [f"{text} ’…" if n < odd else text for n, text in enumerate(clean[0])]
        profile = profile_sources(zip(sources, clean[1], strict=True))
        named = {spelling.character for spelling in examine(sources, clean[1]).spellings}
        assert named == {character for character in "’…" if not profile.knows_spelling(character)}


def test_a_character_in_a_hundred_thousand_lines_is_learned(monkeypatch):
    monkeypatch.setattr(corpus_faults, "LEARNED_LINES", 3)
    spellings = corpus_faults.SpellingLines()
    for start in (0, 4):
        found = corpus_faults.find_spellings(["a’", "b’…", "c’", "ﬁ"], ["", "", "", "’"])
        spellings.add(start, found)
    rare = spellings.find_rare(10_000)
    assert [(spelling.side, spelling.character, spelling.plain) for spelling in rare] == [
        ("source", "…", "..."), ("source", "ﬁ", "fi"), ("target", "’", "'")
    ]  # fmt: skip
    assert [spelling.pairs.tolist() for spelling in rare] == [[1, 5], [3, 7], [3, 7]]


def test_what_is_removed_can_be_chosen():
    assert "number" in faults_removed(remove=["number"])
    assert "copy" not in faults_removed(keep=["copy"])
    assert set(faults_removed()) == {name for name, fault in FAULTS.items() if fault.removed}
    with pytest.raises(ValueError, match="'numbers' is no fault; known: shifted, not_translation"):
        faults_removed(remove=["numbers"])
    with pytest.raises(ValueError, match="cannot be both"):
        faults_removed(remove=["copy"], keep=["copy"])


def test_a_glance_names_a_shifted_block_and_is_silent_about_clean_text(clean):
    sources, targets = clean
    lines = range(1, len(sources) + 1)
    assert glance_at_corpus(sources, targets, lines) is None
    assert glance_at_corpus(sources[:30], targets[:30], lines) is None
    line = glance_at_corpus(sources, [*targets[:1_000], *targets[1_001:], targets[0]], lines)
    assert line is not None
    assert line.startswith("check: about 1,5")
    assert "lines 1,001 to 2,500: the target is 1 line early" in line
    copied = [source if n % 20 == 0 else target for n, (source, target) in enumerate(zip(*clean, strict=True))]
    assert "copies in " in str(glance_at_corpus(sources, copied, lines))


def test_the_page_is_one_file_that_loads_nothing_and_escapes_every_text(clean):
    sources, targets = map(list, clean)
    hostile = '<script src="https://example.com/x.js">alert(1)</script><img src=x onerror=y>'
    sources[5], targets[9], targets[11] = hostile, hostile, " "
    targets[700:800] = [*targets[701:800], targets[700]]
    page = report_as_html(examine(sources, targets), [f"a{hostile}.en", "a.es"])
    assert "default-src 'none'" in page
    assert hostile not in page
    assert "&lt;script" in page
    without_text = page.replace("&lt;", "").replace("&quot;", "")
    assert not re.search(r"<(script|img|link|iframe|object)\b|\son\w+=\"|url\(|@import", without_text)
    assert "lines 701 to 800: the target is 1 line early" in page
    assert "links between the words" in page
    ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", page))


def scores_of(pairs: Pairs, ignorant: bool = False):
    """Return a model that expects a target from the source that it stood with in `pairs`, and takes no long pair."""
    right = set(zip(*pairs, strict=True))

    def score(sources, targets):
        assert len(sources) == len(targets) <= 8192
        noise = np.random.default_rng(len(sources)).normal(0, 0.5, len(sources))
        known = [(source, target) in right and not ignorant for source, target in zip(sources, targets, strict=True)]
        lengths = np.array([max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)])
        return np.where(lengths < 150, noise - np.where(known, 1.0, 5.0), np.nan)

    return score


@pytest.mark.parametrize("share", [0.01, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.05, 0.2)), 0.4])
def test_a_model_finds_the_pairs_that_are_no_translations(clean, share):
    sources, targets = clean
    wrong = np.random.default_rng(3).choice(2_500, int(share * 2_500), replace=False)
    ruined = list(targets)
    for i, j in zip(wrong, np.roll(wrong, 1), strict=True):
        ruined[i] = targets[j]
    report = examine_model(sources, ruined, scores_of(clean))
    marked = {line - 1 for line in marked_lines(report, "not_translation")}
    # How many are wrong is estimated: of 25, some are left to chance.
    assert len(marked & {*wrong}) > 0.85 * len(wrong)
    assert len(marked - {*wrong}) < 0.05 * len(wrong)


def examine_model(sources: list[str], targets: list[str], score) -> CorpusReport:
    return examine_corpus(lambda: zip(range(1, len(sources) + 1), sources, targets, strict=True), score=score)


def test_shifted_lines_stay_shifted_lines_with_a_model(clean):
    sources, targets = clean
    shifted = [*targets[:500], targets[799], *targets[500:799], *targets[800:]]
    report = examine_model(sources, shifted, scores_of(clean))
    assert report.blocks == [Shift(501, 800, 1)]
    assert "not_translation" not in report.marks


def test_pairs_that_a_model_cannot_take_are_not_judged(clean):
    sources, targets = [*clean[0]], [*clean[1]]
    sources[7] = "very " * 99
    report = examine_model(sources, targets, scores_of(clean))
    assert "not_translation" not in report.marks
    assert report.notes == [
        "whether 1 of the pairs are translations, which are too long for the model or have an empty side"
    ]


def test_a_model_that_does_not_know_the_text_is_refused(clean):
    with pytest.raises(ValueError, match="the model hardly tells the pairs of this text from shuffled ones; it must "):
        examine_model(clean[0], clean[1], scores_of(clean, ignorant=True))
    with pytest.raises(ValueError, match="the model can take none of these pairs"):
        examine_model(clean[0], clean[1], lambda sources, targets: np.full(len(sources), np.nan))


def test_a_fifth_of_the_lines_in_the_wrong_language_is_found(clean):
    sources, targets = clean
    mixed = [source if i % 5 == 0 else target for i, (source, target) in enumerate(zip(sources, targets, strict=True))]
    marked = {*marked_lines(examine(sources, mixed), "language")}
    assert len(marked & {*range(1, 2_501, 5)}) > 450
    assert len(marked - {*range(1, 2_501, 5)}) < 10


def test_an_empty_unit_is_one_fault_and_repeats_nothing(clean):
    sources, targets = map(list, clean)
    for line in range(100, 1_100, 20):
        sources[line], targets[line] = "", ""
    for line in range(1_200, 1_500, 10):
        # A source that is not translated here, and is on another line, has no second target.
        sources[line], targets[line] = sources[3], " "
    report = examine(sources, targets)
    assert marked_lines(report, "empty") == [*range(101, 1_101, 20), *range(1_201, 1_501, 10)]
    assert set(report.findings) == {"empty"}


NAMES = [
    ("Open the file in Visual Studio Code.", "Abre el archivo en Visual Studio Code."),
    ("File > Save As > Microsoft Word Document", "File > Save As > Microsoft Word Document"),
    ("Set SMTP_SERVER_HOST in settings.json.", "Indica SMTP_SERVER_HOST en settings.json."),
    ("Philip Glass and the Royal Philharmonic Orchestra", "Philip Glass y la Royal Philharmonic Orchestra"),
    ('The label says "press and hold the button".', 'La etiqueta dice "press and hold the button".'),
    ("Johannes Gutenberg, Wolfgang Amadeus Mozart, Schiller", "Johannes Gutenberg, Wolfgang Amadeus Mozart, Schiller"),
    ("HTTP/2, TLS 1.3, OAuth, JSON Web Token", "HTTP/2, TLS 1.3, OAuth, JSON Web Token"),
    ("Run `git checkout --theirs` or <b>git merge</b>.", "Ejecuta `git checkout --theirs` o <b>git merge</b>."),
    ("Business Central on-premises", "Business Central on-premises"),
    ("See https://www.example.org/what/is/the/weather/like", "Ve https://www.example.org/what/is/the/weather/like"),
]  # fmt: skip


@pytest.mark.parametrize("exchanged", [False, True])
def test_names_codes_and_words_of_both_sides_are_no_wrong_language(clean, exchanged):
    """A name, a quoted word or a command is in the same language on both sides, and says nothing about either."""
    sources, targets = map(list, clean)
    for line, (source, target) in zip(range(20, 2_500, 240), NAMES, strict=False):
        sources[line], targets[line] = source, target
    targets[7] = "The children played in the garden behind the house."
    targets[11] = "Les enfants jouaient dans le jardin derrière la maison avec leurs parents."
    targets[15] = sources[15]
    report = examine(*((targets, sources) if exchanged else (sources, targets)))
    assert marked_lines(report, "language") == [8, 12, 16]


def test_a_text_in_capitals_has_languages_and_one_of_abbreviations_has_none(clean):
    sources, targets = ([text.upper() for text in side] for side in clean)
    targets[40] = "THE CHILDREN PLAYED IN THE GARDEN BEHIND THE HOUSE."
    assert marked_lines(examine(sources, targets), "language") == [41]
    report = examine(["XML, JSON, TOML"] * 30, ["XML, JSON & TOML"] * 30)
    assert "both sides look like one language" in report.notes[-1]


def test_the_language_of_a_line_in_a_script_without_spaces_is_told(clean):
    syllables = np.array([*"あいうえおかきくけこさしすせそたちつてと日本語東京大学生"])
    at = np.random.default_rng(5)
    targets = ["".join(at.choice(syllables, 17)) + "。" for _ in clean[0]]
    targets[40], targets[90] = "The children played in the garden behind the house.", clean[0][90]
    assert marked_lines(examine(clean[0], targets), "language") == [41, 91]
