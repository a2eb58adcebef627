"""`pellucid convert`: every pair is written or accounted for, and nothing is half written."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from pellucid.data.corpus import read_pairs

Call = Callable[..., Result]

MEMORY = """<?xml version="1.0"?>
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>One\ttab</seg></tuv><tuv xml:lang="de"><seg>Eins</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Two</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Three
 lines</seg></tuv><tuv xml:lang="de"><seg>Drei &lt;Zeilen></seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Four</seg></tuv><tuv xml:lang="de"><seg/></tuv></tu>
</body></tmx>
"""


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.tmx"
    path.write_text(MEMORY, encoding="utf-8")
    return path


def read_file(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def test_a_memory_becomes_two_files_with_an_account_of_each_unit(call: Call, memory: Path, tmp_path: Path):
    result = call("convert", "memory.tmx", "train.en", "train.de.gz", "--places", "account.tsv")
    assert (result.exit_code, result.stdout) == (0, "")
    assert read_file(tmp_path / "train.en") == "One\ttab\nThree lines\n"
    assert read_file(tmp_path / "train.de.gz") == "Eins\nDrei <Zeilen>\n"
    assert result.stderr == (
        "memory.tmx (en-US to de): 2 pairs kept, 2 pairs skipped: 1 with no de, 1 with empty target "
        "(memory.tmx:4 (unit 2) no de, memory.tmx:7 (unit 4) empty target)\n"
        "1 pairs had line feeds inside a sentence, which became spaces\n"
    )
    assert read_file(tmp_path / "account.tsv").splitlines() == [
        "kept\tmemory.tmx:3 (unit 1)",
        "no de\tmemory.tmx:4 (unit 2)",
        "kept\tmemory.tmx:5 (unit 3)",
        "empty target\tmemory.tmx:7 (unit 4)",
    ]


def test_what_a_format_cannot_hold_is_accounted_for(call: Call, memory: Path, tmp_path: Path):
    result = call("convert", "memory.tmx", "-", "--from", "de", "--to", "en", "--places", "account.tsv")
    assert result.exit_code == 0
    assert result.stdout == "Drei <Zeilen>\tThree lines\n"
    assert result.stderr.startswith("memory.tmx (de to en): 1 pairs kept, 3 pairs skipped: ")
    assert "1 with a tab, which separates the columns of .tsv" in result.stderr
    assert len(read_file(tmp_path / "account.tsv").splitlines()) == 4


@pytest.mark.parametrize(
    "ending", ["tmx", "tmx.gz", "tmx.xz", "tsv.bz2", "xliff", "po", "csv", "tsv", "jsonl", "parquet"]
)
def test_pairs_go_into_a_format_and_come_back(call: Call, tmp_path: Path, ending: str):
    texts = {"a.en": "\ufeff\ufeffOne & <two>\nThree\u2028\n", "a.de": "Eins\n Zwei\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert call("convert", "a.en", "a.de", f"pairs.{ending}").exit_code == 0
    assert call("convert", f"pairs.{ending}", "b.en", "b.de").exit_code == 0
    assert [read_file(tmp_path / name) for name in ("b.en", "b.de")] == list(texts.values())


def test_the_languages_of_two_files_are_those_of_their_names(call: Call, tmp_path: Path):
    for name in ("a.en", "a.de-AT", "b.txt", "c.txt"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    assert call("convert", "a.en", "a.de-AT", "pairs.jsonl").exit_code == 0
    assert json.loads(read_file(tmp_path / "pairs.jsonl")) == {"translation": {"en": "a.en", "de-AT": "a.de-AT"}}
    assert call("convert", "b.txt", "c.txt", "pairs.jsonl").exit_code == 0
    assert json.loads(read_file(tmp_path / "pairs.jsonl")) == {"source": "b.txt", "target": "c.txt"}
    assert call("convert", "b.txt", "c.txt", "pairs.xlf").exit_code == 2
    assert call("convert", "b.txt", "c.txt", "pairs.xlf", "--from", "en", "--to", "fr").exit_code == 0
    assert read_pairs(tmp_path / "pairs.xlf", max_characters=99).targets == ["c.txt"]


def test_standard_input_is_tsv(shell: Callable, tmp_path: Path):
    process = shell("convert", "-", "pairs.csv", stdin=b"One\tEins\nTwo\t\n")
    assert process.returncode == 0, process.stderr
    assert read_file(tmp_path / "pairs.csv") == '"source","target"\n"One","Eins"\n'
    assert b"standard input: 1 pairs kept, 1 pairs skipped" in process.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["memory.tmx"], "expected what to read and then what to write"),
        (["memory.tmx", "out.en"], "expected what to read and then what to write"),
        (["memory.tmx", "out.en", "out.tmx"], "expected what to read and then what to write"),
        (["memory.tmx", "out.tsv", "out.csv"], "expected what to read and then what to write"),
        (["memory.tmx", "memory.tmx"], "one file is named twice"),
        (["memory.tmx", "out.zip"], "out.zip is an archive of two files (ZIP), which is only read"),
        (["memory.tmx", "out.csv", "--from", "fr", "--to", "de"], "memory.tmx has no unit in both fr and de"),
        (["absent.tmx", "out.csv"], "absent.tmx: no such file or directory"),
        (["broken.tmx", "out.csv"], "broken.tmx:7: not well-formed XML: "),
        (["plain.txt", "plain.de", "out.tmx"], "out.tmx must name its languages, and plain.txt does not tell them"),
        (["tabs.csv", "out.tsv"], "out.tsv can hold none of the pairs: 1 pairs skipped"),
    ],
)
def test_a_conversion_that_fails_says_why_and_leaves_nothing(
    call: Call, memory: Path, tmp_path: Path, words: list[str], message: str
):
    (tmp_path / "broken.tmx").write_text(MEMORY.replace("<seg/>", "<seg>"), encoding="utf-8")
    (tmp_path / "plain.txt").write_text("One\n", encoding="utf-8")
    (tmp_path / "plain.de").write_text("Eins\n", encoding="utf-8")
    (tmp_path / "tabs.csv").write_text('"a\tb",c\n', encoding="utf-8")
    (tmp_path / "out.csv").write_text("what stood there", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = call("convert", *words, "--places", "account.tsv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("pellucid: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
