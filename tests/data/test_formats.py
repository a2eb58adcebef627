"""Laws of the formats: each gives the same pairs, every unit is kept or counted, and nothing hostile gets through."""

import bz2
import gzip
import lzma
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.data.corpus import SentencePairs, SkippedPairs, holds_pairs, read_pairs, read_valid_pairs
from pellucid.data.formats import PAIR_FORMATS, find_pair_format, moses, po, xml
from pellucid.data.formats.units import Sides, Unit
from pellucid.training.data import read_data
from tests.training.corpora import small_run

law = settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

NASTY = st.sampled_from(
    [
        *"\r\v\f\x1c\x1e\x85\u2028\u2029\t \u3000\ufeff\"\\'&<>;,|#",
        "]]>",
        "<seg>",
        "&amp;",
        "\\n",
        "\u0301",
        "😀",
        "\x01",
    ]
)
PLAIN = st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])
SENTENCE = st.lists(st.one_of(NASTY, PLAIN), min_size=1, max_size=9).map("".join)
SENTENCE = SENTENCE.filter(lambda text: text.strip() != "" and not text.endswith("\r"))
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=6)

WRITABLE = [pair_format.endings[0] for pair_format in PAIR_FORMATS if pair_format.encode]
ENGLISH, GERMAN = ["The ball is blue.", "You & I < we.", 'He said "no".'], ["Der Ball ist blau.", "Du & ich.", "Nein."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


def encode(ending: str, pairs: list[tuple[str, str]], languages: tuple[str, str] = ("en", "de")) -> tuple[bytes, list]:
    """Return the bytes of a file with these pairs, and the pairs that its format could not hold."""
    skipped = []
    pair_format = find_pair_format(f"x.{ending}")
    assert pair_format is not None
    assert pair_format.encode is not None
    units = (Unit(number, *pair) for number, pair in enumerate(pairs, start=1))
    chunks = pair_format.encode(
        units, Sides(*languages), lambda unit, reason: skipped.append((unit.source, unit.target))
    )
    return b"".join(chunks), skipped


def write_file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path, source: str | None = None, target: str | None = None) -> SentencePairs:
    return read_pairs(path, max_characters=1000, sides=Sides(source, target))


def list_pairs(pairs: SentencePairs) -> list[tuple[str, str]]:
    return list(zip(pairs.sources, pairs.targets, strict=True))


def refusal(path: Path, source: str | None = None, target: str | None = None) -> str:
    """Return the one sentence with which a file is refused, without the folder."""
    with pytest.raises(ValueError, match=re.escape(path.name)) as caught:
        read(path, source, target)
    message = str(caught.value).replace(f"{path.parent}/", "")
    assert "\n" not in message
    return message


def read_or_refuse(path: Path) -> bool:
    """Return whether a file has pairs; otherwise it must be refused with one sentence that names it."""
    try:
        return len(read(path)) > 0
    except ValueError as error:
        message = str(error)
    assert path.name in message
    assert "\n" not in message
    return False


def tmx(*units: str, header: str = "", before: str = "") -> str:
    body = "\n".join(units)
    return f'<?xml version="1.0"?>{before}<tmx version="1.4"><header {header}/><body>\n{body}\n</body></tmx>'


def tu(**texts: str) -> str:
    return (
        "<tu>"
        + "".join(f'<tuv xml:lang="{k.replace("_", "-")}"><seg>{v}</seg></tuv>' for k, v in texts.items())
        + "</tu>"
    )


# Round trips


@pytest.mark.parametrize("ending", WRITABLE)
@law
@given(pairs=PAIRS)
def test_what_is_written_in_a_format_is_read_again(folder: Path, ending: str, pairs: list[tuple[str, str]]):
    """The pairs that a format cannot hold are skipped and named; all others come back as they were, in order."""
    content, unfit = encode(ending, pairs)
    held = [pair for pair in pairs if pair not in unfit]
    path = write_file(folder / f"pairs.{ending}", content)
    if held:
        assert list_pairs(read(path)) == held
        assert list_pairs(read(path, "en", "de")) == held
    if ending == "tsv":
        assert unfit == [pair for pair in pairs if "\t" in "".join(pair)]
    elif ending in ("tmx", "xliff", "tbx"):
        assert unfit == [pair for pair in pairs if re.search("[^\t\r\x20-\ufffd\U00010000-\U0010ffff]", "".join(pair))]
    else:
        assert unfit == []


def test_the_same_pairs_train_the_same_run_from_each_format(tmp_path: Path):
    run = small_run(tmp_path / "plain")
    files = run.data.source or "", run.data.target or ""
    sources, targets = (Path(file).read_text("utf-8").splitlines() for file in files)
    expected = read_data(run)
    for ending in [*WRITABLE, "zip"]:
        path = tmp_path / f"train.{ending}"
        if ending == "zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("LICENSE", "free")
                archive.writestr("corpus.de-en.en", "\n".join(sources))
                archive.writestr("corpus.de-en.de", "\n".join(targets) + "\n")
        else:
            path.write_bytes(encode(ending, list(zip(sources, targets, strict=True)))[0])
        languages = {"source_language": "en", "target_language": "de"}
        data = read_data(replace(run, data=replace(run.data, source=None, target=None, train=str(path), **languages)))
        assert data.fingerprint == expected.fingerprint, ending
        assert data.encoded.sources.ids.tolist() == expected.encoded.sources.ids.tolist(), ending


def test_every_format_of_pairs_may_be_compressed(tmp_path: Path):
    for ending in WRITABLE:
        content = encode(ending, list(zip(ENGLISH, GERMAN, strict=True)))[0]
        for suffix, compress in (("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)):
            packed = compress(content)
            path = write_file(tmp_path / f"x.{ending}.{suffix}", packed)
            assert holds_pairs(path)
            if ending == "parquet":
                continue
            assert read(path).targets == GERMAN
            for cut in (len(packed) // 2, -4):
                assert "damaged or cut short" in refusal(write_file(path, packed[:cut]))


def test_an_empty_file_holds_no_pairs_in_any_format(tmp_path: Path):
    for ending in sorted(ending for pair_format in PAIR_FORMATS for ending in pair_format.endings):
        assert refusal(write_file(tmp_path / f"x.{ending}", b""))


@law
@given(st.sampled_from([e for pair_format in PAIR_FORMATS for e in pair_format.endings]), st.binary(max_size=60))
def test_any_bytes_give_pairs_or_one_sentence(folder: Path, ending: str, content: bytes):
    path = write_file(folder / f"any.{ending}", content)
    read_or_refuse(path)


@pytest.mark.parametrize("ending", WRITABLE)
@law
@given(data=st.data())
def test_a_damaged_file_gives_its_pairs_or_one_sentence(folder: Path, ending: str, data: st.DataObject):
    content = bytearray(encode(ending, list(zip(ENGLISH, GERMAN, strict=True)))[0])
    start = data.draw(st.integers(0, len(content) - 1))
    content[start : start + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=5))
    path = write_file(folder / f"damaged.{ending}", bytes(content))
    read_or_refuse(path)


# TMX


def test_the_text_and_the_placeholders_of_a_memory_are_kept_and_native_code_is_dropped(tmp_path: Path):
    marked = (
        'Click <bpt i="1">&lt;b&gt;<sub>not this</sub></bpt>here<ept i="1">&lt;/b&gt;</ept><ph x="1">{0}</ph> '
        "<hi>now</hi> &amp; <it pos='begin'>[i]</it>then<ut>{u}</ut><!-- no -->."
    )
    path = write_file(tmp_path / "m.tmx", tmx(tu(en=marked, de="Hier\n    klicken ")))
    pairs = read(path)
    assert list_pairs(pairs) == [("Click here{0} now & then.", "Hier klicken")]
    assert pairs.skipped.joined == 1


def test_units_without_a_pair_are_counted_with_their_places(tmp_path: Path):
    units = [
        tu(en="One", de="Eins"),
        tu(en="Two"),
        tu(en="Three", de=""),
        tu(fr="Quatre", de="Vier"),
        '<tu><tuv xml:lang="en-GB"><seg>Five</seg></tuv><tuv lang="DE"><seg>Fünf</seg></tuv>'
        '<tuv xml:lang="de"><seg>fünf</seg></tuv></tu>',
        "<tu/>",
    ]
    path = write_file(tmp_path / "m.tmx", tmx(*units))
    pairs = read(path, "en", "de")
    assert list_pairs(pairs) == [("One", "Eins"), ("Five", "Fünf")]
    assert pairs.skipped.counts == {
        "no de": 1,
        "empty target": 1,
        "no en": 2,
        "a further variant in de": 1,
    }
    assert pairs.skipped.examples[:2] == [
        f"{tmp_path}/m.tmx:3 (unit 2) no de",
        f"{tmp_path}/m.tmx:4 (unit 3) empty target",
    ]
    assert pairs.file_line(1, "source") == f"{path} (unit 5)"


def test_the_two_languages_of_a_memory_are_found_and_the_sources_come_first(tmp_path: Path):
    path = write_file(tmp_path / "m.tmx", tmx(tu(de_DE="Eins", en_US="One"), tu(de_DE="Zwei", en_GB="Two")))
    assert read(path).sources == ["Eins", "Zwei"]
    path = write_file(path, tmx(tu(de_DE="Eins", en_US="One"), tu(de_DE="Zwei", en_GB="Two"), header='srclang="en-US"'))
    assert read(path).sources == ["One", "Two"]
    assert read(path, "de").targets == ["One", "Two"]
    assert read(path, target="de").sources == ["One", "Two"]
    assert read(path, "en_us", "de").sources == ["One"]


def test_an_unclear_choice_of_languages_is_refused_with_those_that_are_there(tmp_path: Path):
    path = write_file(tmp_path / "m.tmx", tmx(tu(en="One", de="Eins", fr="Un")))
    message = "m.tmx has 3 languages: en, de, fr; name two of them, for example --from en --to de"
    assert refusal(path).startswith(message)
    assert refusal(path, "en").startswith(message)
    assert refusal(path, "en", "es") == "m.tmx has no unit in both en and es; its languages are en, de, fr"
    assert refusal(path, "es") == "m.tmx has no 'es'; its languages are en, de, fr"
    assert "only one of the languages that a pair needs: en" in refusal(write_file(path, tmx(tu(en="One"))))
    assert read(write_file(path, tmx(tu(en="Color", en_GB="Colour"))), "en", "en-GB").targets == ["Colour"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "iso-8859-1"])
def test_a_memory_is_read_in_the_encoding_that_it_names(tmp_path: Path, encoding: str):
    named = "UTF-16" if "16" in encoding else "UTF-8" if "8-sig" in encoding else encoding
    mark = "\ufeff" if encoding.endswith("e") else ""
    text = tmx(tu(en="Fine", de="Schön")).replace('version="1.0"', f'version="1.0" encoding="{named}"', 1)
    assert read(write_file(tmp_path / "m.tmx", (mark + text).encode(encoding))).targets == ["Schön"]


def test_bytes_of_another_encoding_are_named_by_line(tmp_path: Path):
    path = write_file(tmp_path / "m.tmx", tmx(tu(en="Fine", de="Schön")).encode("iso-8859-1"))
    assert refusal(path).startswith("m.tmx:2: not well-formed XML: ")


# Hostile XML


def test_entities_are_refused_and_nothing_is_fetched(tmp_path: Path):
    secret = write_file(tmp_path / "secret.txt", "the password")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    for entities, text in (
        (f'<!ENTITY l0 "lol">{laughs}', "&l11;"),
        (f'<!ENTITY x SYSTEM "{secret.as_uri()}">', "&x;"),
        ('<!ENTITY % dtd SYSTEM "http://127.0.0.1:9/x.dtd"> %dtd;', "x"),
        ('<!ENTITY unused "x">', "x"),
    ):
        path = write_file(tmp_path / "m.tmx", tmx(tu(en=text, de="y"), before=f"<!DOCTYPE tmx [{entities}]>"))
        assert "m.tmx" in refusal(path)
        assert "password" not in refusal(path)
    root = f'<!DOCTYPE tmx [<!ENTITY l0 "lol">{laughs}]><tmx a="&l11;"/>'
    assert refusal(write_file(tmp_path / "m.tmx", root))
    assert "declares entities of its own" in refusal(
        write_file(tmp_path / "m.tmx", '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx/>')
    )


def test_a_dtd_that_is_only_named_is_neither_read_nor_refused(tmp_path: Path):
    write_file(tmp_path / "tmx14.dtd", '<!ENTITY nbsp "gotcha">')
    for place in ("tmx14.dtd", "http://127.0.0.1:9/tmx14.dtd"):
        text = tmx(tu(en="a&nbsp;b", de="c"), before=f'<!DOCTYPE tmx SYSTEM "{place}">')
        assert read(write_file(tmp_path / "m.tmx", text)).sources == ["a\u00a0b"]


def test_deep_nesting_and_endless_units_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert "not well-formed XML" in refusal(write_file(tmp_path / "m.tmx", tmx(tu(en="<hi>" * 5000, de="x"))))
    monkeypatch.setattr(xml, "LARGEST_UNIT", 100_000)
    long = "<prop>x</prop>" * 20_000
    for text in (tmx(f"<tu>{long}</tu>"), tmx(before="") + " " * 200_000, f"<tmx><header>{long}"):
        assert "no unit ends within 100,000 bytes" in refusal(write_file(tmp_path / "m.tmx", text))
    units = [tu(en="One", de="Eins")] * 20_000  # the limit is one on a unit
    assert len(read(write_file(tmp_path / "m.tmx", tmx(*units)))) == 20_000


@pytest.mark.parametrize("ending", ["tmx", "xlf"])
def test_broken_xml_is_named_by_its_line(tmp_path: Path, ending: str):
    root = {"tmx": "tmx", "xlf": "xliff"}[ending]
    path = tmp_path / f"m.{ending}"
    assert refusal(write_file(path, f"<{root}>\n\n<a></b>\n</{root}>")).startswith(
        f"m.{ending}:3: not well-formed XML: "
    )
    assert refusal(write_file(path, f"<{root}><body>")).startswith(f"m.{ending}:1: not well-formed XML: ")
    assert (
        refusal(write_file(path, "<html><tu/><trans-unit/></html>"))
        == f"m.{ending} begins with <html>, expected <{root}>"
    )


# XLIFF


def xliff(*units: str, languages: str = 'source-language="en" target-language="de-DE"') -> str:
    body = "\n".join(units)
    name = "urn:oasis:names:tc:xliff:document:1.2"
    return f'<xliff version="1.2" xmlns="{name}"><file {languages}><header/><body>\n{body}\n</body></file></xliff>'


def test_segments_of_xliff_1_are_kept_or_counted(tmp_path: Path):
    units = [
        '<trans-unit id="1"><source>Press <g id="1">the <mrk mtype="term">key</mrk></g><x id="2"/><ph id="3">&lt;br'
        '/&gt;</ph>.</source><target>Taste <g id="1">drücken</g>.</target><alt-trans><target>Nein.</target></alt-trans>'
        "</trans-unit>",
        "<trans-unit><source>Two</source></trans-unit>",
        '<group><trans-unit><source>Three</source><target state="needs-translation">Drei</target></trans-unit></group>',
        '<trans-unit><source>Four</source><target state="new">Four</target></trans-unit>',
        '<trans-unit><source>Five</source><target state="translated">Fünf</target></trans-unit>',
        "<trans-unit><source>Six</source><target> </target></trans-unit>",
    ]
    path = write_file(tmp_path / "m.xliff", xliff(*units))
    pairs = read(path)
    assert list_pairs(pairs) == [("Press the key.", "Taste drücken."), ("Five", "Fünf")]
    assert pairs.skipped.counts == {
        "no target": 1,
        "the state needs-translation": 1,
        "the state new": 1,
        "empty target": 1,
    }
    assert pairs.skipped.examples[0] == f"{path}:3 (unit 2) no target"
    assert read(path, "de", "en").sources == ["Taste drücken.", "Fünf"]
    assert refusal(path, "en", "fr") == "m.xliff translates en to de-DE, not en to fr"
    assert len(read(write_file(path, xliff(*units, languages='source-language="en"')), "en", "fr")) == 2


def test_segments_of_xliff_2_are_kept_or_counted(tmp_path: Path):
    path = write_file(
        tmp_path / "m.xlf",
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"><file id="f">'
        '<unit id="1"><originalData><data id="d">code</data></originalData><segment><source>One <pc id="1">two</pc>'
        '<ph id="2"/></source><target>Eins zwei</target></segment><ignorable><source> </source></ignorable>'
        '<segment state="initial"><source>Three</source><target>Three</target></segment>'
        "<segment><source>Four</source></segment></unit>"
        '<unit id="2"><segment state="final"><source>Five</source><target>Fünf</target></segment></unit>'
        "</file></xliff>",
    )
    pairs = read(path)
    assert list_pairs(pairs) == [("One two", "Eins zwei"), ("Five", "Fünf")]
    assert pairs.skipped.counts == {"the state initial": 1, "no target": 1}
    assert list(pairs.lines) == [1, 4]


# PO

CATALOGUE = """
msgid ""
msgstr ""
"Language: de\\n"
"Content-Type: text/plain; charset=CHARSET\\n"

#: main.c:7
msgctxt "menu"
msgid "Open\\tfile"
msgstr ""
"Datei "
"öffnen"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#, fuzzy
msgid "Close"
msgstr "Klo"

msgid "Save"
msgstr ""

#~ msgid "Old"
#~ msgstr "Alt"
"""


@pytest.mark.parametrize("charset", ["UTF-8", "iso-8859-1", "CHARSET"])
def test_messages_of_a_catalogue_are_kept_or_counted(tmp_path: Path, charset: str):
    text = CATALOGUE.replace("CHARSET", charset)
    path = write_file(tmp_path / "m.po", text.encode("utf-8" if charset == "CHARSET" else charset))
    pairs = read(path)
    assert list_pairs(pairs) == [("Open\tfile", "Datei öffnen"), ("%d file", "%d Datei"), ("%d files", "%d Dateien")]
    assert pairs.skipped.counts == {"a fuzzy translation": 1, "no translation": 1, "an obsolete translation": 1}
    assert pairs.skipped.examples[0] == f"{path}:19 (unit 4) a fuzzy translation"
    assert read(path, "de", "en").sources[0] == "Datei öffnen"
    assert refusal(path, "en", "fr") == "m.po is translated into de, as its header says, not fr"


def test_an_unsound_catalogue_is_refused_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.po"
    assert refusal(write_file(path, 'msgid "a"\nmsgstr "b\n')).startswith("m.po:2: not a message catalogue (PO): ")
    assert refusal(write_file(path, 'msgid "a"\nnonsense\n')).startswith("m.po:2: not a message catalogue (PO): ")
    assert refusal(write_file(path, 'msgid "a"\nmsgstr "\xe4"\n'.encode("latin-1"))).startswith(
        "m.po:2: byte 0xE4 is not"
    )
    monkeypatch.setattr(po, "LARGEST_CATALOGUE", 50)
    assert "has more than 50 bytes" in refusal(write_file(path, CATALOGUE))


# Tables


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_columns_of_a_table_are_found_by_its_header(tmp_path: Path, delimiter: str):
    rows = [
        ["id", "German", "note", "en-US"],
        ["1", '"Ja; ja, ""so""|\t."', "x", "Yes"],
        ["2", '"Zwei\nZeilen"', "", "Two"],
    ]
    text = "\ufeff" + "\r\n".join(delimiter.join(row) for row in rows) + "\r\n"
    path = write_file(tmp_path / "m.csv", text)
    assert list_pairs(read(path)) == [('Ja; ja, "so"|\t.', "Yes"), ("Zwei Zeilen", "Two")]
    assert list_pairs(read(path, "en", "de"))[1] == ("Two", "Zwei Zeilen")
    assert list_pairs(read(path, "4", "2"))[1] == ("Two", "Zwei Zeilen")
    assert list(read(path, "note", "german").lines) == [2]
    assert refusal(path, "fr", "de").startswith("m.csv has no 'fr'; its columns are German, en-US")
    assert refusal(path, "5", "2") == "m.csv:1: 4 columns, so there is no column 5"


def test_a_table_names_its_delimiter_or_needs_no_header(tmp_path: Path):
    path = write_file(tmp_path / "m.csv", "sep=;\nHello, world;Hallo, Welt\n\nYes;Ja\n")
    assert list_pairs(read(path)) == [("Hello, world", "Hallo, Welt"), ("Yes", "Ja")]
    assert list(read(path).lines) == [2, 4]
    assert read(write_file(path, "target,source\nJa,Yes\n")).sources == ["Yes"]
    assert read(write_file(path, "target,source\nJa,Yes\n"), "en", "de").sources == ["Yes"]
    assert refusal(write_file(path, "en,de,fr\na,b,c\n")).startswith(
        "m.csv has 3 columns: en, de, fr; name two of them"
    )
    assert refusal(write_file(path, "a,b,c\n")).endswith("for example columns 1 and 2: --from 1 --to 2")


def test_quotes_that_do_not_fit_are_refused_by_their_line(tmp_path: Path):
    for text in ('a,b\n"c,d\ne,f\n', 'a,b\n"c"d,e\n'):
        assert refusal(write_file(tmp_path / "m.csv", text)).startswith("m.csv:2: the quotes of this row do not fit")


def test_exports_of_tatoeba_are_read(tmp_path: Path):
    path = write_file(tmp_path / "m.tsv", "1276\tTry it.\t2481\tPrueba.\n77\ten\t78\tes\n")
    assert list_pairs(read(path)) == [("Try it.", "Prueba."), ("en", "es")]
    assert read(path, "4", "2").sources == ["Prueba.", "es"]
    path = write_file(tmp_path / "m.tsv", "Go.\tVe.\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (a) & #2 (b)\n")
    assert list_pairs(read(path)) == [("Go.", "Ve.")]


def test_objects_have_texts_under_languages_or_keys(tmp_path: Path):
    path = write_file(tmp_path / "m.jsonl", '{"id": "0", "translation": {"en": "Yes", "de": "Ja\\nja"}}\n')
    assert list_pairs(read(path)) == [("Yes", "Ja ja")]
    assert list_pairs(read(path, "de", "en")) == [("Ja ja", "Yes")]
    assert refusal(path, "fr", "en") == "m.jsonl has no 'fr'; its languages are en, de"
    path = write_file(tmp_path / "m.jsonl", '{"id": "0", "en": "Yes", "german": "Ja", "n": 7}\n')
    assert list_pairs(read(path)) == [("Yes", "Ja")]
    path = write_file(tmp_path / "m.jsonl", '{"translation": {"en": "a", "de": "b", "fr": "c"}}\n')
    assert refusal(path).startswith("m.jsonl has 3 languages: en, de, fr; name two of them")
    path = write_file(path, '{"translation": {"en": "a", "de": "b", "score": 1}}\n{"translation": {"en": "a"}}\n')
    assert read(path).skipped.examples == [f"{path}:2 empty target"]
    # The first object has other languages than those that are asked for, a later one has them.
    path = write_file(path, '{"translation": {"en": "a", "fr": "b"}}\n{"translation": {"en": "a", "de": "c"}}\n')
    assert list_pairs(read(path, "en", "de")) == [("a", "c")]
    assert refusal(path, "es", "de") == "m.jsonl has no 'es'; its languages are en, fr"


# Archives


def archive(path: Path, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_two_files_of_an_archive_make_pairs(tmp_path: Path):
    files = {"Books.de-en.de": "Eins\r\nZwei\n", "Books.de-en.en": "One\n\n", "Books.de-en.xml": "<x/>", "README": "hi"}
    path = archive(tmp_path / "m.zip", **files)
    assert list_pairs(read(path)) == [("Eins", "One")]
    pairs = read(path, "en", "de")
    assert list_pairs(pairs) == [("One", "Eins")]
    assert pairs.skipped.examples == [f"{path}:2 empty source"]


def test_archives_that_are_no_pair_of_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.zip"
    assert refusal(archive(path, **{"a.en": "x\n", "a.de": "x\ny\n"})).startswith(
        "m.zip ('a.en') has 1 lines and m.zip"
    )
    assert "no pair of files" in refusal(archive(path, **{"a.en": "x\n", "b.de": "x\n"}))
    several = archive(path, **{"a.en": "x\n", "a.de": "x\n", "../../b.en": "x\n", "../../b.de": "x\n"})
    assert "several pairs of files ('a', '../../b')" in refusal(several)
    assert "3 languages: en, de, fr" in refusal(archive(path, **{"a.en": "x\n", "a.de": "x\n", "a.fr": "x\n"}))
    assert read(archive(path, **{"/etc/../a.en": "x\n", "/etc/../a.de": "y\n"})).targets == ["y"]  # nothing is unpacked
    whole = archive(path, **{"a.en": "x\n" * 999, "a.de": "y\n" * 999}).read_bytes()
    for cut in range(1, len(whole), 13):
        assert refusal(write_file(path, whole[:cut]))
    damaged = bytearray(whole)
    damaged[whole.index(b"a.de") + 6] ^= 0xFF
    assert refusal(write_file(path, bytes(damaged)))
    monkeypatch.setattr(moses, "LARGEST_UNCHECKED", 1000)
    bomb = archive(path, **{"a.en": "\n" * 10**6, "a.de": "\n" * 10**6})
    assert "would expand to 1,000,000, more than 200 times as many" in refusal(bomb)


# Parquet


def test_parquet_has_languages_or_columns(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "m.parquet"
    rows = [
        {"id": "0", "translation": {"en": "One", "de": "Eins"}},
        {"id": "1", "translation": {"en": "Two", "de": None}},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    pairs = read(path, "de", "en")
    assert list_pairs(pairs) == [("Eins", "One")]
    assert pairs.skipped.examples == [f"{path} (unit 2) empty source"]
    parquet.write_table(pyarrow.Table.from_pylist([{"text": "One", "n": 7, "german": "Eins", "en": "x\0"}]), path)
    assert list_pairs(read(path, "text", "de")) == [("One", "Eins")]
    assert "a NUL character" in refusal(path, "en", "de")
    parquet.write_table(pyarrow.Table.from_pylist([{"text": "One", "n": 7}]), path)
    assert "the columns of text text; pairs need two" in refusal(path)


@pytest.mark.parametrize("kind", ["string_view", "large_string", "binary", "large_binary", "dictionary"])
def test_parquet_may_have_its_text_as_views_bytes_or_categories(tmp_path: Path, kind: str):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    texts = ["Eins", "Über uns", "Eins"]
    if kind == "dictionary":
        column = pyarrow.array(texts).dictionary_encode()
    elif hasattr(pyarrow, kind):
        column = pyarrow.array(
            [text.encode() for text in texts] if "binary" in kind else texts, getattr(pyarrow, kind)()
        )
    else:
        pytest.skip(f"this pyarrow has no {kind}")
    path = tmp_path / "m.parquet"
    parquet.write_table(pyarrow.table({"de": column, "en": ["One", "About us", "One"]}), path)
    assert read(path, "en", "de").targets == texts
    broken = pyarrow.array([b"\xff", "Über uns".encode(), b"Eins"])
    parquet.write_table(pyarrow.table({"de": broken, "en": ["One", "About us", "One"]}), path)
    pairs = read(path, "en", "de")
    assert pairs.targets == texts[1:]
    assert pairs.skipped.counts == {"bytes that are no UTF-8": 1}


def test_parquet_may_lack_any_part_of_a_row(tmp_path: Path):
    """A row, its translation, one of its texts or a category that is null is counted, and no other row moves."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "m.parquet"
    pairs = [
        {"en": "One", "de": "Eins"},
        None,
        {"en": None, "de": "Zwei"},
        {"en": "Three", "de": "Drei"},
        {"en": "Four"},
    ]
    parquet.write_table(pyarrow.table({"translation": pyarrow.array(pairs)}), path)
    result = read(path, "en", "de")
    assert (result.sources, list(result.lines)) == (["One", "Three"], [1, 4])
    assert result.skipped.counts == {"empty source": 2, "empty target": 1}
    for names in (("en", "de"), ("text.en", "text.de")):
        columns = [
            pyarrow.array(["One", None, "Three"]).dictionary_encode(),
            pyarrow.array([b"Eins", b"Zwei", None]).dictionary_encode(),
        ]
        parquet.write_table(pyarrow.table(dict(zip(names, columns, strict=True))), path)
        result = read(path, *names)
        assert list_pairs(result) == [("One", "Eins")]
        assert result.skipped.counts == {"empty source": 1, "empty target": 1}


# Accounts


def test_kept_and_skipped_units_add_up(tmp_path: Path):
    units = [tu(en=f"Number {n}", **({"de": f"Nummer {n}"} if n % 3 else {}), fr="x" * (n % 5)) for n in range(200)]
    path = write_file(tmp_path / "m.tmx", tmx(*units))
    translated, in_french = {n for n in range(200) if n % 3}, {n for n in range(200) if n % 5}
    for sides, kept in ((("en", "de"), translated), (("en", "fr"), in_french), (("de", "fr"), translated & in_french)):
        skipped = SkippedPairs()
        numbers = [number for number, _, _ in read_valid_pairs(path, None, 1000, skipped, Sides(*sides))]
        assert numbers == [n + 1 for n in sorted(kept)]
        assert len(kept) + skipped.counts.total() == 200


def test_real_messy_files_give_pairs_or_one_sentence(pellucid_data: Path):
    read_files = 0
    for path in sorted((pellucid_data / "messy").rglob("*")):
        if path.is_file() and holds_pairs(path):
            read_files += read_or_refuse(path)
    assert read_files > 50
