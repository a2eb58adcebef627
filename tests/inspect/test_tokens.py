import pytest

from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.interpret.studies.word_vectors import count_words_and_pieces, cut_into_pieces
from tests.decode.models import LINES, small_tokenizer

ROSES = "Roses are red and violets are blue"


@pytest.mark.article("A5", "A6")
def test_the_roses_are_seven_words_and_equal_words_are_equal_ids():
    config = TokenizerConfig(kind="bpe", vocabulary=400)
    tokenizer = Tokenizer.train([ROSES] * 3, [ROSES] * 3, config, seed=1, max_sentences=9)
    cut = cut_into_pieces(tokenizer, ROSES)
    assert cut.ids[-1] == EOS
    assert cut.back == cut.text == cut.normalised == ROSES
    id_of = dict(zip(cut.words, cut.ids, strict=True))
    assert cut.words == [*range(7), None]  # each a piece of its own
    assert id_of[1] == id_of[5]  # are
    assert len({id_of[n] for n in range(7)}) == 6
    assert count_words_and_pieces([cut]) == (7, 7, 0)


@pytest.mark.parametrize("text", ["The ball is blue.", "", "zebra Ü 犬", "  two   spaces "])
def test_pieces_spell_the_text_again(text: str):
    cut = cut_into_pieces(small_tokenizer(), text, "target")
    assert cut.back == cut.normalised == " ".join(text.split())
    assert len(cut.pieces) == len(cut.ids) == len(cut.words) == len(cut.unknown)
    assert small_tokenizer().decode_target(cut.ids) == cut.back


def test_many_pieces_and_bytes_are_listed():
    cut = cut_into_pieces(small_tokenizer(), "the unquestionably 犬")
    assert [word for word, _ in cut.many_piece_words] == ["unquestionably", "犬"]
    assert [count for _, count in cut.many_piece_words] == [cut.words.count(1), cut.words.count(2)]
    unknown_pieces = [piece for piece, unknown in zip(cut.pieces, cut.unknown, strict=True) if unknown]
    assert unknown_pieces == [piece for piece in cut.pieces if piece.startswith("<0x")]
    assert unknown_pieces[-3:] == ["<0xE7>", "<0x8A>", "<0xAC>"]
    assert count_words_and_pieces([cut, cut])[2] == 2 * len(unknown_pieces)


def test_lowercase_shows_in_the_normalised_text():
    config = TokenizerConfig(kind="unigram", vocabulary=320, lowercase=True)
    cut = cut_into_pieces(Tokenizer.train(LINES, LINES, config, seed=1, max_sentences=99), "The BALL")
    assert cut.normalised == cut.back == "the ball"
    assert cut.text == "The BALL"


def test_other_sides_are_refused():
    with pytest.raises(ValueError, match="side is 'both', it must be source or target"):
        cut_into_pieces(small_tokenizer(), "The ball", "both")
