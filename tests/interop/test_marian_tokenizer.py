"""An imported tokenizer cuts every text as MarianTokenizer does, real, messy and generated, and joins it again."""

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
from pellucid.interop.marian_vocabulary import load_marian_tokenizer, read_vocabularies, renumber_pieces
from tests.interop.marian_models import SOURCES, TARGETS, pieces, quiet, sentencepiece, written

pytestmark = quiet
law = settings(derandomize=True, deadline=None, max_examples=300)

TEXT = st.lists(
    st.one_of(
        st.sampled_from([" ", "  ", "▁", "▅", "\ufdd0", "1", "\0", "\t", "\u2028", "\xa0", "😀", "⁇", "ß", "İ", "½"]),
        st.sampled_from(["<s>", "</s>", "<pad>", "<unk>", "<0x41>", ">>spa<<", ">>", "<<", ">>xx<<", "house", "leche"]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
).map("".join)


@cache
def both(folder: Path, separate: bool) -> tuple[Tokenizer, Any, list[dict[int, int]]]:
    """Our tokenizer, theirs, and for each side our number of each of theirs, found by the name of the piece."""
    options: dict[str, Any] = {"share_encoder_decoder_embeddings": False} if separate else {}
    place = written(folder / f"{separate}", separate=separate, **options)
    files = read_json_files(place)
    sides, problems = read_vocabularies(files)
    assert not problems
    ours = load_marian_tokenizer(place, *sides)
    theirs = transformers.AutoTokenizer.from_pretrained(place, split_special_tokens=True)
    tables = [files["vocab.json"], files["target_vocab.json" if separate else "vocab.json"]]
    names = [ours.source_names, ours.target_names]
    return (
        ours,
        theirs,
        [{ids[n]: i for i, n in enumerate(side) if n in ids} for ids, side in zip(tables, names, strict=True)],
    )


@pytest.fixture(scope="module", params=[False, True], ids=["one vocabulary", "two vocabularies"])
def tokenizers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    return both(tmp_path_factory.mktemp("marian"), request.param)


def cut_there(tokenizers, lines: list[str], side: int) -> list[list[int]]:
    _, theirs, numbers = tokenizers
    ids = theirs(text_target=lines).input_ids if side else theirs(lines).input_ids
    return [[numbers[side][i] for i in row] for row in ids]


@law
@given(TEXT)
@example(">>spa<< The ball")
@example(" >>spa<< The ball")
@example(">>spa<<>>xx<<")
@example("")
def test_any_text_is_cut_as_there(tokenizers, text: str):
    ours = tokenizers[0]
    assert ours.encode_source([text]) == cut_there(tokenizers, [text], 0)
    assert ours.encode_target([text]) == cut_there(tokenizers, [text], 1)


@law
@given(st.lists(st.integers(0, 90), max_size=12))
def test_any_pieces_are_put_together_as_there(tokenizers, ids: list[int]):
    ours, theirs, numbers = tokenizers
    theirs_of = {mine: other for other, mine in numbers[1].items()}
    ids = [i for i in ids if i in theirs_of and i != UNK]
    text = theirs.decode([theirs_of[i] for i in ids], skip_special_tokens=True)
    assert ours.decode_target(ids) == text
    assert ours.decode_target([BOS, *ids, EOS, PAD]) == text
    assert ours.decode_targets([[], [*ids, EOS]]) == ["", text]


def test_real_sentences_are_cut_as_there(tokenizers):
    lines = SOURCES + TARGETS
    assert tokenizers[0].encode_source(lines) == cut_there(tokenizers, lines, 0)
    assert tokenizers[0].encode_target(lines) == cut_there(tokenizers, lines, 1)
    assert sum(UNK in ids for ids in tokenizers[0].encode_source(lines)) >= 5  # some pieces have no number


@pytest.mark.parametrize("name", ["tatoeba_en-es/train.en.gz", "tatoeba_en-es/train.es.gz", "messy"])
def test_corpora_are_cut_as_there(tokenizers, pellucid_data: Path, name: str):
    place = pellucid_data / name
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    lines = [line for path in files for line in islice(read(path), 2000 if place.is_file() else 50)]
    assert len(lines) >= 500
    assert tokenizers[0].encode_source(lines) == cut_there(tokenizers, lines, 0)
    assert tokenizers[0].encode_target(lines) == cut_there(tokenizers, lines, 1)


def read(path: Path) -> list[str]:
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
    everything = range(ours.target_vocabulary)
    assert loaded.target_pieces(everything) == ours.target_pieces(everything)


def test_a_start_mark_of_its_own_moves_and_any_other_is_copied():
    own = renumber_pieces({"</s>": 0, "<unk>": 1, "cat": 2, "<s>": 3, "<pad>": 4}, start=3)
    assert (own.names, own.order, own.copied) == (["<pad>", "<unk>", "<s>", "</s>", "cat"], [4, 1, 3, 0, 2], False)
    word = renumber_pieces({"</s>": 0, "<unk>": 1, "cat": 2, "<s>": 3, "<pad>": 4}, start=2)
    assert word.names == ["<pad>", "<unk>", "<<s>>", "</s>", "cat", "<s>"]
    assert (word.order, word.copied, word.rows) == ([4, 1, 2, 0, 2, 3], True, [3, 1, 4, 5, 0])
    known = pieces(sentencepiece("joint"))
    usual = renumber_pieces(known, start=known["<pad>"])
    assert [usual.names[i] for i in usual.rows] == list(known)
