"""A note names the characters that an imported vocabulary has no piece for; one with bytes spells every character."""

import io

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from pellucid.data.tokenizer import UNK, ListedPieces, Tokenizer, TokenizerConfig
from pellucid.decode.request import SearchConfig
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.translator import Translator
from tests.decode.models import LINES, random_model, small_tokenizer

SHORT = SearchConfig(beam=2, max_extra=3)


@pytest.fixture(scope="module")
def imported() -> Tokenizer:
    """Return a tokenizer like those of OPUS-MT: text normalised by nmt_nfkc, no bytes, a list that lacks "house"."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*LINES, "1 2 3 house house house house"] * 3),
        model_writer=model,
        vocab_size=70,
        normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    side = SentencePieceProcessor(model_proto=model.getvalue())
    names = [side.id_to_piece(i) for i in range(3, side.vocab_size())]
    listed = ListedPieces(side, ["<pad>", "<unk>", "<s>", "</s>", *(name for name in names if name != "▁house")])
    return Tokenizer(listed, listed, TokenizerConfig(kind="marian", vocabulary=99))


def notes_of(tokenizer: Tokenizer, line: str) -> tuple[str, ...]:
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    [translation] = Translator(model, tokenizer).translate([line], SHORT)
    return tuple(note for note in translation.notes if "vocabulary" in note)


def test_characters_without_a_piece_are_named_once_in_their_order(imported):
    assert notes_of(imported, "The ball ₿ is ж blue ₿.") == ("the vocabulary has no piece for 2 characters: ₿ ж",)
    assert notes_of(imported, "The ж. Where is ж?") == ("the vocabulary has no piece for 1 character: ж",)
    # Pictures are put where the words beside them went, and not read.
    assert notes_of(imported, "The ☃ ball is blue.") == ()
    assert notes_of(imported, "The ball is blue.") == ()
    # ASCII can be unknown, too.
    assert notes_of(imported, "The ball {is} blue^") == ("the vocabulary has no piece for 3 characters: { } ^",)


def test_what_the_tokenizer_spells_plainly_is_known(imported):
    assert UNK not in imported.encode_source_text(["①"])[0]
    assert SourceReader(imported).unknown_characters(["①\u00a0☃"]) == ["☃"]


def test_a_piece_that_is_not_listed_is_told_without_characters(imported):
    assert UNK in imported.encode_source_text(["house"])[0]
    assert notes_of(imported, "Where is the house") == (
        "the vocabulary has no piece for a part of it, which the model reads as unknown",
    )


def test_a_character_that_nobody_can_see_is_named_by_its_code(imported):
    [note] = notes_of(imported, "The ball is\u0602 blue.")
    assert note == "the vocabulary has no piece for 1 character: U+0602"


def test_a_vocabulary_with_bytes_has_no_note_on_each_line():
    assert notes_of(small_tokenizer(), "The ball ₿ is ☃ blue.") == ()
