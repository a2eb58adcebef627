"""What comes in comes out: as many lines, in their order, with the white space, tabs and emoji around them."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.data.tokenizer import EOS
from pellucid.decode.config import SearchConfig
from pellucid.decode.translate import Translator
from pellucid.text.line_splitting import split_line
from pellucid.text.markup import TAG, list_protected
from tests.decode.models import model_that_writes, random_model, small_tokenizer

law = settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

PIECES = [
    *"ab.?!,–。\t\r\v\u2028\u3000\u00a0\ufeff\0️‍\u0301▁▅",
    " ",
    "the",
    "<b>",
    "</b>",
    "{x}",
    "😀",
    "👩🏽‍🚀",
    "🇺🇦",
    "1️⃣",
]
# Short enough for the model, whose 97 positions take a byte each at worst.
LINES = st.lists(
    st.lists(st.one_of(st.sampled_from(PIECES), st.characters(exclude_categories=["Cs"])), max_size=7).map("".join),
    max_size=9,
)
FAST = SearchConfig(method="greedy", max_extra=3)
PLAIN = SearchConfig(method="greedy", max_extra=3, markup="text", batch=512)


@pytest.fixture(scope="module")
def talkative() -> Translator:
    """Writes whatever it likes, any byte among it."""
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


@pytest.fixture(scope="module")
def silent() -> Translator:
    """Ends every sentence at once, so that all that is left of a line is what was never given to it."""
    tokenizer = small_tokenizer()
    return Translator(model_that_writes(EOS, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


def around(line: str) -> tuple[str, ...]:
    return split_line(line, lambda text: True).gaps


def stands_in(gaps: tuple[str, ...], text: str) -> bool:
    """Whether the text begins with the first gap, ends with the last and has the others between them, in order."""
    first, *inner, last = gaps if len(gaps) > 1 else (*gaps, "")
    at = len(first)
    for gap in inner:
        found = text.find(gap, at)
        if found < 0:
            return False
        at = found + len(gap)
    return text.startswith(first) and text.endswith(last) and at + len(last) <= len(text)


@settings(law, max_examples=10)
@given(LINES)
def test_any_lines_come_out_as_many_in_their_order(talkative: Translator, lines: list[str]):
    found = talkative.translate(lines, FAST)
    assert len(found) == len(lines)
    for line, translation in zip(lines, found, strict=True):
        if split_line(line, lambda text: True).segments:
            assert stands_in(around(line), translation.text)
        else:
            assert (translation.text, translation.stop) == (line, "empty")
    # One line at a time says whether any was answered with another's translation.
    assert [t.text for t in found] == [talkative.translate([line], FAST)[0].text for line in lines]
    assert [t.text for t in talkative.translate_stream(iter(lines), FAST, block=2)] == [t.text for t in found]


@law
@given(LINES)
def test_what_is_around_the_sentences_is_what_it_was(silent: Translator, lines: list[str]):
    assert [t.text for t in silent.translate(lines, PLAIN)] == ["".join(around(line)) for line in lines]


@law
@given(LINES)
def test_every_tag_comes_out_once(silent: Translator, lines: list[str]):
    for line, found in zip(lines, silent.translate(lines, FAST), strict=True):
        assert sorted(m[0] for m in TAG.finditer(found.text)) == sorted(m[0] for m in TAG.finditer(line))


@pytest.mark.parametrize("blank", ["", " ", "\t \u00a0", "\u2028", "😀", " 👩🏽‍🚀\t🇺🇦 ", "\ufeff"])
def test_a_line_with_nothing_to_translate_stays_as_it_is(talkative: Translator, blank: str):
    [found] = talkative.translate([blank], SearchConfig(n_best=2))
    assert (found.text, found.score, found.stop, found.pieces, found.notes) == (blank, 0.0, "empty", [], ())


@pytest.mark.parametrize("line", ["<b></b>", "<br/>", " <p> </p>\t<br/>", "<b>😀</b>"])
def test_nothing_is_invented_where_there_are_tags_and_no_words(talkative: Translator, line: str):
    assert talkative.translate([line], FAST)[0].text == line


@pytest.mark.parametrize("search", [{"beam": 2, "n_best": 2}, {"method": "sample", "n_best": 2}, {"method": "greedy"}])
def test_alternatives_have_the_same_around_them(talkative: Translator, search: dict):
    [found] = talkative.translate([" \t The ball. 😀 "], SearchConfig(max_extra=3, **search))
    assert len(found.alternatives) == search.get("n_best", 1) - 1
    for each in (found, *found.alternatives):
        assert each.text.startswith(" \t ")
        assert each.text.endswith(" 😀 ")


def test_a_line_too_long_for_the_model_is_split_and_says_so(talkative: Translator, silent: Translator):
    long = "\u3000" + "The ball is blue. " * 60 + "x" * 200 + "\t汉" * 50 + "😀"
    for translator in (talkative, silent):
        short, found, _ = translator.translate(["The ball.", long, "The ball."], FAST)
        assert short.notes == ()
        assert any(note.startswith("split into ") for note in found.notes)
        assert found.text.startswith("\u3000")
        assert found.text.endswith("😀")
        assert found.text.count("\t") >= 50
    # The sentences are translated whole: nothing but white space stood between them.
    assert silent.translate([long], PLAIN)[0].text.split() == ["😀"]
    with pytest.raises(ValueError, match="line 2"):
        silent.translate(["The ball.", long], SearchConfig(too_long="refuse"))


def test_files_of_any_kind_come_out_line_for_line(silent: Translator, pellucid_data: Path):
    files = sorted(path for path in (pellucid_data / "messy").rglob("*") if path.is_file() and path.suffix != ".gz")
    if not files:
        pytest.skip("no messy files among the test corpora")
    lines = [line for path in files for line in path.read_bytes()[:4000].decode("utf-8", "replace").split("\n")]
    assert len(lines) > 1000
    for line, found in zip(lines, silent.translate_stream(iter(lines), PLAIN), strict=True):
        if not found.notes:
            assert found.text == "".join(around(line))
    few = [line for line in lines if not list_protected(line)][::3]  # placeholders take another search, and time
    for line, found in zip(few, silent.translate_stream(iter(few), FAST), strict=True):
        gaps = around(line)
        assert stands_in(gaps if len(gaps) == 1 else (gaps[0], gaps[-1]), found.text)


@pytest.mark.slow
def test_a_million_lines_come_out_in_order_and_few_are_held(silent: Translator):
    total, block, done = 1_000_000, 2048, 0

    def line(number: int) -> str:
        """Around a word, its number in white space and tabs."""
        return "".join(" \t\u3000\u00a0"[int(digit)] for digit in f"{number % 256:b}") + "The" + "\u2028" * (number % 3)

    def lines() -> Iterator[str]:
        for number in range(total):
            assert number - done < block
            yield line(number) if number % 5 else "\t" * (number % 11)

    for found in islice(silent.translate_stream(lines(), PLAIN, block=block), total + 1):
        assert found.text == (line(done).replace("The", "") if done % 5 else "\t" * (done % 11))
        done += 1
    assert done == total
