"""`pellucid convert`: every pair is written or accounted for, and nothing is half written."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from pellucid.data.corpus import read_pairs

Call = Callable[..., Result]
Refuse = Callable[..., str]

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


@pytest.mark.parametrize(
    ("outputs", "direction"),
    [
        (["train.en", "train.de"], "en-US to de"),
        (["train.de", "train.en"], "de to en-US"),
        (["train.deu.gz", "train.eng"], "de to en-US"),
        (["train.de.txt", "train.en-US.txt"], "de to en-US"),
        (["de.txt", "en.txt"], "de to en-US"),
        (["train.de", "rest.txt"], "de to en-US"),
        (["rest.txt", "train.en"], "de to en-US"),
        (["train.de", "train.en", "--from", "en", "--to", "de"], "en to de"),
    ],
)
def test_each_language_goes_into_the_file_that_bears_its_name(
    call: Call, memory: Path, tmp_path: Path, outputs: list[str], direction: str
):
    result = call("convert", "memory.tmx", *outputs)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith(f"memory.tmx ({direction}): 2 pairs kept, ")
    english = "One\ttab\nThree lines\n"
    for name in outputs[:2]:
        text = read_file(tmp_path / name)
        other = [other for other in outputs[:2] if other != name]
        if "de" in name:
            assert text == "Eins\nDrei <Zeilen>\n"
        elif "en" in name or "de" in other[0]:
            assert text == english


def test_the_names_of_files_decide_for_files_and_for_all_formats_that_name_languages(call: Call, tmp_path: Path):
    for name, line in (("a.en", "One"), ("a.zh-Hans", "一")):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    assert call("convert", "a.en", "a.zh-Hans", "b.zh", "b.en").exit_code == 0
    assert (read_file(tmp_path / "b.zh"), read_file(tmp_path / "b.en")) == ("一\n", "One\n")
    for ending in ("tmx", "xliff", "csv", "jsonl", "parquet"):
        assert call("convert", "a.en", "a.zh-Hans", f"pairs.{ending}").exit_code == 0
        for outputs in (("c.zh-Hans", "c.en"), ("c.en", "c.zh-Hans")):
            assert call("convert", f"pairs.{ending}", *outputs).exit_code == 0
            assert (read_file(tmp_path / "c.zh-Hans"), read_file(tmp_path / "c.en")) == ("一\n", "One\n")
    # Where nothing names a language, the order of the columns and of the files is all that there is.
    assert call("convert", "a.en", "a.zh-Hans", "plain.tsv").exit_code == 0
    assert call("convert", "plain.tsv", "d.en", "d.zh-Hans").exit_code == 0
    assert read_file(tmp_path / "d.en") == "One\n"


def test_the_names_of_files_choose_two_of_several_languages(call: Call, tmp_path: Path):
    variants = {"en-GB": "Colour", "en-US": "Color", "de": "Farbe", "fr": "Couleur"}
    unit = "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants.items())
    (tmp_path / "four.tmx").write_text(f"<tmx><header/><body><tu>{unit}</tu></body></tmx>", encoding="utf-8")
    for first, second in (("fr", "de"), ("en-US", "fra"), ("de", "en-GB"), ("en-US", "en-GB")):
        assert call("convert", "four.tmx", f"t.{first}", f"t.{second}").exit_code == 0
        texts = [read_file(tmp_path / f"t.{code}").strip() for code in (first, second)]
        assert texts == [variants[code.replace("fra", "fr")] for code in (first, second)]
    assert "four.tmx has 4 languages" in call("convert", "four.tmx", "t.it", "t.de").stderr


def test_columns_that_only_name_languages_need_a_direction(call: Call, refuse: Refuse, tmp_path: Path):
    for header, row in (("en,de", "One,Eins"), ("German,English", "Eins,One")):
        (tmp_path / "t.csv").write_text(f"{header}\n{row}\n", encoding="utf-8")
        assert "t.csv does not say which of its columns " in refuse("convert", "t.csv", "-")
        assert call("convert", "t.csv", "-", "--from", "de").stdout == "Eins\tOne\n"
        assert call("convert", "t.csv", "rows.en-de.tsv").exit_code == 0
        assert read_file(tmp_path / "rows.en-de.tsv") == "One\tEins\n"


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
        (["memory.tmx", "x.fr", "x.en"], "x.fr is French (fr) by its name and x.en is English (en) by its name, but"),
        (["memory.tmx", "x.fr", "x.txt"], "but memory.tmx gives English (en-US) and German (de); name the files"),
        (["memory.tmx", "x.en", "y.en"], "x.en is English (en) by its name and y.en is English (en) by its name, but"),
        (["memory.tmx", "x.fr", "x.en", "--from", "en", "--to", "de"], "x.fr is French (fr) by its name"),
        (["plain.en", "plain.de", "x.fr", "x.en"], "but plain.en and plain.de give English (en) and German (de)"),
        (["plain.en", "plain.de", "x.tsv", "--from", "de", "--to", "en"], "exchange the two files, or the two"),
        (["absent.tmx", "out.csv"], "absent.tmx: no such file or directory"),
        (["broken.tmx", "out.csv"], "broken.tmx:7: not well-formed XML: "),
        (["plain.txt", "plain.de", "out.tmx"], "out.tmx must name its languages, and plain.txt does not tell them"),
        (["tabs.csv", "out.tsv"], "out.tsv can hold none of the pairs: 1 pairs skipped"),
    ],
)
def test_a_conversion_that_fails_says_why_and_leaves_nothing(
    refuse: Refuse, memory: Path, tmp_path: Path, words: list[str], message: str
):
    (tmp_path / "broken.tmx").write_text(MEMORY.replace("<seg/>", "<seg>"), encoding="utf-8")
    (tmp_path / "plain.txt").write_text("One\n", encoding="utf-8")
    (tmp_path / "plain.en").write_text("One\n", encoding="utf-8")
    (tmp_path / "plain.de").write_text("Eins\n", encoding="utf-8")
    (tmp_path / "tabs.csv").write_text('"a\tb",c\n', encoding="utf-8")
    (tmp_path / "out.csv").write_text("what stood there", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert message in refuse("convert", *words, "--places", "account.tsv")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
