"""`pellucid align`: books become pairs that other commands read, and what has no partner is listed."""

import gzip
import re

import pytest

from pellucid.data.corpus import read_pairs
from pellucid.demo.phrasebook import split_phrases
from tests.documents.samples import make_docx, make_epub

SMALL = ("The ball is blue. It is new.\n\nMr. Bee has it.\n", "La bola es azul. Es nueva.\n\nEl señor Bee la tiene.\n")


@pytest.fixture(scope="module")
def books() -> tuple[list[str], list[str]]:
    """Return the sentences of two books; of every fortieth pair of sentences one is only in one of them."""
    pairs = split_phrases(240, dev=0, test=0, seed=5).train
    sources = [pair.source for number, pair in enumerate(pairs) if number % 40 != 7]
    targets = [pair.target for number, pair in enumerate(pairs) if number % 40 != 31]
    return sources, targets


def write_book(path, sentences, per_line: int) -> None:
    lines = [" ".join(sentences[i : i + per_line]) for i in range(0, len(sentences), per_line)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def written_books(books, tmp_path):
    """Write the two books, with other numbers of sentences on a line."""
    write_book(tmp_path / "book.en", books[0], 3)
    write_book(tmp_path / "book.es", books[1], 5)
    return tmp_path


def test_pairs_go_to_standard_output_with_scores_and_places(call, written_books):
    result = call("align", "book.en", "book.es")
    assert result.exit_code == 0, result.stderr
    header, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert header == ["source", "target", "score", "source_place", "target_place"]
    files = [(written_books / name).read_text(encoding="utf-8").splitlines() for name in ("book.en", "book.es")]
    for source, target, score, *places in rows:
        assert float(score) > -1
        for text, lines, place in zip((source, target), files, places, strict=True):
            numbers = [int(number) for number in place.split("-")]
            assert text in " ".join(lines[numbers[0] - 1 : numbers[-1]])
    assert "without a partner" in result.stderr


def test_nothing_is_lost(call, books, written_books):
    result = call("align", "book.en", "book.es", "--out", "pairs.tsv", "--beads", "beads.tsv")
    assert (result.exit_code, result.stdout) == (0, "")
    _, *rows = [line.split("\t") for line in (written_books / "beads.tsv").read_text().splitlines()]
    assert " ".join(row[1] for row in rows if row[1]) == " ".join(books[0])
    assert " ".join(row[2] for row in rows if row[2]) == " ".join(books[1])
    gaps = [row for row in rows if row[0] in ("1-0", "0-1")]
    assert len(gaps) >= 6
    assert all(row[3] == "" for row in gaps)
    left = sum(row[0] == "1-0" for row in rows)
    assert re.search(rf"book\.en: \d+ sentences, {left} of them without a partner", result.stderr)


def test_two_files_go_the_way_of_their_names(call, written_books):
    assert call("align", "book.en", "book.es", "--out", "train.es", "--out", "train.en.gz").exit_code == 0
    english = gzip.decompress((written_books / "train.en.gz").read_bytes()).decode().splitlines()
    assert english[0] in (written_books / "book.en").read_text().splitlines()[0]
    assert len(english) == len((written_books / "train.es").read_text().splitlines())


@pytest.mark.parametrize("out", ["pairs.tsv", "pairs.tmx"])
def test_check_and_train_take_the_pairs(out, call, written_books):
    result = call("align", "book.en", "book.es", "--out", out)
    assert result.exit_code == 0, result.stderr
    pairs = read_pairs(str(written_books / out), max_characters=10_000)
    assert len(pairs) > 220
    assert not pairs.skipped
    assert call("check", out).exit_code == 0
    run = written_books / "run.toml"
    run.write_text(
        f'[data]\ntrain = "{out}"\n[tokenizer]\nvocabulary = 300\n'
        "[model]\nd_model = 8\nd_ff = 8\nheads = 2\nencoder_layers = 1\ndecoder_layers = 1\n"
        "[train]\nsteps = 2\ndev_sentences = 9\nbatch_tokens = 200\nevaluate_every = 2\nsave_every = 2\n"
    )
    trained = call("train", "run.toml", "--out", "run")
    assert trained.exit_code == 0, trained.stderr


def test_documents_are_books(call, tmp_path):
    english = ["The ball is blue.", "It is <b>very</b> new.", "Mr. Bee has it."]
    spanish = ["La bola es azul.", "Es <b>muy</b> nueva.", "El señor Bee la tiene."]
    (tmp_path / "book.epub").write_bytes(make_epub("".join(f"<p>{text}</p>" for text in english)))
    paragraphs = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in ("La bola es azul. Es muy nueva.",))
    (tmp_path / "libro.docx").write_bytes(make_docx(paragraphs))
    (tmp_path / "libro.html").write_text("".join(f"<p>{text}</p>" for text in spanish), encoding="utf-8")
    result = call("align", "libro.html", "book.epub", "--from", "es", "--to", "en", "--out", "pairs.tmx")
    assert result.exit_code == 0, result.stderr
    assert "<seg>Es muy nueva.</seg>" in (tmp_path / "pairs.tmx").read_text(encoding="utf-8")
    result = call("align", "libro.docx", "libro.html", "--from", "es", "--to", "en")
    assert result.exit_code == 0, result.stderr
    assert "La bola es azul." in result.stdout


def test_lines_may_be_sentences_already(call, tmp_path):
    (tmp_path / "book.en").write_text("It rains. We stay.\nHe goes.\n")
    (tmp_path / "book.es").write_text("Llueve. Nos quedamos.\nSe va.\n")
    result = call("align", "book.en", "book.es", "--lines")
    assert [line.split("\t")[0] for line in result.stdout.splitlines()[1:]] == ["It rains. We stay.", "He goes."]
    assert "too small to tell" in result.stderr


def test_pairs_with_a_lower_score_are_left_out_and_counted(call, written_books):
    result = call("align", "book.en", "book.es", "--least-score", "1000")
    assert result.stdout.splitlines() == ["source\ttarget\tscore\tsource_place\ttarget_place"]
    assert "left out for a score below 1000: 2" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("book.en", "book.en"), "are one file"),
        (("book.en", "copy.es"), "hold the same text"),
        (("book.en", "empty.es"), "empty.es holds no sentence"),
        (("book.en", "stars.es"), "no text in it has a letter or a digit"),
        (("book.en", "missing.es"), "no such file"),
        (("book.en", "pairs.csv"), "is a file of pairs by its name"),
        (("book.one", "book.two", "--out", "pairs.tmx"), "add --from and --to"),
        (("book.en", "book.es", "--from", "es", "--to", "en"), "exchange the two files"),
        (("book.en", "book.en.txt"), "are both English (en)"),
        (("book.en", "book.es", "--out", "one.en"), "expected one file of pairs"),
        (("book.en", "book.es", "--out", "a.tsv", "--out", "b.tsv"), "expected one file of pairs"),
        (("book.en", "book.es", "--out", "book.en", "--out", "b.es"), "one file is named twice"),
        (("-", "-"), "both books are standard input"),
    ],
)
def test_bad_input_gets_one_sentence(words, message, refuse, tmp_path):
    for name, text in (
        ("book.en", SMALL[0]),
        ("copy.es", SMALL[0]),
        ("book.es", SMALL[1]),
        ("book.one", SMALL[0]),
        ("book.two", SMALL[1]),
        ("book.en.txt", SMALL[1]),
        ("empty.es", ""),
        ("stars.es", "* * *\n\n--\n"),
        ("pairs.csv", "a,b\n"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert message in refuse("align", *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_books_that_do_not_belong_together_are_refused(refuse, tmp_path):
    pairs = split_phrases(500, dev=0, test=0, seed=5).train
    write_book(tmp_path / "book.en", [pair.source for pair in pairs[:240]], 3)
    write_book(tmp_path / "other.es", [pair.target for pair in pairs[260:]], 3)
    assert "hardly translations of each other" in refuse("align", "book.en", "other.es", "--out", "pairs.tsv")
    assert not (tmp_path / "pairs.tsv").exists()
