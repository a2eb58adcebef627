"""Where words come from: nothing is said of a word that is there without its cause, and what was planted is named."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.decode.line_segments import Line, TranslationTask
from pellucid.decode.request import SearchConfig
from pellucid.decode.stages.provenance import NameOrigins
from pellucid.decode.translation import MemoryMatch, Translation
from pellucid.localize.terminology import Terms
from pellucid.localize.translation_memory import TranslationMemory
from tests.decode.models import LINES
from tests.documents.samples import TMX
from tests.serve.servers import client, request_body, small_model

UNIT = MemoryMatch("The dog sees the cat.", "El can ve el gato.", 0.8, "old.tmx:7 (unit 2)")
TEXTS = st.lists(st.sampled_from(["el", "can", "ve", "gato", "perro"]), max_size=8).map(" ".join)


def translation(text: str, **fields: object) -> Translation:
    return Translation(text, -1.0, -1.0, **{"stop": "eos", **fields}, pieces=[], piece_log_probs=[], source_pieces=[])  # pyright: ignore


def write(text: str, **fields: object) -> Callable[[list[Line]], list[Translation]]:
    """Return a search that writes this for every line."""
    return lambda lines: [translation(text, **fields) for _ in lines]


def refuse(lines: list[Line]) -> list[Translation]:
    raise AssertionError(lines)


def name(line: str, found: Callable, terms: Terms | None = None, *, no_terms=refuse, no_unit=None, **asked) -> list:
    task = TranslationTask([Line(line, 1, **asked)], SearchConfig(provenance=True), terms)

    def make_search(again: TranslationTask) -> Callable:
        assert not again.config.provenance
        return no_terms if again.terms is not task.terms else no_unit or refuse

    [named] = NameOrigins(task, make_search, reads_units=no_unit is not None)(task.lines, found)
    origins = named.provenance or ()
    assert [origin.word for origin in origins] == named.text.split()
    return [(origin.origin, origin.place) for origin in origins]


@given(TEXTS, TEXTS, TEXTS)
def test_a_word_that_is_there_without_the_unit_is_never_said_to_come_from_it(text, without, target):
    unit = MemoryMatch("a", target, 0.8, "here")
    origins = name("a", write(text, remembered=unit), no_unit=write(without))
    counts, others = Counter(text.split()), Counter(without.split())
    for word, (origin, _) in zip(text.split(), origins, strict=True):
        if origin == "memory":
            assert word in target.split()
            assert counts[word] > others[word]
    # Where the unit brought one word in the place of another, nothing is left unsaid.
    changed = [place for place, word in enumerate(text.split()) if word not in others and word in target.split()]
    assert [origins[place] for place in changed] == [("memory", "here")] * len(changed)


def test_a_word_of_a_unit_that_was_read_is_named_and_one_that_moved_is_not():
    found = write("El can «ve» el pájaro.", remembered=UNIT)
    origins = name("The dog sees the bird.", found, no_unit=write("El perro ve el pájaro."))
    assert origins == [("model", ""), ("memory", UNIT.place), *[("model", "")] * 3]
    moved = name("The dog", write("ve el can", remembered=UNIT), no_unit=write("el can ve"))
    assert moved == [("model", "")] * 3
    # A model that reads no units got nothing from one.
    assert name("The dog", found) == [("model", "")] * 5


def test_all_words_of_the_same_line_come_from_its_unit():
    assert name("x", write("El can.", remembered=UNIT, stop="memory"), no_unit=refuse) == [("memory", UNIT.place)] * 2


def test_a_term_is_named_also_in_another_form_unless_the_model_writes_it_anyhow():
    terms = Terms.from_pairs([("dog", "can rojo"), ("bird", "pájaro")])
    found, without = write("Los canes rojos ven un pájaro."), write("Los perros ven un pájaro.")
    origins = name("The dogs, a bird, the dog", found, terms, no_terms=without)
    assert origins == [("model", ""), ("term", "pair 1"), ("term", "pair 1"), *[("model", "")] * 3]
    assert name("The cat.", found, terms) == [("model", "")] * 6
    given_words = name("The dog", found, terms, no_terms=without, prefix="Los canes")
    assert given_words[:3] == [("prefix", ""), ("prefix", ""), ("term", "pair 1")]


def test_a_text_without_letters_is_searched_only_for_its_term():
    seen: list[Line] = []

    def keep(lines: list[Line]) -> list[Translation]:
        seen.extend(lines)
        return write("7")(lines)

    assert name("7", write("siete"), Terms.from_pairs({"7": "siete"}), no_terms=keep, has_terms=True) == [
        ("term", "pair 1")
    ]
    assert [line.has_terms for line in seen] == [False]


def test_places_are_those_of_the_files(tmp_path):
    glossary, memory = tmp_path / "g.tsv", tmp_path / "m.tmx"
    glossary.write_text("# mine\nball\tpelota\nBall\tbola\nball\tbalón\n", encoding="utf-8")
    terms = Terms.read(glossary)
    assert [terms.find_place("BALL", target) for target in terms.targets("BALL")] == ["g.tsv:2", "g.tsv:4", "g.tsv:3"]
    assert terms.with_others(Terms.from_pairs({"cat": "gato"})).find_place("ball", "pelota") == "g.tsv:2"
    memory.write_bytes(TMX)
    match = TranslationMemory.read(memory, "en", "es").find("Done.")
    assert match is not None
    assert match.place == "m.tmx:4 (unit 2)"


def test_a_model_names_its_terms_and_its_memory():
    memory = TranslationMemory([(LINES[1], "Otra cosa.")])
    options = {"terms": {"ball": "pelota"}, "translation_memory": memory}
    plain = small_model().translate(LINES[:2], **options)
    first, second = small_model().translate(LINES[:2], **options, provenance=True)
    assert [first.text, second.text] == [translation.text for translation in plain]
    assert plain[0].provenance is None
    assert [origin.origin for origin in second.provenance or ()] == ["memory", "memory"]
    assert {origin.origin: "pelota" in origin.word for origin in first.provenance or ()}["term"]


@pytest.mark.parametrize("several", [False, True])
def test_a_server_answers_with_the_origins(several):
    lines = LINES[0]
    with client(translation_memory=TranslationMemory([(LINES[0], "La pelota.")])) as server:
        body = request_body([lines] if several else lines, provenance=True)
        answer = server.post("/translate", json=body).json()["provenance"]
        words = answer[0] if several else answer
        assert [(word["word"], word["origin"]) for word in words] == [("La", "memory"), ("pelota.", "memory")]
        assert "provenance" not in server.post("/translate", json=request_body(lines)).json()
