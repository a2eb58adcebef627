"""Terminology: what a file says, what a sentence asks for, and how a term is written in pieces."""

import gzip
import random
import re
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.tokenizer import EOS, UNK, Tokenizer, TokenizerConfig
from pellucid.decode.terms.matches import TermSpan, protected_span
from pellucid.decode.terms.required import EDGE, edge_positions
from pellucid.decode.terms.spellings import target_spellings, term_spellings, unwritable_texts
from pellucid.localize.terminology import Terms
from tests.decode.models import LINES, small_tokenizer
from tests.growth import assert_linear

TERMS = Terms.from_pairs(
    [
        ("dog", "Köter"),
        ("York", "York"),
        ("New York", "Neu-York"),
        ("York City", "Stadt York"),
        ("US", "Vereinigte Staaten"),
        ("Polish", "polnisch"),
        ("polish", "polieren"),
        ("cat", "Katze"),
        ("cat", "Kater"),
        ("C++", "C++"),
        ("straße", "road"),
    ]
)


def matched_targets(text: str, terms: Terms = TERMS) -> list[tuple[str, ...]]:
    return [match.targets for match in terms.matches(text)]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("", []),
        ("nothing here", []),
        ("A dog.", [("Köter",)]),
        ("A dog's dog", [("Köter",), ("Köter",)]),  # each for itself
        ("dogs, adogs, dog1, hotdog", []),  # whole words
        ("Dog DOG (dog) dog-like", [("Köter",)] * 4),
        ("New York", [("Neu-York",)]),  # the longest
        ("New\u00a0 York", [("Neu-York",)]),
        ("NEW YORK", [("Neu-York",)]),
        ("New York City", [("Stadt York",)]),  # longer than "New York", which overlaps it
        ("York New York", [("York",), ("Neu-York",)]),
        ("tell us, US", [("Vereinigte Staaten",)]),
        ("Us", []),
        ("polish", [("polieren",)]),
        ("Polish", [("polnisch",)]),
        ("POLISH", [("polnisch", "polieren")]),  # neither is written so: either will do
        ("cat", [("Katze", "Kater")]),
        ("C++, C++11, C+", [("C++",), ("C++",)]),
        ("STRASSE", [("road",)]),
    ],
)
def test_the_terms_of_a_sentence(text, targets):
    assert matched_targets(text) == targets


def test_of_overlapping_terms_of_one_length_the_first_is_taken():
    assert matched_targets("a b a b a", Terms.from_pairs([("a b", "1"), ("b a", "2")])) == [("1",), ("1",)]


def test_an_accent_is_the_same_however_it_is_written():
    for source in ("caf\u00e9", "cafe\u0301"):
        for text in ("Caf\u00e9!", "Cafe\u0301!"):
            assert matched_targets(text, Terms.from_pairs([(source, "Kaffeehaus")])) == [("Kaffeehaus",)]
    assert matched_targets("cafe\u0301", Terms.from_pairs([("cafe", "x")])) == []


def test_terms_are_found_where_no_spaces_are_written():
    assert matched_targets("我有一只狗。", Terms.from_pairs([("狗", "dog")])) == [("dog",)]


def test_a_match_says_what_stands_in_the_source():
    assert [match.source for match in TERMS.matches("A DOG in New  York")] == ["DOG", "New York"]


def test_spans_count_single_spaces_and_composed_accents():
    [match] = Terms.from_pairs([("dog", "Köter")]).matches("  The  cafe\u0301 dog.")
    assert match.span == TermSpan(9, 12)
    assert protected_span("  The  cafe\u0301 {x}.", 13, 16) == TermSpan(9, 12, protected=True)


def test_a_file_of_terms(tmp_path):
    path = tmp_path / "terms.tsv"
    text = "# animals\n\ndog\tKöter\n#tag\t#Schild\ncat \t  Katze\ndog\tHund\r\n  \n"
    path.write_bytes(text.encode())
    terms = Terms.read(path)
    assert terms == Terms.from_pairs([("dog", "Köter"), ("#tag", "#Schild"), ("cat", "Katze"), ("dog", "Hund")])
    assert matched_targets("dog #tag cat", terms) == [("Köter", "Hund"), ("#Schild",), ("Katze",)]
    path.write_bytes(gzip.compress(text.encode()))
    assert Terms.read(path) == terms


def test_every_wrong_line_of_a_file_is_named(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tHund\ncat\ncow\t\na\tb\tc\td\n", encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=r"terms.tsv:2 has 1 columns, .*; \S+terms.tsv:3 .*one is empty; \S+:4 has 4 col.*perhaps a comment",
    ):
        Terms.read(path)
    path.write_text("x\n" * 7, encoding="utf-8")
    with pytest.raises(ValueError, match=r"terms.tsv:5 has 1 columns[^;]+; and 2 more$"):
        Terms.read(path)
    for empty in ("", "# nothing\n\n"):
        path.write_text(empty, encoding="utf-8")
        with pytest.raises(ValueError, match=r"terms.tsv has no terms; expected lines of"):
            Terms.read(path)
    path.write_bytes(b"dog\tK\xf6ter\n")
    with pytest.raises(ValueError, match=r"terms.tsv:1:6: byte 0xF6 is not UTF-8"):
        Terms.read(path)


def test_a_comment_in_a_third_column_is_read_over(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tHund\tan animal\ncat\tKatze\t\n", encoding="utf-8")
    assert Terms.read(path) == Terms.from_pairs({"dog": "Hund", "cat": "Katze"})


def test_a_mapping_is_read_as_its_pairs_and_never_by_its_letters():
    assert Terms.from_pairs({"is": "ist", "ball": "Ball"}) == Terms.from_pairs([("is", "ist"), ("ball", "Ball")])
    for wrong, message in (
        ("is", "terms are 'is', expected a mapping"),
        (["is"], "pair 1 of the terms is 'is', expected two"),
    ):
        with pytest.raises(ValueError, match=message):
            Terms.from_pairs(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="pair 1 of the terms is \\('is', 5\\), expected two texts"):
        Terms.from_pairs([("is", 5)])  # pyright: ignore[reportArgumentType]


def draw_text(generator: random.Random, most: int) -> str:
    words = ["a", "b", "A", "ab", "AB", "-", "."]
    return " ".join("".join(generator.choices(words, k=generator.randint(1, 2))) for _ in range(most))


def draw_terms(generator: random.Random, most: int) -> dict[str, str]:
    return {draw_text(generator, generator.randint(1, 5)): draw_text(generator, 1) for _ in range(most)}


def test_terms_of_a_request_go_before_those_of_the_server():
    combined = Terms.from_pairs([("dog", "Hund"), ("cat", "Katze")]).with_others(Terms.from_pairs({"dog": "Köter"}))
    assert matched_targets("a cat and a dog", combined) == [("Katze",), ("Köter",)]
    generator = random.Random(7)
    for _ in range(500):
        server, request = (draw_terms(generator, generator.randint(0, 12)) for _ in range(2))
        text = draw_text(generator, generator.randint(0, 20))
        combined = Terms.from_pairs(server).with_others(Terms.from_pairs(request))
        assert combined.matches(text) == Terms.from_pairs({**server, **request}).matches(text)


def test_nothing_of_the_terms_of_the_server_is_made_again(monkeypatch):
    server_terms = Terms.from_pairs({f"w{i}": "bola" for i in range(500)})
    server_terms.prepare(small_tokenizer())
    monkeypatch.setattr(Terms, "from_rows", None)  # whatever makes terms of pairs
    with_own = [server_terms.with_others(Terms({"dog": ("casa",)}, {"dog": ("dog",)})) for _ in range(2)]
    monkeypatch.setattr(Tokenizer, "encode_target", lambda self, lines: [[5, EOS] for _ in lines if lines == ["casa"]])
    monkeypatch.setattr(Tokenizer, "decode_targets", lambda self, rows: ["casa" for _ in rows])
    for terms in with_own:
        terms.prepare(small_tokenizer())
        assert matched_targets("dog w7", terms) == [("casa",), ("bola",)]
        assert terms.base is server_terms


def test_pairs_with_an_empty_side_are_named():
    with pytest.raises(ValueError, match=r"pair 2 has 2 columns, expected 2: .*; one is empty; pair 3 has"):
        Terms.from_pairs([("a", "b"), (" ", "b"), ("a", "")])


def test_no_terms_ask_for_nothing():
    assert matched_targets("A dog.", Terms.from_pairs([])) == []


def test_a_sentence_asks_for_its_targets_in_pieces():
    tokenizer = small_tokenizer()
    bola, casa, gato = (term_spellings(tokenizer, text, capital=True) for text in ("bola", "casa", "gato"))
    terms = Terms.from_pairs([("ball", "bola"), ("house", "casa"), ("cat", "gato"), ("cat", "casa")])
    matches = terms.matches("The house, the ball, the house. A cat.")
    spellings = [target_spellings(tokenizer, match.targets) for match in matches]
    assert spellings == [casa, bola, casa, (*gato, *casa)]


def test_targets_without_pieces_are_named_after_one_call_of_the_tokenizer(monkeypatch):
    tokenizer = small_tokenizer()
    TERMS.refuse_unwritable(tokenizer)
    encode, calls = Tokenizer.encode_target, []

    def encode_with_unknown(self: Tokenizer, lines: list[str]) -> list[list[int]]:
        calls.append(lines)
        return [[UNK, EOS] if "ö" in line else ids for line, ids in zip(lines, encode(self, lines), strict=True)]

    monkeypatch.setattr(Tokenizer, "encode_target", encode_with_unknown)
    decode = Tokenizer.decode_targets  # of an imported tokenizer it is a text that may be asked for
    monkeypatch.setattr(
        Tokenizer,
        "decode_targets",
        lambda self, rows: ["Köter" if UNK in ids else decode(self, [ids])[0] for ids in rows],
    )
    with pytest.raises(ValueError, match=r"^the term 'Köter' cannot be written by this model$"):
        Terms(TERMS.exact).refuse_unwritable(tokenizer)
    assert len(calls) == 1


@pytest.mark.parametrize("text", ["a\nb", "a  b", " a", "a ", "", "bola", "犬", "(", "Köter"])
def test_all_texts_that_cannot_be_written_are_found_at_once(text):
    for tokenizer in (small_tokenizer(), lowercase_tokenizer()):
        try:
            term_spellings(tokenizer, text)
        except ValueError:
            assert unwritable_texts(tokenizer, ["casa", text, "bola"]) == [text]
        else:
            assert unwritable_texts(tokenizer, ["casa", text, "bola"]) == []


TEXT = st.lists(st.sampled_from(["la", "bola", "{", "}", "x", "1", ".", "é", "犬", "(", "a", " b"]), min_size=1)
NEIGHBOURS = st.lists(st.integers(4, 306), max_size=4)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(TEXT.map("".join).map(str.strip), NEIGHBOURS, NEIGHBOURS)
def test_whatever_stands_around_a_spelling_the_text_has_the_term(text, before, after):
    tokenizer = small_tokenizer()
    for spelling in term_spellings(tokenizer, text, touching=True):
        assert text in tokenizer.decode_target([*before, *spelling, *after])


def test_a_term_is_spelled_with_a_word_start_and_without():
    tokenizer = small_tokenizer()
    marked, unmarked = term_spellings(tokenizer, "bola", touching=True)
    assert tokenizer.target_pieces(marked)[0].startswith("▁")
    assert "".join(tokenizer.target_pieces(unmarked)) == "bola"
    [quoted] = tokenizer.encode_target(['("bola" x'])
    assert any(tuple(quoted[i : i + len(unmarked)]) == unmarked for i in range(len(quoted)))


def test_a_term_has_edges_unless_it_may_be_touched():
    tokenizer = small_tokenizer()
    edged = term_spellings(tokenizer, "{x}")
    assert all(spelling[0] == spelling[-1] == EDGE for spelling in edged)
    assert tuple(spelling[1:-1] for spelling in edged) == term_spellings(tokenizer, "{x}", touching=True)


def test_small_letters_may_be_capital_at_the_start():
    tokenizer = small_tokenizer()
    texts = lambda text: {tokenizer.decode_target(ids[1:-1]) for ids in term_spellings(tokenizer, text, capital=True)}  # noqa: E731
    assert texts("bola azul") == {"bola azul", "Bola azul"}
    for fixed in ("Bola", "https://a.b", "{x}", "x1", "1"):
        assert texts(fixed) == {fixed}


def test_the_shortest_spelling_adds_no_capital():
    lines = ["Q Q Q Q Qx Qx Qx"] * 3 + LINES
    tokenizer = Tokenizer.train(lines, lines, TokenizerConfig(vocabulary=320), seed=1, max_sentences=100)
    for text in ("qx", "la"):
        shortest = min(term_spellings(tokenizer, text, capital=True), key=len)
        assert tokenizer.decode_target(shortest[1:-1]) == text


@cache
def lowercase_tokenizer() -> Tokenizer:
    config = TokenizerConfig(vocabulary=300, lowercase=True)
    return Tokenizer.train(LINES, LINES, config, seed=1, max_sentences=100)


def test_a_tokenizer_without_capitals_writes_terms_in_small_letters():
    assert lowercase_tokenizer().decode_target(term_spellings(lowercase_tokenizer(), "La Bola")[0][1:-1]) == "la bola"


@pytest.mark.parametrize("text", ["a\nb", "a  b", " a", "a ", "", " "])
def test_a_term_that_no_pieces_write_is_refused(text):
    with pytest.raises(ValueError, match=re.escape(f"the term {text!r} cannot be written by this model")):
        term_spellings(small_tokenizer(), text)


def choose_plainly(terms: Terms, text: str) -> list[str]:
    """Return the terms of a text as the docstring of `Terms` says it, by trying every span."""
    edges = edge_positions(text)
    spans = [(start, end) for i, start in enumerate(edges) for end in edges[i + 1 :] if terms.targets(text[start:end])]
    chosen: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        if all(end <= other_start or other_end <= start for other_start, other_end in chosen):
            chosen.append((start, end))
    return [text[start:end] for start, end in sorted(chosen)]


def test_the_terms_found_are_the_longest_and_of_equally_long_ones_the_first():
    generator = random.Random(3)
    for _ in range(500):
        terms = Terms.from_pairs(dict.fromkeys(draw_terms(generator, generator.randint(1, 12)), "x"))
        text = draw_text(generator, generator.randint(0, 20))
        assert [match.source for match in terms.matches(text)] == choose_plainly(terms, text)


def nested_terms(words: list[str]) -> dict[str, str]:
    """Return terms of one word, two words and so on, with as many words in all as are given."""
    return {" ".join(words[:size]): "x" for size in range(1, int((2 * len(words)) ** 0.5))}


GROWING = {
    "one long term": lambda n: ({" ".join(f"w{i}" for i in range(n)): "x"}, [f"w{i}" for i in range(n)]),
    "one word again and again": lambda n: ({" ".join(["a"] * n): "x"}, ["a"] * n),
    "a term that nearly stands there": lambda n: ({" ".join(["a"] * (n // 2) + ["b"]): "x"}, ["a"] * n),
    "many terms": lambda n: ({f"w{i}": "x" for i in range(n)}, [f"w{i}" for i in range(n)]),
    "nested terms": lambda n: (nested_terms(["a"] * n), ["a"] * n),
    "nested terms of many words": lambda n: (nested_terms([f"w{i}" for i in range(n)]), [f"w{i}" for i in range(n)]),
}


@pytest.mark.parametrize("growing", GROWING)
def test_finding_terms_takes_linear_time(growing: str):
    def measure_seconds(words: int) -> float:
        terms, text = GROWING[growing](words)
        start = time.process_time()
        Terms.from_pairs(terms).matches(" ".join(text))
        return time.process_time() - start

    assert_linear(measure_seconds, 2_400)
