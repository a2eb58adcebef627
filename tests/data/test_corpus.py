"""Laws of reading: lines stay where they are, or the message says where the file breaks the contract."""

import bz2
import gzip
import io
import lzma
import re
import sys
import tarfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from pellucid.data import lines as lines_module
from pellucid.data.corpus import SentencePairs, SkippedPairs, fingerprint_pairs, read_pairs
from pellucid.data.lines import read_lines
from pellucid.demo.phrasebook import generate_phrases

law = settings(derandomize=True, deadline=None, max_examples=75, suppress_health_check=[HealthCheck.too_slow])

FALSE_LINE_ENDS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
PLAIN = st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])
NASTY = st.sampled_from(
    [*FALSE_LINE_ENDS, "\t", " ", "\u3000", "\ufeff", '"', "\\", "▁", "😀", "\u0301", "\u202e", "ª"]
)
LINE = st.text(st.one_of(NASTY, PLAIN), max_size=12).filter(lambda line: not line.endswith("\r"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


def write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@st.composite
def files(draw: st.DrawFn, lines: list[str], end: str) -> bytes:
    """Draw one of the many files with these lines: BOM or none, a last line end or none, plain or gzip members."""
    last_end = end if not lines or not lines[-1] or draw(st.booleans()) else ""
    data = (end.join(lines) + (last_end if lines else "")).encode()
    if draw(st.booleans()) or (lines and lines[0].startswith("\ufeff")):
        data = b"\xef\xbb\xbf" + data
    if not draw(st.booleans()):
        return data
    cut = draw(st.integers(0, len(data)))
    return gzip.compress(data[:cut]) + gzip.compress(data[cut:])


@law
@given(st.data(), st.lists(LINE, max_size=7), st.sampled_from(["\n", "\r\n"]))
def test_a_line_ends_at_a_line_feed_and_nowhere_else(folder: Path, data: st.DataObject, lines: list[str], end: str):
    path = write_file(folder / "lines", data.draw(files(lines, end)))
    assert list(read_lines(path)) == lines


@law
@given(st.data(), st.lists(LINE, max_size=7), st.sampled_from(["\n", "\r\n"]), st.integers(1, 9))
def test_lines_are_the_same_in_blocks_of_any_size(
    folder: Path, data: st.DataObject, lines: list[str], end: str, size: int
):
    path = write_file(folder / "blocks", data.draw(files(lines, end)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_BLOCK", size)
        assert list(read_lines(path)) == lines


@law
@given(st.data(), st.lists(st.tuples(LINE, LINE), min_size=1, max_size=7), st.sampled_from(["\n", "\r\n"]))
def test_pairs_are_never_shifted(folder: Path, data: st.DataObject, rows: list[tuple[str, str]], end: str):
    source = write_file(folder / "source", data.draw(files([row[0] for row in rows], "\n")))
    target = write_file(folder / "target", data.draw(files([row[1] for row in rows], end)))
    expected = [
        (i, *row) for i, row in enumerate(rows, 1) if row[0].strip() and row[1].strip() and len(max(row, key=len)) < 9
    ]
    if not expected:
        with pytest.raises(ValueError, match=r"no sentence pair in .*source and .*target"):
            read_pairs(source, target, max_characters=8)
        return
    pairs = read_pairs(source, target, max_characters=8)
    assert list(zip(pairs.lines, pairs.sources, pairs.targets, strict=True)) == expected
    assert pairs.skipped.counts.total() == len(rows) - len(expected)


@law
@given(
    st.lists(LINE, min_size=3, max_size=9),
    st.integers(0, 2),
    st.sampled_from([b"\0", b"\xff", b"\x80", b"\xed\xa0\x80", b"\xc3"]),
)
def test_bytes_that_are_no_text_are_named_by_file_and_line(folder: Path, lines: list[str], bad_index: int, byte: bytes):
    raw = [line.encode() for line in lines]
    raw[bad_index] += byte
    source, target = write_file(folder / "bad", b"\n".join(raw)), write_file(folder / "good", b"x\n" * len(lines))
    for pair in ((source, target), (target, source)):
        with pytest.raises(ValueError, match=re.escape(f"{source}:{bad_index + 1}:")):
            read_pairs(*pair, max_characters=100)


def first_bad_line(data: bytes) -> int | None:
    """Return the number of the first line that breaks the contract in bytes that are not gzip, or None."""
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if b"\0" in raw or b"\xff" in raw or b"\xfe" in raw or "\ufffd" in raw.decode(errors="replace"):
            return number
    return None


@law
@given(st.one_of(st.binary(max_size=60), st.text(PLAIN, max_size=30).map(lambda text: text.encode("utf-16"))))
@example(b"hi\n\0")
@example(b"\xff\xfeh\0i\0\n\0")
@example(b"\xef\xbb\xbf")
def test_any_bytes_give_their_lines_or_a_message_with_file_and_line(folder: Path, data: bytes):
    assume(not data.startswith(b"\x1f\x8b") and "\ufffd".encode() not in data)
    path = write_file(folder / "any", data)
    if bad := first_bad_line(data):
        with pytest.raises(ValueError, match=re.escape(f"{path}:{bad}:")):
            list(read_lines(path))
        return
    text = data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").replace(b"\r\n", b"\n")
    assert "\n".join(read_lines(path)).encode() == text.removesuffix(b"\r" if data.endswith(b"\r\n") else b"")


@law
@given(st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_unequal_files_are_refused_with_both_counts(
    folder: Path, source_count: int, target_count: int, blank_end: bool
):
    source = write_file(folder / "left", b"\n".join([b"a"] * source_count) + b"\n" * (blank_end and source_count > 0))
    target = write_file(folder / "right", b"b\n" * target_count)
    if source_count == target_count:
        if source_count:
            assert len(read_pairs(source, target, max_characters=5)) == source_count
        return
    with pytest.raises(
        ValueError, match=re.escape(f"{source} has {source_count} lines and {target} has {target_count}")
    ):
        read_pairs(source, target, max_characters=5)


def test_a_message_about_unequal_files_names_a_line_to_look_at(tmp_path: Path):
    target = write_file(tmp_path / "t", b"one\ntwo\nthree\nfour\n")
    source = write_file(tmp_path / "s", "uno\ndos\u2028tres\ncuatro\n".encode())
    with pytest.raises(ValueError, match=r"Look at .*s:2: it has U\+2028, which some programs take for a line end"):
        read_pairs(source, target, max_characters=99)
    source = write_file(tmp_path / "s", b"uno\n\ndos\ntres\ncuatro\n")
    with pytest.raises(ValueError, match=r"Look at .*s:2: it is empty"):
        read_pairs(source, target, max_characters=99)
    source = write_file(tmp_path / "s", b"uno\ndos\n")
    with pytest.raises(
        ValueError, match=r"has 2 lines and .* has 4: .* Only the counts are known: .*s ends after line 2, "
    ):
        read_pairs(source, target, max_characters=99)


def test_skipped_pairs_are_counted_by_reason_and_named(tmp_path: Path):
    source = write_file(tmp_path / "s", "a\n\nc\nd\n \u00a0\u2028\nfffff\ng\n".encode())
    target = write_file(tmp_path / "t", b"A\nB\n\nDDDDDDD\nE\nF\nG")
    pairs = read_pairs(source, target, max_characters=4)
    assert (pairs.sources, pairs.targets, list(pairs.lines)) == (["a", "g"], ["A", "G"], [1, 7])
    assert pairs.skipped.counts == {
        "empty source": 2,
        "empty target": 1,
        "source of more than 4 characters": 1,
        "target of more than 4 characters": 1,
    }
    assert pairs.skipped.examples[:2] == [f"{source}:2 empty source", f"{target}:3 empty target"]
    assert str(pairs.skipped).startswith("5 pairs skipped: 2 with empty source, ")
    assert pairs.file_line(1, "target") == f"{target}:7"
    assert not SkippedPairs()
    assert str(SkippedPairs()) == "no pairs skipped"


def test_only_the_first_skipped_pairs_are_named(tmp_path: Path):
    path = write_file(tmp_path / "p.tsv", b"\tx\n" * 11 + b"y\tz\n")
    skipped = read_pairs(path, max_characters=7).skipped
    assert skipped.counts.total() == 11
    assert len(skipped.examples) == 5
    assert str(skipped).endswith(", ...)")


def test_messages_say_what_to_do(tmp_path: Path):
    def read_message(data: bytes) -> str:
        with pytest.raises(ValueError, match="f") as caught:
            list(read_lines(write_file(tmp_path / "f", data)))
        return str(caught.value).removeprefix(str(tmp_path / "f"))

    assert read_message("fine\ncafé\n".encode("cp1252")) == (
        ":2:4: byte 0xE9 is not UTF-8 (Windows-1252 would read 'é'); "
        "if that is what it is, convert the file: iconv -f WINDOWS-1252 -t UTF-8"
    )
    assert (
        read_message("hi\n".encode("utf-16"))
        == ":1: the file is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
    )
    assert "is UTF-16, not UTF-8" in read_message(b"\xfe\xff\0h\0i")
    assert "is UTF-32, not UTF-8" in read_message("hi\n".encode("utf-32"))
    assert read_message(b"a\nb\0").startswith(":2: a NUL byte; ")
    for compress in (gzip.compress, lzma.compress, bz2.compress):
        whole, middle = compress(b"a line\n" * 1000), 15 if compress is gzip.compress else 40
        assert read_message(whole[:-9]).startswith(":")
        assert "the compressed file is damaged or cut short" in read_message(whole[:-9])
        assert "the compressed file is damaged or cut short" in read_message(whole[:-8] + b"\1" * 8)
        damaged = whole[:middle] + b"\xff\xff" + whole[middle + 2 :]
        assert "the compressed file is damaged or cut short" in read_message(damaged)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:bz2") as archive:
        archive.addfile(tarfile.TarInfo("sentences.tsv"), io.BytesIO())
    assert read_message(tar.getvalue()) == f" is an archive (TAR); unpack it: tar xf {tmp_path / 'f'}"


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_files_are_read_stream_after_stream(tmp_path: Path, compress: Callable[[bytes], bytes]):
    path = write_file(tmp_path / "f", compress(b"one\ntwo") + compress(b"\nthree\n" + b"line\n" * 99_999))
    assert list(read_lines(path)) == ["one", "two", "three", *["line"] * 99_999]
    assert list(read_lines(write_file(path, compress(b"")))) == []


def test_xz_may_not_ask_for_more_memory_than_any_setting_takes(tmp_path: Path):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**29}]
    path = write_file(tmp_path / "f", lzma.compress(b"one\n", filters=filters))
    with pytest.raises(ValueError, match="Memory usage limit exceeded"):
        list(read_lines(path))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    path = write_file(tmp_path / "f", gzip.compress(b"short\n" + b"x" * 1001))
    with pytest.raises(ValueError, match=r"f:2: a line of more than 1,000 bytes"):
        list(read_lines(path))
    assert [len(line) for line in read_lines(write_file(path, b"x" * 1000))] == [1000]


def test_lines_come_one_at_a_time(tmp_path: Path):
    lines = read_lines(write_file(tmp_path / "f", b"first\nsecond\n\xff\n"))
    assert (next(lines), next(lines)) == ("first", "second")
    with pytest.raises(ValueError, match="f:3:1: byte 0xFF"):
        next(lines)


def test_a_dash_is_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def type_input(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)), encoding="cp1252"))

    type_input(gzip.compress("größe\r\nzwei".encode()))
    assert list(read_lines("-")) == ["größe", "zwei"]
    type_input(b"uno\tone\n")
    assert read_pairs("-", max_characters=9).targets == ["one"]
    type_input(b"uno\ndos\n")
    assert read_pairs("-", write_file(tmp_path / "t", b"one\ntwo\n"), max_characters=9).sources == ["uno", "dos"]
    with pytest.raises(ValueError, match="cannot both be standard input"):
        read_pairs("-", "-", max_characters=9)


def test_tsv_has_two_columns_and_no_quoting(tmp_path: Path):
    path = write_file(tmp_path / "p.tsv.gz", gzip.compress(b'"He said\tno"\r\nit"s\t""\n'))
    pairs = read_pairs(path, max_characters=99)
    assert (pairs.sources, pairs.targets) == (['"He said', 'it"s'], ['no"', '""'])
    for row, reason in (
        (b"a\tb\tc", "more columns than 2"), (b"ab", "fewer columns than 2"), (b"", "empty source"),
    ):  # fmt: skip
        pairs = read_pairs(write_file(tmp_path / "p.tsv", b"x\ty\n" + row + b"\nv\tw\n"), max_characters=99)
        assert (pairs.sources, list(pairs.lines), pairs.skipped.counts) == (["x", "v"], [1, 3], {reason: 1})
        assert pairs.skipped.examples == [f"{tmp_path / 'p.tsv'}:2 {reason}"]


def test_jsonl_has_a_source_and_a_target(tmp_path: Path):
    path = write_file(tmp_path / "p.JSONL", '{"source": "a\\tb", "id": 7, "target": "\\u00e9\u2028"}\n'.encode())
    pairs = read_pairs(path, max_characters=99)
    assert (pairs.sources, pairs.targets) == (["a\tb"], ["é\u2028"])


NO_KEYS = "no keys of two texts"  # of an object with one, before others said what the two keys are


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"source": "a"', "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ("", "empty source"),
        ("null", "empty source"),
        ('{"source": "a"}', "empty target"),
        ('{"source": "a", "target": null}', "empty target"),
        ('{"translation": null}', "empty source"),
        ("{}", "no keys of two texts"),
        ('{"text": "a"}', "no keys of two texts"),
        ('{"source": "a", "target": 7}', "a value that is no text"),
        ('["a", "b"]', "no object"),
        ('{"source": "a", "target": "\\u0000"}', "U+0000 inside a sentence, which no text contains"),
        ('{"source": "a", "target": "\\ud83d"}', "U+D83D inside a sentence, which no text contains"),
    ],
)
def test_an_unsound_row_of_jsonl_is_skipped_with_its_line(tmp_path: Path, row: str, reason: str):
    good = '{"source": "a", "target": "b"}'
    for rows in ([good, row, good], [row, good, good]):
        path = write_file(tmp_path / "p.jsonl", "\n".join(rows).encode())
        pairs = read_pairs(path, max_characters=99)
        assert pairs.targets == ["b", "b"]
        assert pairs.skipped.counts == {reason if row != '{"source": "a"}' or rows[0] == good else NO_KEYS: 1}
        assert pairs.skipped.examples[0].startswith(f"{path}:{rows.index(row) + 1} ")


def test_files_that_hold_no_pairs_are_refused(tmp_path: Path):
    empty = write_file(tmp_path / "empty.tsv", b"")
    with pytest.raises(ValueError, match=r"no sentence pair in .*empty\.tsv: there is no line in it"):
        read_pairs(empty, max_characters=9)
    with pytest.raises(ValueError, match=r"must be one of \.tsv, \.jsonl, \.tmx, "):
        read_pairs(tmp_path / "train.en", max_characters=9)
    with pytest.raises(FileNotFoundError, match="absent"):
        read_pairs(tmp_path / "absent", write_file(tmp_path / "t", b""), max_characters=9)
    with pytest.raises(OSError, match=str(tmp_path)):
        list(read_lines(tmp_path))


def test_the_fingerprint_is_of_the_text_alone(tmp_path: Path):
    plain = read_pairs(
        write_file(tmp_path / "s", b"a\n\nb\n"),
        write_file(tmp_path / "t.gz", gzip.compress(b"A\nx\nB")),
        max_characters=9,
    )
    tabs = read_pairs(write_file(tmp_path / "p.tsv", b"a\tA\r\nb\tB\r\n"), max_characters=9)
    assert (
        fingerprint_pairs(plain)
        == fingerprint_pairs(tabs)
        == fingerprint_pairs(SentencePairs.from_lists(["a", "b"], ["A", "B"]))
    )
    assert fingerprint_pairs(tabs) != fingerprint_pairs(SentencePairs.from_lists(["b", "a"], ["B", "A"]))
    assert fingerprint_pairs(tabs) != fingerprint_pairs(SentencePairs.from_lists(["A", "B"], ["a", "b"]))


def test_pairs_from_memory_are_named_by_their_number():
    assert SentencePairs.from_lists(["a", "b"], ["A", "B"]).file_line(1, "source") == "pair:2"
    with pytest.raises(ValueError, match="2 source and 1 target sentences do not make pairs"):
        SentencePairs.from_lists(["a", "b"], ["A"])


def test_real_messy_files_give_their_lines_or_a_message(pellucid_data: Path):
    refused = {}
    for path in (path for path in (pellucid_data / "messy").rglob("*") if path.is_file()):
        try:
            lines = list(read_lines(path))
        except ValueError as error:
            refused[path.name] = str(error).removeprefix(str(path))
            continue
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        assert len(lines) == data.count(b"\n") + (not data.endswith(b"\n") and data != b""), path
    assert refused.pop("test-level2.tmx.zip").startswith(" is an archive or an office document (ZIP)")
    assert all(re.match(r":\d+:", message) for message in refused.values())
    assert "is UTF-16" in refused["testUTF16LE.txt"]
    assert "0xE" in refused["f43.tgif.fr.po"]
    assert "NUL" in refused["._test.de"]


def test_real_corpora_keep_their_counts(pellucid_data: Path):
    news, messy = pellucid_data / "wmt_news", pellucid_data / "messy"
    [german] = news.rglob("newstest2009*de.gz")
    [english] = news.rglob("newstest2009*en.gz")
    pairs = read_pairs(english, german, max_characters=5000)
    assert len(pairs) + pairs.skipped.counts.total() == 2525
    assert any("\x85" in line for line in pairs.targets)
    for path in (messy / "quotes_tsv").iterdir():
        pairs = read_pairs(path, max_characters=5000)
        assert len(pairs) + pairs.skipped.counts.total() == 3003
    for path in (messy / "rtl_crlf_ntrex").iterdir():
        lines = list(read_lines(path))
        assert len(lines) == 400
        assert not any(line.endswith("\r") for line in lines)


@pytest.mark.parametrize("name", ["a.srt", "A.HTML.gz", "a.xhtml", "a.pot", "a.docx"])
def test_a_file_whose_lines_are_not_sentences_is_refused_by_its_name(tmp_path: Path, name: str):
    path, plain = write_file(tmp_path / name, b"one\ntwo\n"), write_file(tmp_path / "plain.po.txt", b"uno\ndos\n")
    for paths in ((path, plain), (plain, path), (path, None), (path, path)):
        with pytest.raises(ValueError, match=f"{name} is .*: its lines are not sentences; export it as plain text"):
            read_pairs(*paths, max_characters=9)


@pytest.mark.parametrize("begin", ["\ufeff<?xml version='1.0'?>", " <!DOCTYPE html>", "<tmx version='1.4'>", "WEBVTT"])
def test_markup_is_recognised_by_its_first_line_whatever_the_file_is_called(tmp_path: Path, begin: str):
    path = write_file(tmp_path / "m.txt", gzip.compress(f"{begin}\ntwo\n".encode()))
    plain = write_file(tmp_path / "p.txt", b"uno\ndos\n")
    for paths in ((path, plain), (plain, path)):
        with pytest.raises(ValueError, match=r"m\.txt:1: .* begins a file of markup: its lines are not sentences"):
            read_pairs(*paths, max_characters=99)


def test_tags_within_sentences_are_text(tmp_path: Path):
    path = write_file(tmp_path / "t.txt", b"<b>one</b>\n<?xml in the middle\n")
    assert len(read_pairs(path, write_file(tmp_path / "u.txt", b"<b>uno</b>\ndos\n"), max_characters=99)) == 2


def test_an_archive_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"a\.txt is an archive or an office document \(ZIP\); unpack it"):
        list(read_lines(write_file(tmp_path / "a.txt", b"PK\x03\x04\0\0")))


def test_one_file_on_both_sides_is_refused(tmp_path: Path):
    path = write_file(tmp_path / "a.txt", b"one\n")
    (tmp_path / "b.txt").hardlink_to(path)
    for other in (path, str(path), tmp_path / "b.txt"):
        with pytest.raises(
            ValueError, match=r"source and target are one file, .*a\.txt; name the file of translations"
        ):
            read_pairs(path, other, max_characters=9)
    pairs = write_file(tmp_path / "a.tsv", b"one\tuno\n")
    with pytest.raises(ValueError, match=r"a\.tsv is a file of pairs by its name; give it alone"):
        read_pairs(path, pairs, max_characters=9)


@pytest.mark.parametrize("header", ["source\ttarget", "SRC\tTGT", "en\tes", "en-US\tde_DE", "English\tSpanish"])
def test_a_header_is_no_pair(tmp_path: Path, header: str):
    path = write_file(tmp_path / "p.tsv", f"{header}\none\tuno\n".encode())
    pairs = read_pairs(path, max_characters=99)
    assert (pairs.sources, pairs.targets, list(pairs.lines)) == (["one"], ["uno"], [2])


@pytest.mark.parametrize(
    "pair", ["source\tfuente", "is\tes", "no\tno", "English\tinglés", "Translation.\tÜbersetzung."]
)
def test_a_pair_of_words_is_no_header(tmp_path: Path, pair: str):
    assert len(read_pairs(write_file(tmp_path / "p.tsv", f"{pair}\n".encode()), max_characters=99)) == 1


@pytest.mark.parametrize(
    ("row", "choice"),
    [
        ("Go.\tVe.\tchecked", "--from 1 --to 2"),
        ("7\tTry it.\tyes\tPrueba.", "--from 2 --to 3"),
        ("1\t2\t3", "--from 1 --to 2"),
    ],
)
def test_a_message_about_more_columns_offers_two_of_them(tmp_path: Path, row: str, choice: str):
    with pytest.raises(ValueError, match=rf"columns, expected 2: .*: {choice}$"):
        read_pairs(write_file(tmp_path / "p.tsv", f"{row}\n".encode()), max_characters=99)


def test_a_line_to_look_at_is_named_only_if_it_explains_the_difference(tmp_path: Path):
    def read_hint(source: bytes, target: bytes) -> str:
        with pytest.raises(ValueError, match="so nothing was read") as caught:
            read_pairs(write_file(tmp_path / "s", source), write_file(tmp_path / "t", target), max_characters=9)
        return str(caught.value)

    assert read_hint(b"a\n\nc\n", b"A\nC\n").endswith("s:2: it is empty, and some programs drop empty lines.")
    assert "look in the middle" in read_hint(b"a\n\nc\nd\n", b"A\n\nC\n")  # the empty lines are those of both
    assert "look in the middle" in read_hint("a\x85b\nc\nd\n".encode(), b"A\nC\n")


@pytest.mark.parametrize("missing", [(150, 151), (150, 153), (297, 300)])
def test_of_unequal_files_the_line_is_named_from_which_on_they_do_not_fit(tmp_path: Path, missing: tuple[int, int]):
    """Empty lines in both files, as many as are missing, are not taken for the reason."""
    pairs = list(islice(generate_phrases(seed=3), 300))
    sources, targets = [phrase.source for phrase in pairs], [phrase.target for phrase in pairs]
    first, end = missing
    for i in range(end - first):
        sources[20 + i] = ""
    del targets[first:end]
    source, target = (
        write_file(tmp_path / name, "".join(f"{line}\n" for line in lines).encode())
        for name, lines in (("s", sources), ("t", targets))
    )
    with pytest.raises(
        ValueError, match=r"so nothing was read\. By their lengths, numbers and punctuation, the"
    ) as caught:
        read_pairs(source, target, max_characters=99)
    if end == 300:
        assert str(caught.value).endswith(f"to the end of {target}, and the last 3 lines of {source} are too many.")
    else:
        [line_number] = re.findall(rf"look at {re.escape(str(source))}:(\d+) ", str(caught.value))
        assert abs(int(line_number) - first - 1) <= 5


def test_numbers_and_punctuation_show_the_line_from_which_on_few_equally_long_lines_do_not_fit(tmp_path: Path):
    """Fourteen sentences of one length, of which the target lacks the sixth: only numbers and marks tell which."""
    sources = [f"Is it {10 + i}?" if i % 3 else f"It is {10 + i}." for i in range(14)]
    targets = [f"Son las {10 + i}?" if i % 3 else f"Son las {10 + i}." for i in range(14) if i != 5]
    source, target = (
        write_file(tmp_path / name, "".join(f"{line}\n" for line in lines).encode())
        for name, lines in (("s", sources), ("t", targets))
    )
    with pytest.raises(ValueError, match=r"fit up to about line 5, .* without 1 line of .*: look at .*s:6 "):
        read_pairs(source, target, max_characters=99)


def test_of_texts_that_never_fit_only_the_counts_are_reported(tmp_path: Path):
    pairs = list(islice(generate_phrases(seed=3), 119))
    source = write_file(tmp_path / "s", "".join(f"{pair.source}\n" for pair in pairs[:60]).encode())
    target = write_file(tmp_path / "t", "".join(f"{pair.target}\n" for pair in pairs[60:]).encode())
    with pytest.raises(ValueError, match=r"Only the counts are known: .*t ends after line 59, and no line stands out"):
        read_pairs(source, target, max_characters=99)
