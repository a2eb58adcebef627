import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.localize.translation_memory import SIMILAR, TranslationMemory, measure_similarity
from tests.decode.models import LINES
from tests.documents.samples import TMX
from tests.serve.servers import small_model

HOUSE = "A big house."
MEMORY = TranslationMemory(
    [
        ("The ball is blue.", "La pelota es azul."),
        (HOUSE, "Vieja."),
        ("El café.", "x"),
        (HOUSE, "Nueva."),
    ]
)


def test_the_same_sentence_is_found_however_its_letters_and_spaces_are_written():
    for text in ("The ball is blue.", "The  ball\tis blue.", unicodedata.normalize("NFD", "El café.")):
        match = MEMORY.find(text)
        assert match is not None
        assert match.is_exact
    assert MEMORY.find(" The ball is blue.\n").target == " La pelota es azul.\n"  # pyright: ignore
    assert MEMORY.find(HOUSE).target == "Nueva."  # pyright: ignore
    assert len(MEMORY) == 3


def test_a_similar_sentence_is_offered_and_never_taken_for_the_same():
    match = MEMORY.find("The ball is red.")
    assert match is not None
    assert not match.is_exact
    assert match.similarity == measure_similarity(["The", "ball", "is", "red", "."], ["The", "ball", "is", "blue", "."])
    assert match.similarity >= SIMILAR
    assert MEMORY.find("the ball is blue.").is_exact is False  # pyright: ignore
    assert MEMORY.find("A small cat.") is None
    assert MEMORY.find("") is None


@given(st.lists(st.sampled_from(["a", "b", "c", ".", "A"]), max_size=8).map(" ".join))
def test_the_most_similar_sentence_of_all_is_found(text):
    sources = ["a b c .", "a a a", "c b a", "b"]
    memory = TranslationMemory([(source, source) for source in sources])
    match = memory.find(text)
    best = max(measure_similarity(text.split(), source.split()) for source in sources)
    if text in sources:
        assert match is not None
        assert match.is_exact
    else:
        assert (0.0 if match is None else match.similarity) == pytest.approx(best if best >= SIMILAR else 0.0, abs=1e-4)


def test_a_memory_is_used_for_its_own_sentences_only():
    model = small_model()
    lines = [LINES[1], HOUSE, "The ball is red.", "The ball is blue."]
    plain, remembered = model.translate(lines), model.translate(lines, translation_memory=MEMORY, alignments=True)
    assert [t.stop == "memory" for t in remembered] == [False, True, False, True]
    assert [t.text for t in remembered] == [plain[0].text, "Nueva.", plain[2].text, "La pelota es azul."]
    assert [t.remembered and t.remembered.similarity for t in remembered] == [None, 1.0, 0.8, 1.0]
    streamed = list(model.translate_stream(lines, block=2, translation_memory=MEMORY))
    assert [t.text for t in streamed] == [t.text for t in remembered]
    # A translation that must begin otherwise is not in the memory.
    begun = model.translate(lines[1:2], translation_memory=MEMORY, prefixes=["a"])
    assert begun[0].stop != "memory"


def test_a_memory_is_read_from_tmx(tmp_path):
    (tmp_path / "a.tmx").write_bytes(TMX)
    memory = TranslationMemory.read(tmp_path / "a.tmx", "en", "es")
    assert memory.find("Done.").target == "Hecho."  # pyright: ignore
    with pytest.raises(ValueError, match="no unit in both en and fr"):
        TranslationMemory.read(tmp_path / "a.tmx", "en", "fr")
