"""An imported tokenizer encodes and decodes every text, real, messy or generated, as MarianTokenizer does."""

import gzip
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pellucid.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from pellucid.interop.marian import read_json_files
from pellucid.interop.marian_files import load_marian_tokenizer, read_vocabularies, renumber_pieces
from tests.interop.marian_models import (
    SOURCES,
    TARGETS,
    marian_vocabulary,
    quiet,
    train_sentencepiece,
    write_marian_model,
)

pytestmark = quiet
law = settings(derandomize=True, deadline=None, max_examples=100)

TEXT = st.lists(
    st.one_of(
        st.sampled_from([" ", "  ", "▁", "▅", "\ufdd0", "1", "\0", "\t", "\u2028", "\xa0", "😀", "⁇", "ß", "İ", "½"]),
        st.sampled_from(["<s>", "</s>", "<pad>", "<unk>", "<0x41>", ">>spa<<", ">>", "<<", ">>xx<<", "house", "leche"]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
).map("".join)


@cache
def load_both_tokenizers(folder: Path, separate: bool) -> tuple[Tokenizer, Any, list[dict[int, int]]]:
    """Return our tokenizer, theirs, and for each side our id of each of their ids, found by the name of the piece."""
    options: dict[str, Any] = {"share_encoder_decoder_embeddings": False} if separate else {}
    directory = write_marian_model(folder / f"{separate}", separate=separate, **options)
    files = read_json_files(directory)
    sides, problems = read_vocabularies(files)
    assert not problems
    ours = load_marian_tokenizer(directory, *sides)
    theirs = transformers.AutoTokenizer.from_pretrained(directory, split_special_tokens=True)
    tables = [files["vocab.json"], files["target_vocab.json" if separate else "vocab.json"]]
    names = [ours.source_names, ours.target_names]
    return (
        ours,
        theirs,
        [{ids[n]: i for i, n in enumerate(side) if n in ids} for ids, side in zip(tables, names, strict=True)],
    )


@pytest.fixture(scope="module", params=[False, True], ids=["one vocabulary", "two vocabularies"])
def tokenizers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    return load_both_tokenizers(tmp_path_factory.mktemp("marian"), request.param)


def encode_with_transformers(tokenizers, lines: list[str], side: int) -> list[list[int]]:
    _, theirs, numbers = tokenizers
    ids = theirs(text_target=lines).input_ids if side else theirs(lines).input_ids
    return [[numbers[side][i] for i in row] for row in ids]


@law
@given(TEXT)
@example(">>spa<< The ball")
@example(" >>spa<< The ball")
@example(">>spa<<>>xx<<")
@example("")
def test_any_text_is_encoded_as_in_transformers(tokenizers, text: str):
    ours = tokenizers[0]
    assert ours.encode_source([text]) == encode_with_transformers(tokenizers, [text], 0)
    assert ours.encode_target([text]) == encode_with_transformers(tokenizers, [text], 1)


@law
@given(st.lists(st.integers(0, 90), max_size=12))
def test_any_pieces_are_decoded_as_in_transformers(tokenizers, ids: list[int]):
    ours, theirs, numbers = tokenizers
    their_ids = {our_id: their_id for their_id, our_id in numbers[1].items()}
    ids = [i for i in ids if i in their_ids and i != UNK]
    text = theirs.decode([their_ids[i] for i in ids], skip_special_tokens=True)
    assert ours.decode_target(ids) == text
    assert ours.decode_target([BOS, *ids, EOS, PAD]) == text
    assert ours.decode_targets([[], [*ids, EOS]]) == ["", text]


def test_real_sentences_are_encoded_as_in_transformers(tokenizers):
    lines = SOURCES + TARGETS
    assert tokenizers[0].encode_source(lines) == encode_with_transformers(tokenizers, lines, 0)
    assert tokenizers[0].encode_target(lines) == encode_with_transformers(tokenizers, lines, 1)
    assert sum(UNK in ids for ids in tokenizers[0].encode_source(lines)) >= 5  # some pieces have no number


@pytest.mark.parametrize("name", ["tatoeba_en-es/train.en.gz", "tatoeba_en-es/train.es.gz", "messy"])
def test_corpora_are_encoded_as_in_transformers(tokenizers, pellucid_data: Path, name: str):
    corpus = pellucid_data / name
    files = [corpus] if corpus.is_file() else sorted(path for path in corpus.rglob("*") if path.is_file())
    lines = [line for path in files for line in islice(read_file(path), 2000 if corpus.is_file() else 50)]
    assert len(lines) >= 500
    assert tokenizers[0].encode_source(lines) == encode_with_transformers(tokenizers, lines, 0)
    assert tokenizers[0].encode_target(lines) == encode_with_transformers(tokenizers, lines, 1)


def read_file(path: Path) -> list[str]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8", errors="replace").splitlines()


def test_no_text_becomes_a_special_piece(tokenizers):
    lines = ["<pad> </s> <unk> <s>", ">></s><<", "a </s>"]
    for ids in tokenizers[0].encode_source(lines):
        assert not {PAD, BOS, EOS} & set(ids[:-1])


def test_a_saved_imported_tokenizer_is_loaded_whole(tokenizers, tmp_path: Path):
    ours = tokenizers[0]
    ours.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(Tokenizer.files(ours.config))
    loaded = Tokenizer.load(tmp_path, ours.config)
    assert loaded.encode_source(SOURCES) == ours.encode_source(SOURCES)
    assert loaded.encode_target(TARGETS) == ours.encode_target(TARGETS)
    all_ids = range(ours.target_vocabulary)
    assert loaded.target_pieces(all_ids) == ours.target_pieces(all_ids)


def test_a_start_token_of_its_own_moves_and_any_other_is_copied():
    moved = renumber_pieces({"</s>": 0, "<unk>": 1, "cat": 2, "<s>": 3, "<pad>": 4}, start=3)
    assert (moved.names, moved.order, moved.copied) == (
        ["<pad>", "<unk>", "<s>", "</s>", "cat"],
        [4, 1, 3, 0, 2],
        False,
    )
    copied = renumber_pieces({"</s>": 0, "<unk>": 1, "cat": 2, "<s>": 3, "<pad>": 4}, start=2)
    assert copied.names == ["<pad>", "<unk>", "<<s>>", "</s>", "cat", "<s>"]
    assert (copied.order, copied.copied, copied.rows) == ([4, 1, 2, 0, 2, 3], True, [3, 1, 4, 5, 0])
    vocabulary = marian_vocabulary(train_sentencepiece("joint"))
    usual = renumber_pieces(vocabulary, start=vocabulary["<pad>"])
    assert [usual.names[i] for i in usual.rows] == list(vocabulary)
