"""Message catalogues: what gettext reads is read, and what is written is what gettext accepts."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pellucid.data.formats.po_entries import parse_po_entries
from pellucid.data.text.plural_rules import find_plural_rule, read_plural_rule
from pellucid.localize.documents.readers import read_document
from tests.documents.samples import PO
from tests.documents.steps import require_linear_steps

TEMPLATE = """# Title.
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: PACKAGE VERSION\\n"
"PO-Revision-Date: YEAR-MO-DA HO:MI+ZONE\\n"
"Language: \\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=CHARSET\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

#, c-format
msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "\\nBoth ends.\\n"
msgstr ""
"""


def translate(content: str, language: str = "es", name: str = "a.po") -> str:
    """Return a catalogue with each of its texts in capitals, apart from placeholders."""
    document = read_document(name, content.encode(), ("en", language))
    return document.write([text.upper().replace("%D", "%d") for text in document.texts]).decode()


def require_msgfmt(content: str, folder: Path) -> None:
    """Fail where GNU gettext refuses a catalogue, the entries that are fuzzy included."""
    if shutil.which("msgfmt") is None:
        pytest.skip("GNU gettext is not installed")
    path = folder / "checked.po"
    path.write_text(content.replace("#, fuzzy, ", "#, ").replace("#, fuzzy\n", ""), encoding="utf-8")
    answer = subprocess.run(["msgfmt", "-c", "-o", "/dev/null", path], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr + content


def test_a_new_translation_is_marked_fuzzy_beside_the_flags_that_are_there():
    document = read_document("a.po", PO, ("en", "es"))
    lines = document.write(["La %s.\n", "Una casa.", "%d bola", "%d bolas"]).decode().splitlines()
    assert lines[lines.index("#: a.c:1") :][:5] == [
        "#: a.c:1",
        "#, fuzzy, c-format",
        'msgid "The \\"ball\\" is %s.\\n"',
        'msgstr "La %s.\\n"',
        "",
    ]
    assert '#, fuzzy\n#| msgid "x"\nmsgctxt "menu"' in "\n".join(lines)
    assert 'msgstr[0] "%d bola"\nmsgstr[1] "%d bolas"' in "\n".join(lines)
    assert 'msgid "Old."\nmsgstr "Viejo."' in "\n".join(lines)
    assert document.kept["translated"] == 1
    assert document.kept["other"] == 1  # the obsolete one


@pytest.mark.parametrize(
    ("language", "sources"),
    [
        ("es", ["One file", "%d files"]),
        ("ja", ["%d files"]),
        ("ru", ["%d files"] * 3),  # the first form counts 21 files too, so it needs the number
        ("pl", ["One file", "%d files", "%d files"]),
        ("ar", ["%d files", "One file", *["%d files"] * 4]),
        ("zho_Hans", ["%d files"]),
    ],
)
def test_a_template_gets_the_header_and_the_plural_forms_of_its_language(language, sources, tmp_path: Path):
    document = read_document("a.pot", TEMPLATE.encode(), ("en", language))
    assert document.texts == [*sources, "\nBoth ends.\n"]
    written = translate(TEMPLATE, language)
    assert "charset=UTF-8" in written
    named = "zh_Hans" if language == "zho_Hans" else language
    assert f'"Language: {named}\\n"' in written
    assert f'"Plural-Forms: nplurals={len(sources)}; ' in written
    assert "PO-Revision-Date: YEAR-MO-DA HO:MI+ZONE" in written  # no date is invented
    assert written.startswith('# Title.\nmsgid ""')  # a header that says something is no longer fuzzy
    require_msgfmt(written, tmp_path)


@pytest.mark.parametrize("language", ["es", "fr", "lt", "cy", "sl", "mt", "tlh"])
@pytest.mark.parametrize(
    "content",
    [
        'msgid "%d ball"\nmsgid_plural "%d balls"\nmsgstr[0] ""\n',
        TEMPLATE.replace("\n", "\r\n"),
        'msgid"a" "b" msgstr "" msgid\n"c"\nmsgstr\n""\n#~msgid "d" "e"\n#~ msgstr ""\n',
    ],
)
def test_gettext_accepts_what_is_written(language, content, tmp_path: Path):
    require_msgfmt(translate(content, language), tmp_path)


@pytest.mark.parametrize(
    ("charset", "written"), [("us-ascii", "UTF-8"), ("CHARSET", "UTF-8"), ("ISO-8859-1", "ISO-8859-1")]
)
def test_a_translation_is_in_the_encoding_that_the_header_names(charset, written):
    header = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={charset}\\n"\n\n'
    content = f'{header}msgid "Yes."\nmsgstr ""\n'.encode()
    translated = read_document("a.po", content, ("en", "es")).write(["Sí."])
    assert f"charset={written}" in translated.decode("latin-1")
    assert 'msgstr "Sí."' in translated.decode(written)


def test_a_catalogue_that_has_begun_keeps_its_header_and_its_forms():
    header = 'msgid ""\nmsgstr "Language: es_MX\\nPlural-Forms: nplurals=2; plural=n>1;\\n"\n\n'
    entry = 'msgid "%d ball"\nmsgid_plural "%d balls"\nmsgstr[0] "%d bola"\nmsgstr[1] ""\n'
    filled = entry.replace('""', '"%d BALLS"')
    assert translate(header + entry) == f"{header}#, fuzzy\n{filled}"


def test_a_catalogue_in_another_language_is_refused_once_it_has_begun():
    empty = 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "One."\nmsgstr ""\n'
    assert "Language: es" in translate(empty)
    begun = empty + '\nmsgid "Two."\nmsgstr "Zwei."\n'
    with pytest.raises(ValueError, match=r"a\.po is translated into de, as its header says, not es"):
        translate(begun)


def test_entries_are_read_as_gettext_reads_them():
    text = (
        'msgid "One." # with a comment\nmsgstr "Uno."\n'
        '#, fuzzy\n\nmsgid"Two"" halves."msgstr"Dos."\n'
        '#, fuzzy\n#~| msgctxt "before"\n#~| msgid "Was."\n#~msgctxt "c"\n#~msgid "Gone."\n#~msgstr "Ido."\n'
        'msgid "n"\nmsgid_plural "m"\nmsgstr [ 1 ] "b" msgstr[0] "\\x41\\102\\n"\n'
    )
    entries = list(parse_po_entries("a.po", text))
    assert [entry.message.text for entry in entries if entry.message] == ["One.", "Two halves.", "Gone.", "n"]
    assert [[text.text for text in entry.translations] for entry in entries] == [
        ["Uno."],
        ["Dos."],
        ["Ido."],
        ["AB\n", "b"],
    ]
    assert [entry.is_fuzzy for entry in entries] == [False, True, True, False]
    assert [entry.is_obsolete for entry in entries] == [False, False, True, False]
    assert [entry.line for entry in entries] == [1, 3, 6, 12]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgid "b"\n', "a.po:2: .* the entry of line 1 has no msgstr"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', "a.po:3: .* msgstr does not belong here"),
        ('msgstr "b"\n', "a.po:1: .* msgstr does not belong here"),
        ('msgctxt "a"\nmsgctxt "b"\n', "a.po:2: .* has no msgid"),
        ('"a"\n', "a.po:1: .* a text without msgid or msgstr before it"),
        ('msgid "a\nb"\nmsgstr ""\n', "a.po:1: .* the quotes of this line do not fit"),
        ("<html>\n", "a.po:1: .* this line fits no entry"),
    ],
)
def test_a_line_that_fits_no_entry_is_refused_by_its_number(text, message):
    with pytest.raises(ValueError, match=message):
        list(parse_po_entries("a.po", text))


def test_the_rules_of_plurals_choose_the_forms_that_grammars_name():
    # Russian: 1 файл, 2 файла, 5 файлов, 11 файлов, 21 файл (Unicode CLDR, "Language Plural Rules").
    russian = find_plural_rule("ru")._form_of_number
    assert [russian[n] for n in (0, 1, 2, 5, 11, 21, 22, 111)] == [2, 0, 1, 2, 2, 0, 1, 2]
    arabic = find_plural_rule("ar")._form_of_number
    assert [arabic[n] for n in (0, 1, 2, 3, 11, 100, 103)] == [0, 1, 2, 3, 4, 5, 3]
    assert read_plural_rule("nplurals=2; plural=(!(n%10==1) || n==11);")._form_of_number[10:13] == [1, 1, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "header",
    [
        "nplurals=2; plural=n/0;",
        "nplurals=1; plural=n;",
        "nplurals=2; plural=" + "(" * 400,
        "nplurals=2; plural=os;",
        "",
    ],
)
def test_a_rule_that_gives_no_form_is_none(header):
    assert read_plural_rule(header) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda size: 'msgid "a"\nmsgstr ""\n' * size,
        lambda size: 'msgid "a"\nmsgstr ""\n' + '"a"\n' * size,
        lambda size: "msgid " + '"a\\n"' * size + ' msgstr ""',
        lambda size: 'msgid "a" msgstr "" ' * size,
        lambda size: "# a\n" * size + 'msgid "a"\nmsgstr ""\n',
        lambda size: "".join(f'msgid "{i}"\nmsgid_plural "a"\nmsgstr[0] ""\nmsgstr[1] ""\n' for i in range(size)),
        lambda size: '#~ msgid "a"\n#~ msgstr ""\n' * size,
    ],
)
def test_the_steps_of_reading_a_catalogue_grow_with_its_size_alone(make):
    require_linear_steps(lambda size: translate(make(size)))
