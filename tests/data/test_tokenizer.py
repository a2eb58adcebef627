"""Laws of tokenizing: decoding restores the text, no text is a command, and the same text gives the same pieces."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from pellucid.data.corpus import read_pairs
from pellucid.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig

law = settings(derandomize=True, deadline=None, max_examples=100)

ANIMALS = ("cat", "dog", "bird", "horse", "mouse")
COLOURS = ("black", "white", "red", "green", "yellow", "grey", "brown")
ENGLISH = [f"The {colour} {animal} sees the {other}." for colour in COLOURS for animal in ANIMALS for other in ANIMALS]
SPANISH = [
    f"El {animal} {colour} ve a la {other}, ¿sí?" for colour in COLOURS for animal in ANIMALS for other in ANIMALS
]

TEXT = st.lists(
    st.one_of(
        st.sampled_from([" ", "  ", "▁", "▅", "\ufdd0", "1", "\0", "\t", "\u2028", "\xa0", "😀", "⁇", "ß", "İ", "cat"]),
        st.sampled_from(["<s>", "</s>", "<pad>", "<unk>", "<0x41>"]),
        st.characters(exclude_categories=["Cs"], exclude_characters="\n"),
    ),
    max_size=12,
).map("".join)


def train_tokenizer(**settings: object) -> Tokenizer:
    config = TokenizerConfig(**{"vocabulary": 347, **settings})  # pyright: ignore[reportArgumentType]
    return Tokenizer.train(ENGLISH, SPANISH, config, seed=7, max_sentences=1000)


@pytest.fixture(scope="module", params=["bpe", "unigram", "char", "word"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(kind=request.param)


@pytest.fixture(scope="module")
def lowercase() -> Tokenizer:
    return train_tokenizer(lowercase=True, joint=False)


def join_spaces(text: str) -> str:
    return " ".join(word for word in text.split(" ") if word)


@law
@given(TEXT)
@example("<s> </s> <pad> <unk> ▁ <0x0A>")
@example(" ▁▁  \ufdd01 ")
def test_decoding_restores_a_text_but_for_runs_of_spaces(tokenizer: Tokenizer, text: str):
    [source], [target] = tokenizer.encode_source([text]), tokenizer.encode_target([text])
    assert tokenizer.decode_source(source) == join_spaces(text)
    assert tokenizer.decode_target(target) == join_spaces(text)


@pytest.mark.article("A5")
@law
@given(TEXT)
def test_lower_case_is_pythons(lowercase: Tokenizer, text: str):
    assert lowercase.decode_source(lowercase.encode_source([text])[0]) == join_spaces(text.lower())


@law
@given(TEXT)
def test_no_text_becomes_a_control_piece(tokenizer: Tokenizer, text: str):
    [ids] = tokenizer.encode_target([text])
    assert ids[-1] == EOS
    assert not {PAD, UNK, BOS, EOS} & set(ids[:-1])
    assert max(ids) < tokenizer.target_vocabulary


def test_decoding_leaves_out_the_special_tokens(tokenizer: Tokenizer):
    [ids] = tokenizer.encode_target(["El gato."])
    assert tokenizer.decode_target([BOS, *ids, PAD, PAD]) == "El gato."
    assert tokenizer.encode_source([""]) == [[EOS]]
    assert tokenizer.encode_source([]) == []


@law
@given(st.lists(st.lists(st.integers(0, 340), max_size=9), max_size=6))
@example([])
@example([[], []])
@example([[], [EOS], [70, EOS]])
def test_sentences_are_decoded_together_as_they_are_alone(tokenizer: Tokenizer, sentences: list[list[int]]):
    valid_ids = [[i % tokenizer.target_vocabulary for i in ids] for ids in sentences]
    assert tokenizer.decode_targets(valid_ids) == [tokenizer.decode_target(ids) for ids in valid_ids]


def test_a_decoded_line_is_one_line(tokenizer: Tokenizer):
    assert tokenizer.decode_target(tokenizer.encode_target(["a\nb"])[0]) == "a b"


def test_lines_are_encoded_together_as_they_are_alone(tokenizer: Tokenizer):
    assert tokenizer.encode_source(ENGLISH) == [tokenizer.encode_source([line])[0] for line in ENGLISH]


def test_pieces_spell_the_sentence(tokenizer: Tokenizer):
    [ids] = tokenizer.encode_source(["The black cat"])
    pieces = tokenizer.source_pieces(ids)
    assert pieces[-1] == "</s>"
    assert "".join(pieces[:-1]) == "▁The▁black▁cat"
    assert tokenizer.target_pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_a_number_that_is_no_piece_is_an_error_and_not_another_piece(tokenizer: Tokenizer, wrong: int):
    with pytest.raises(IndexError, match=f"piece {wrong} is not one of"):
        tokenizer.source_pieces([UNK, wrong])


@pytest.mark.article("A5", "A6")
def test_words_and_characters_can_be_the_pieces():
    text = "roses are red and violets are blue"
    word_tokenizer, char_tokenizer = (
        train_tokenizer(kind=kind, vocabulary=2000, joint=False) for kind in ("word", "char")
    )
    words = " ".join(sorted(set(" ".join(ENGLISH).split())))
    [ids] = word_tokenizer.encode_source([words])
    assert word_tokenizer.source_pieces(ids[:-1]) == ["▁" + word for word in words.split()]
    [ids] = char_tokenizer.encode_source([ENGLISH[0]])
    assert "".join(char_tokenizer.source_pieces(ids[:-1])) == "▁" + ENGLISH[0].replace(" ", "▁")
    assert all(len(piece) == 1 for piece in char_tokenizer.source_pieces(ids[:-1]))
    for tokenizer in (word_tokenizer, char_tokenizer):
        assert tokenizer.decode_source(tokenizer.encode_source([text])[0]) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_the_same_text_gives_the_same_bytes(kind: str):
    first, second = train_tokenizer(kind=kind), train_tokenizer(kind=kind)
    assert first.source.serialized_model_proto() == second.source.serialized_model_proto()


def test_separate_vocabularies_know_their_own_language():
    separate = train_tokenizer(joint=False, vocabulary=307)
    assert separate.source_vocabulary == separate.target_vocabulary == 307
    assert separate.source_pieces(separate.encode_source(["¿"])[0]) == ["▁", "<0xC2>", "<0xBF>", "</s>"]
    assert separate.target_pieces(separate.encode_target(["¿"])[0])[0] == "▁¿"


def test_a_tokenizer_learns_from_at_most_max_sentences_lines():
    lines = [chr(0x3400 + i) for i in range(97)]
    config = TokenizerConfig(vocabulary=500)

    def learned_lines(seed: int) -> list[str]:
        tokenizer = Tokenizer.train(iter(lines), iter(lines), config, seed=seed, max_sentences=5)
        return [line for line, ids in zip(lines, tokenizer.encode_source(lines), strict=True) if len(ids) < 4]

    assert learned_lines(1) == learned_lines(1) != learned_lines(2)
    assert 5 <= len(set(learned_lines(1))) <= 10


def test_long_lines_are_learned_from():
    tokenizer = Tokenizer.train(["ä" * 5000], ["ö"], TokenizerConfig(vocabulary=300), seed=1, max_sentences=9)
    assert "<0xC3>" not in tokenizer.source_pieces(tokenizer.encode_source(["ä"])[0])


def test_a_vocabulary_the_text_cannot_fill_is_lowered_with_a_note():
    tokenizer = Tokenizer.train(["one two"], ["uno dos"], TokenizerConfig(vocabulary=8000), seed=1, max_sentences=9)
    assert tokenizer.source_vocabulary < 300
    [note] = tokenizer.notes
    assert note.startswith(f"the joint vocabulary has {tokenizer.source_vocabulary} pieces, not 8,000")


def test_rare_characters_that_do_not_fit_are_spelled_as_bytes():
    text = ["abcdefg" * 50 + chr(0x4E00 + i) for i in range(100)]
    tokenizer = Tokenizer.train(text, text, TokenizerConfig(vocabulary=300), seed=1, max_sentences=1000)
    assert any("are spelled as bytes" in note for note in tokenizer.notes)
    assert tokenizer.decode_source(tokenizer.encode_source(text[-1:])[0]) == text[-1]


@pytest.mark.parametrize(
    ("lines", "vocabulary", "message"),
    [
        ([], 300, "no text to learn the joint vocabulary from"),
        (["", "  "], 300, "no text to learn the joint vocabulary from"),
        (["abcdefghijklmnopqrstuvwxyz"], 265, "no room for the 26 characters of the text; ask for 312 or more"),
    ],
)
def test_text_that_makes_no_vocabulary_is_refused(lines: list[str], vocabulary: int, message: str):
    with pytest.raises(ValueError, match=message):
        Tokenizer.train(lines, lines, TokenizerConfig(vocabulary=vocabulary), seed=1, max_sentences=9)


def test_settings_that_make_no_tokenizer_are_refused_together():
    with pytest.raises(ValueError, match=r"kind is 'syllables'.*; vocabulary is 260, it must be from 261 to 1,000,000"):
        TokenizerConfig(kind="syllables", vocabulary=260)  # pyright: ignore[reportArgumentType]


def test_half_a_character_is_refused(tokenizer: Tokenizer):
    with pytest.raises(ValueError, match=r"line 2 has a lone surrogate, U\+DC80"):
        tokenizer.encode_source(["fine", "a\udc80"])


@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_tokenizer_is_loaded_whole(tmp_path: Path, joint: bool):
    tokenizer = train_tokenizer(joint=joint)
    tokenizer.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(Tokenizer.files(tokenizer.config))
    loaded = Tokenizer.load(tmp_path, tokenizer.config)
    assert loaded.encode_source(ENGLISH) == tokenizer.encode_source(ENGLISH)
    assert loaded.encode_target(SPANISH) == tokenizer.encode_target(SPANISH)


def train_foreign_model(path: Path) -> bytes:
    """Return a model with SentencePiece's own numbers for the special tokens."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH),
        model_writer=model,
        vocab_size=285,
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: b"", "is not a SentencePiece model"),
        (lambda path: b"#!/bin/sh\n", "is not a SentencePiece model"),
        (lambda path: path.read_bytes()[:-700], "is not a SentencePiece model|is not ours|settings"),
        (lambda path: b"\n" * (33 * 2**20), "too many for a tokenizer"),
        (train_foreign_model, "is not ours: padding, unknown, start and end must be the pieces 0, 1, 2 and 3"),
        (lambda path: path.read_bytes().replace("▁".encode(), b"\0\0\0"), "NUL|not a SentencePiece model"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path, damage: Callable[[Path], bytes], message: str):
    tokenizer = train_tokenizer()
    tokenizer.save(tmp_path)
    path = tmp_path / "tokenizer.model"
    path.write_bytes(damage(path))
    with pytest.raises(ValueError, match=rf"tokenizer\.model .*({message})"):
        Tokenizer.load(tmp_path, tokenizer.config)


def test_a_file_with_more_pieces_than_its_settings_say_is_refused(tmp_path: Path):
    train_tokenizer().save(tmp_path)
    with pytest.raises(ValueError, match=r"has 347 pieces, its settings say at most 300"):
        Tokenizer.load(tmp_path, TokenizerConfig(vocabulary=300))


def test_every_line_of_a_real_corpus_comes_back(pellucid_data: Path):
    folder = pellucid_data / "multi30k"
    pairs = read_pairs(folder / "train.en.gz", folder / "train.de.gz", max_characters=5000)
    tokenizer = Tokenizer.train(
        pairs.sources, pairs.targets, TokenizerConfig(vocabulary=10007), seed=1, max_sentences=100_000
    )
    assert tokenizer.source_vocabulary == 10007
    assert not tokenizer.notes
    decoded = [tokenizer.decode_target(ids) for ids in tokenizer.encode_target(pairs.targets)]
    assert decoded == [join_spaces(line) for line in pairs.targets]


# Imported, with a list of its pieces beside


def write_piece_list(folder: Path, names: object) -> TokenizerConfig:
    (folder / "tokenizer.model").write_bytes(train_foreign_model(folder))
    (folder / "tokenizer.pieces.json").write_text(json.dumps(names), encoding="utf-8")
    return TokenizerConfig(kind="marian", vocabulary=7)


def test_a_list_gives_the_pieces_their_numbers(tmp_path: Path):
    config = write_piece_list(tmp_path, ["<pad>", "<unk>", "<s>", "</s>", "▁", ">>spa<<", "▁cat"])
    loaded = Tokenizer.load(tmp_path, config)
    assert (loaded.source_vocabulary, loaded.target_vocabulary) == (7, 7)
    assert loaded.source_pieces(range(7))[4:] == ["▁", ">>spa<<", "▁cat"]
    lines = ["cat", ">>spa<< cat", ">>deu<<cat", "<s> </s>", ""]
    [cat, spanish, german, marks, empty] = loaded.encode_source(lines)
    assert (cat, spanish, german, empty) == ([6, EOS], [5, 6, EOS], [UNK, 6, EOS], [EOS])
    assert set(marks) == {4, UNK, EOS}
    assert loaded.decode_target([BOS, 6, 4, 6, EOS]) == "cat  cat"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"a": 1}, "is not a list of pieces"),
        (["<pad>", "<unk>", "<s>", "</s>", 5], "is not a list of pieces"),
        (["<pad>", "<unk>", "<s>", "</s>"], "has 4 pieces, its settings say from 5 to 7"),
        (list("abcdefgh"), "has 8 pieces, its settings say from 5 to 7"),
        (list("abcdea"), "has a piece twice, or one that is no text"),
        ([*"abcde", "\ud800"], "has a piece twice, or one that is no text"),
        ([*"abcde", "f\0"], "has a piece twice, or one that is no text"),
    ],
)
def test_an_unsound_list_of_pieces_is_refused_by_name(tmp_path: Path, names: object, message: str):
    config = write_piece_list(tmp_path, names)
    with pytest.raises(ValueError, match=rf"tokenizer\.pieces\.json {message}"):
        Tokenizer.load(tmp_path, config)
    (tmp_path / "tokenizer.pieces.json").write_bytes(b"[" * 100_000)
    with pytest.raises(ValueError, match=r"tokenizer\.pieces\.json is not JSON"):
        Tokenizer.load(tmp_path, config)


def test_an_imported_kind_is_not_learned():
    with pytest.raises(
        ValueError, match="'marian' is imported, not learned; choose 'bpe', 'unigram', 'char' or 'word'"
    ):
        train_tokenizer(kind="marian")
