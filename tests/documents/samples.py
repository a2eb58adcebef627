"""Small documents of every format, each with formatting, things that are no text, and a sentence to translate."""

import io
import zipfile

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def make_zip(files: dict[str, str | bytes], stored: tuple[str, ...] = ()) -> bytes:
    """Make an archive of these files, in this order."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(
                zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2)),
                content,
                zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED,
            )
    return out.getvalue()


def read_zip(content: bytes) -> dict[str, str]:
    """Return the files of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def make_docx(body: str, **parts: str) -> bytes:
    """Make a DOCX document of paragraphs, and of further parts such as header1."""
    overrides = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{TYPES}.{name.rstrip("123")}+xml"/>' for name in parts
    )
    kinds = {"header": "hdr", "footer": "ftr"}
    relations = "".join(
        f'<Relationship Id="{name}" Type="{RELATION}/{name.rstrip("123")}" Target="{name}.xml"/>' for name in parts
    )
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": f'{DECLARATION}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{TYPES}.document.main+xml"/>{overrides}</Types>',
        "_rels/.rels": f'{DECLARATION}<Relationships xmlns="{RELATIONS}">'
        f'<Relationship Id="rId1" Type="{RELATION}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'{DECLARATION}<Relationships xmlns="{RELATIONS}">{relations}</Relationships>',
        "word/document.xml": f"{DECLARATION}<w:document {W}><w:body>{body}</w:body></w:document>",
    }
    for name, content in parts.items():
        kind = kinds.get(name.rstrip("123"), name)
        files[f"word/{name}.xml"] = f"{DECLARATION}<w:{kind} {W}>{content}</w:{kind}>"
    return make_zip(files)


ODF_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{prefix}:1.0"'
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "style": "style",
        "draw": "drawing",
        "presentation": "presentation",
        "svg": "svg-compatible",
        "fo": "xsl-fo-compatible",
    }.items()
)


def make_odt(body: str, kind: str = "text", /, **more: str) -> bytes:
    """Make an ODT document of paragraphs, or one of another kind of OpenDocument."""
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    return make_zip(
        {
            "mimetype": media_type,
            "content.xml": f'{ODF_DECLARATION}<office:document-content {ODF} office:version="1.3">'
            f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>",
            "styles.xml": f'{ODF_DECLARATION}<office:document-styles {ODF} office:version="1.3">'
            '<office:master-styles><style:master-page style:name="Standard"><style:header><text:p>A header.</text:p>'
            "</style:header></style:master-page></office:master-styles></office:document-styles>",
            "META-INF/manifest.xml": '<?xml version="1.0"?><manifest:manifest '
            'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" manifest:version="1.3">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{media_type}"/>'
            '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
            '<manifest:file-entry manifest:full-path="styles.xml" manifest:media-type="text/xml"/></manifest:manifest>',
            **more,
        },
        stored=("mimetype",),
    )


DOCX = make_docx(
    '<w:p w:rsidR="00A1"><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:bookmarkStart w:id="0" w:name="_Toc1"/>'
    "<w:r><w:t>The ball.</w:t></w:r><w:bookmarkEnd w:id='0'/></w:p>"
    '<w:p><w:r><w:rPr><w:lang w:val="en-US"/></w:rPr><w:t xml:space="preserve">The </w:t></w:r><w:proofErr w:type="x"/>'
    '<w:r><w:rPr><w:b/></w:rPr><w:t>red ball</w:t></w:r><w:r><w:t xml:space="preserve"> is </w:t></w:r>'
    '<w:hyperlink w:anchor="_Toc1"><w:r><w:rPr><w:u w:val="single"/></w:rPr><w:t>here</w:t></w:r></w:hyperlink>'
    '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:t>.</w:t></w:r></w:p>'
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>A cell &amp; more</w:t><w:tab/><w:t>after a tab</w:t></w:r></w:p></w:tc>"
    "<w:tc><w:p><w:r><w:t>12.5</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    '<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE </w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>1</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    "<w:r><w:t xml:space='preserve'> is the page.</w:t></w:r>"
    "<w:del><w:r><w:delText>Gone.</w:delText></w:r></w:del></w:p>"
    "<w:p/><w:sectPr/>",
    header1="<w:p><w:r><w:t>A header.</w:t></w:r></w:p>",
    footnotes='<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>A note.</w:t></w:r></w:p></w:footnote>',
)
DOCX_TEXTS = [
    "The ball.",
    "The <0>red ball</0> is <1><2>here</2></1><3/>.",
    "A cell & more\tafter a tab",
    " is the page.",
    "A header.",
    "A note.",
]

ODT = make_odt(
    '<text:h text:outline-level="1">The ball.</text:h>'
    '<text:p>The <text:span text:style-name="T1">red\n  ball</text:span> is <text:s/><text:a>here</text:a>.'
    "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note.</text:p></text:note-body>"
    "</text:note></text:p><table:table><table:table-row><table:table-cell><text:p>A cell &amp; more<text:tab/>after"
    "</text:p></table:table-cell></table:table-row></table:table><text:p/><text:p>12.5</text:p>"
)
ODT_TEXTS = [
    "The ball.",
    "The <0>red ball</0> is <1/><2>here</2>.",
    "A note.",
    "A cell & more\tafter",
    "A header.",
]

XLIFF = b"""<?xml version='1.0' encoding="UTF-8"?>\r
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\r
 <file original="a" source-language="en-US" datatype="x"><body>\r
  <trans-unit id='1' >\r
   <source>The <g id="1">red ball</g> is <x id="2" />here &amp; there.</source>\r
  </trans-unit>\r
  <trans-unit id="2"><source>Done.</source><target>Hecho.</target></trans-unit>\r
  <trans-unit id="3"><source>The <bpt id="1">[b]</bpt>ball<ept id="1">[/b]</ept>.</source>\r
   <target state="new"/></trans-unit>\r
  <trans-unit id="4" translate="no"><source>A name.</source></trans-unit>\r
  <trans-unit id="5"><source>One. Two.</source>\r
   <seg-source><mrk mtype="seg" mid="0">One.</mrk> <mrk mtype="seg" mid="1">Two.</mrk></seg-source></trans-unit>\r
 </body></file>\r
</xliff>\r
"""
XLIFF_TEXTS = ["The <0>red ball</0> is <1/>here & there.", "The <0>ball</0>.", "One.", "Two."]

XLIFF2 = b"""<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="1"><segment><source>The <pc id="1">ball</pc> is <ph id="2"/>here.</source></segment></unit>
<unit id="2"><segment state="initial"><source>A house.</source><target>A house.</target></segment></unit>
<unit id="3" translate="no"><segment><source>A name.</source></segment></unit></file></xliff>"""

SDLXLIFF = b"""\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>
<xliff xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0" xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
<file original="a.docx" source-language="en-US" target-language="es-ES" datatype="x"><body>
<trans-unit id="u1"><source>The ball. <g id="1">The house.</g> Yes.</source><seg-source><mrk mtype="seg" mid="1">The
ball.</mrk> <g id="1"><mrk mtype="seg" mid="2">The <x id="3"/>house.</mrk></g> <mrk mtype="seg" mid="3">Yes.</mrk>
</seg-source><target><mrk mtype="seg" mid="1">La bola.</mrk> <g id="1"><mrk mtype="seg" mid="2"/></g></target>
<sdl:seg-defs><sdl:seg id="1" conf="Translated" origin="interactive"/><sdl:seg id="2"/><sdl:seg id="3"></sdl:seg>
</sdl:seg-defs></trans-unit>
<trans-unit id="u2" translate="no"><source>A name.</source></trans-unit>
<trans-unit id="u3"><source>Locked.</source><seg-source><mrk mtype="seg" mid="4">Locked.</mrk></seg-source>
<sdl:seg-defs><sdl:seg id="4" locked="true"/></sdl:seg-defs></trans-unit>
</body></file></xliff>"""
SDLXLIFF_TEXTS = ["The <0/>house.", "Yes."]

MQXLIFF = b"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:mq="MQXliff">
<file original="a" source-language="en" target-language="es" datatype="x-memoq"><body>
<trans-unit id="1" mq:status="NotStarted"><source xml:space="preserve">The <bpt id="1" ctype="bold">{}</bpt>red<ept
id="1">{}</ept> ball.</source><target xml:space="preserve"></target></trans-unit>
<trans-unit id="2" mq:status="ManuallyConfirmed"><source>Done.</source><target>Hecho.</target></trans-unit>
<trans-unit id="3" mq:status="NotStarted" mq:locked="locked"><source>Locked.</source><target/></trans-unit>
</body></file></xliff>"""

MXLIFF = b"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:m="http://www.memsource.com/mxlf/2.0">
<file original="a" source-language="en" target-language="es" datatype="x"><body><group id="0" m:para-id="0">
<trans-unit id="a:0" m:confirmed="0"><source>The {1&gt;red&lt;1} ball{2}is here.</source><target></target>
<m:tunit-metadata><m:mark id="1"><m:content>b</m:content></m:mark></m:tunit-metadata></trans-unit>
<trans-unit id="a:1" m:confirmed="1"><source>Done.</source><target>Hecho.</target></trans-unit>
</group></body></file></xliff>"""

TMX = b"""<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>The <hi>ball</hi>.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Done.</seg></tuv><tuv xml:lang="es"><seg>Hecho.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Empty.</seg></tuv><tuv xml:lang="es"><seg/></tuv></tu>
</body></tmx>"""

PO = b"""# A header.
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: a.c:1
#, c-format
msgid "The \\"ball\\" is %s.\\n"
msgstr ""

#, fuzzy
msgid "Old."
msgstr "Viejo."

#| msgid "x"
msgctxt "menu"
msgid ""
"A "
"house."
msgstr ""
""

msgid "%d ball"
msgid_plural "%d balls"
msgstr[0] ""
msgstr[1] ""

#~ msgid "Gone."
#~ msgstr ""
"""
PO_TEXTS = ['The "ball" is %s.\n', "A house.", "%d ball", "%d balls"]

SRT = (
    b"\xef\xbb\xbf1\r\n00:00:01,000 --> 00:00:02,500\r\n"
    b"{\\an8}The <i>red</i> ball is here\r\nand the house is big.\r\n\r\n"
    b"2\r\n00:00:03,000 --> 00:00:04,000\r\n- Yes.\r\n- No.\r\n\r\n3\r\n00:00:05,000 --> 00:00:06,000\r\n42\r\n"
)
SRT_TEXTS = ["The <0>red</0> ball is here and the house is big.", "Yes.", "No."]

VTT = b"""WEBVTT - a film
Kind: captions
Language: en

NOTE a remark

STYLE
::cue { color: white }

intro
00:01.000 --> 00:02.500 align:start position:10%
<v Ann>The <c.red>ball</c> &amp; the house
are big.</v>

01:00:03.000 --> 01:00:04.000
<i>- Yes.
- No.</i>
"""
VTT_TEXTS = ["The <0>ball</0> & the house are big.", "Yes.", "No."]

SBV = b"0:00:01.000,0:00:02.500\r\nThe ball is blue.\r\n\r\n0:00:03.000,0:00:04.000\r\n>> Yes.\r\n>> No.\r\n"

ASS = b"""[Script Info]
Title: A film
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:00.00,0:00:01.00,Default,,0,0,0,,A remark
Dialogue: 0,0:00:01.00,0:00:02.50,Default,Ann,0,0,0,,{\\an8}The {\\i1}red{\\i0} ball, and more.
Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,- Yes.\\N- No.
Dialogue: 0,0:00:05.00,0:00:06.00,Default,,0,0,0,,{\\p1}m 0 0 l 9 9{\\p0}
"""
ASS_TEXTS = ["The <0/>red<1/> ball, and more.", "Yes.", "No."]

HTML = (
    b'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The ball</title></head><body>\n'
    b"<p class='a'>The <b>red</b>\n ball &amp; a house&nbsp;.</p><script>x < 1</script><p>12</p></body></html>\n"
)
HTML_TEXTS = ["The ball", "The <0>red</0> ball & a house\xa0."]

MD = b"""---\r
title: A ball\r
---\r
\r
# The *red* ball {#ball}\r
\r
The **red** ball is [here](x.html "A title") and `code`\r
is [there][a]. ![A picture](a.png)\r
\r
> - [ ] A task\r
\r
| Name | Value |\r
|------|------:|\r
| A \\| B | `a \\| b` |\r
| Two | 12 |\r
\r
```python\r
print("Hello")\r
```\r
\r
<p>Some <b>HTML</b>.</p>\r
\r
A note[^1].\r
\r
[^1]: The note.\r
\r
[a]: y.html\r
"""
MD_TEXTS = [
    "The <0>red</0> ball",
    "The <0>red</0> ball is <1>here</1> and <2/> is <3>there</3>. <4/>",
    "A title",
    "A picture",
    "A task",
    "Name",
    "Value",
    "A | B",
    "Two",
    "Some <0>HTML</0>.",
    "A note<0/>.",
    "The note.",
]

JSON = b"""{
  "title": "The \\"ball\\" is {{color}}.",
  "nested": {"list": ["One\\n", 2, null, "12"], "caf\\u00e9": "A cat"},
  "file_one": "One file",
  "file_other": "{{count}} files"
}
"""
JSON_TEXTS = ['The "ball" is {{color}}.', "One\n", "A cat", "One file", "{{count}} files"]

YAML = b"""# A comment.
en:
  title: "The \\"ball\\" is %{color}.\\n"  # another
  plain: A house
  quoted: 'It''s here'
  flag: true
  order:
    - :year
  balls: {one: One ball, other: "%{count} balls"}
  text: |
    One line.
    Two lines.

  folded: >-
    A folded text
"""
YAML_TEXTS = [
    'The "ball" is %{color}.\n',
    "A house",
    "It's here",
    "One ball",
    "%{count} balls",
    "One line.\nTwo lines.\n",
    "A folded text",
]

ANDROID = rb"""<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- A comment. -->
    <string name="a">Tom\'s <b>cat</b> is <xliff:g id="n">%1$s</xliff:g>.\n</string>
    <string name="b" translatable="false">Name</string>
    <string name="c">@string/a</string>
    <string-array name="d"><item>One &amp; two</item><item>12</item></string-array>
    <plurals name="e">
        <item quantity="one">One ball</item>
        <item quantity="other">%d balls</item>
    </plurals>
    <color name="f">#ff0000</color>
</resources>
"""
ANDROID_TEXTS = ["Tom's <0>cat</0> is <1/>.\n", "One & two", "One ball", "%d balls"]

QT = b"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="es_ES" sourcelanguage="en">
<context>
    <name>Main</name>
    <message>
        <location filename="a.cpp" line="3"/>
        <source>The &quot;ball&quot; is %1.</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n ball(s)</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message><source>Done</source><translation>Hecho</translation></message>
    <message><source>Gone</source><translation type="vanished">Ido</translation></message>
</context>
</TS>
"""
QT_TEXTS = ['The "ball" is %1.', "%n ball(s)", "%n ball(s)"]

TXT = b"\xef\xbb\xbfThe ball is blue.\r\n\r\n\tThe house.\n12"
TXT_TEXTS = ["The ball is blue.", "The house."]

P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
R = f'xmlns:r="{RELATION}"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
PROPERTIES = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title><dc:creator>Ann</dc:creator>'
    "<dc:description>For Tom.</dc:description><dc:language>en-GB</dc:language></cp:coreProperties>"
)


def make_package(parts: dict[str, tuple[str, str]]) -> bytes:
    """Make a package of Office Open XML of parts, each with its type and its XML; those of relations have none."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="application/vnd.{kind}+xml"/>'
        for name, (kind, _) in parts.items()
        if kind
    )
    types = (
        f'{DECLARATION}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{overrides}</Types>'
    )
    return make_zip({"[Content_Types].xml": types, **{name: DECLARATION + xml for name, (_, xml) in parts.items()}})


PRESENTATION = "openxmlformats-officedocument.presentationml"
SHEETS = "openxmlformats-officedocument.spreadsheetml"


def make_pptx(*slides: str, **more: tuple[str, str]) -> bytes:
    """Make a PPTX presentation of shapes; the last slide is shown first. Further parts have a type each."""
    numbers = range(len(slides), 0, -1)
    listed = "".join(f'<p:sldId id="{255 + i}" r:id="rId{i}"/>' for i in numbers)
    relations = "".join(f'<Relationship Id="rId{i}" Type="slide" Target="slides/slide{i}.xml"/>' for i in numbers)
    parts = {
        "ppt/presentation.xml": (
            f"{PRESENTATION}.presentation.main",
            f"<p:presentation {P} {R}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
        ),
        "ppt/_rels/presentation.xml.rels": ("", f'<Relationships xmlns="{RELATIONS}">{relations}</Relationships>'),
    }
    for i, slide in enumerate(slides, 1):
        tree = f"<p:sld {P} {A}><p:cSld><p:spTree>{slide}</p:spTree></p:cSld></p:sld>"
        parts[f"ppt/slides/slide{i}.xml"] = (f"{PRESENTATION}.slide", tree)
    parts |= {f"ppt/{name}.xml": (f"{PRESENTATION}.{kind}", xml) for name, (kind, xml) in more.items()}
    parts["docProps/core.xml"] = ("openxmlformats-package.core-properties", PROPERTIES.format(title="A show"))
    return make_package(parts)


def make_shape(paragraphs: str, place: str = "") -> str:
    """Make a shape of a slide with paragraphs in it."""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="Title 1"/><p:cNvSpPr/><p:nvPr>{place}</p:nvPr></p:nvSpPr>'
        f"<p:txBody><a:bodyPr/>{paragraphs}</p:txBody></p:sp>"
    )


PPTX = make_pptx(
    make_shape(
        '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en-GB" dirty="0"/><a:t>The </a:t></a:r>'
        '<a:r><a:rPr lang="en-GB" b="1" err="1"/><a:t>red ball</a:t></a:r>'
        '<a:r><a:rPr lang="en-GB" dirty="0"/><a:t> is here.</a:t></a:r><a:endParaRPr lang="en-GB"/></a:p>'
        '<a:p><a:fld id="{B}" type="slidenum"><a:rPr lang="en-GB"/><a:t>1</a:t></a:fld></a:p>'
    )
    + "<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>A cell &amp; more"
    "</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    '<p:pic><p:nvPicPr><p:cNvPr id="4" name="Picture 3" descr="A house by the sea"/></p:nvPicPr></p:pic>',
    make_shape("<a:p><a:r><a:t>The ball.</a:t></a:r></a:p>", '<p:ph type="title"/>'),
    notes=("notesSlide", f"<p:notes {P} {A}>{make_shape('<a:p><a:r><a:t>Say it.</a:t></a:r></a:p>')}</p:notes>"),
    layout=(
        "slideLayout",
        f"<p:sldLayout {P} {A}>"
        + make_shape("<a:p><a:r><a:t>Click to edit</a:t></a:r></a:p>", '<p:ph type="body"/>')
        + make_shape("<a:p><a:r><a:t>Our house.</a:t></a:r></a:p>")
        + "</p:sldLayout>",
    ),
    comment=("comments", f"<p:cmLst {P}><p:cm><p:text>Is it red?</p:text></p:cm></p:cmLst>"),
)
PPTX_TEXTS = [
    "The ball.",
    "The <0>red ball</0> is here.",
    "A cell & more",
    "A house by the sea",
    "Say it.",
    "Our house.",
    "A show",
]


def make_xlsx(strings: str, sheet: str, **more: tuple[str, str]) -> bytes:
    """Make an XLSX workbook of shared strings and one sheet; further parts have a type each."""
    parts = {
        "xl/workbook.xml": (
            f"{SHEETS}.sheet.main",
            f'<workbook {S} {R}><sheets><sheet name="Balls" sheetId="1" r:id="rId1"/></sheets></workbook>',
        ),
        "xl/worksheets/sheet1.xml": (f"{SHEETS}.worksheet", f"<worksheet {S}>{sheet}</worksheet>"),
        "xl/sharedStrings.xml": (f"{SHEETS}.sharedStrings", f"<sst {S}>{strings}</sst>"),
    }
    parts |= {f"xl/{name}.xml": (f"{SHEETS}.{kind}", xml) for name, (kind, xml) in more.items()}
    parts["docProps/core.xml"] = ("openxmlformats-package.core-properties", PROPERTIES.format(title="A list"))
    return make_package(parts)


XLSX = make_xlsx(
    "<si><t>The ball.</t></si>"
    '<si><r><t xml:space="preserve">The </t></r><r><rPr><b/></rPr><t>red ball</t></r>'
    '<r><t xml:space="preserve"> is here.</t></r></si>'
    "<si><t>Colour</t></si><si><t>yes</t></si><si><t>12.5</t></si>",
    '<sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c><c r="C1" t="s"><v>2</v></c></row>'
    '<row r="2"><c r="A2"><f>IF(C1="yes",1,"no")</f><v>1</v></c><c r="B2" t="inlineStr">'
    "<is><t>A cell &amp; more</t></is></c></row></sheetData>"
    "<dataValidations><dataValidation sqref='A1' prompt='Say why.'/></dataValidations>"
    "<headerFooter><oddHeader>&amp;C&amp;&quot;Arial,Bold&quot;A header&amp;RPage &amp;P</oddHeader></headerFooter>",
    table=("table", f'<table {S} id="1"><tableColumns><tableColumn id="1" name="Colour"/></tableColumns></table>'),
    comments1=("comments", f'<comments {S}><commentList><comment ref="A1"><text><t>Why?</t></text></comment>'
               "</commentList></comments>"),
)  # fmt: skip
XLSX_TEXTS = [
    "The ball.",
    "The <0>red ball</0> is here.",
    "A cell & more",
    "Say why.",
    "A header",
    "Page ",
    "A list",
]

META = (
    f"{ODF_DECLARATION}<office:document-meta {ODF} "
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta><dc:title>A book</dc:title>'
    "<dc:language>en-GB</dc:language></office:meta></office:document-meta>"
)
ODP = make_odt(
    '<draw:page draw:name="page1"><draw:frame><draw:text-box><text:p>The <text:span text:style-name="T1">red ball'
    "</text:span> is here.</text:p></draw:text-box><svg:title>A house by the sea</svg:title></draw:frame>"
    "<presentation:notes><draw:frame><draw:text-box><text:p>Say it.</text:p></draw:text-box></draw:frame>"
    "</presentation:notes></draw:page>",
    "presentation",
    **{"meta.xml": META},
)
ODP_TEXTS = ["The <0>red ball</0> is here.", "A house by the sea", "Say it.", "A header.", "A book"]
ODS = make_odt(
    '<table:table table:name="Sheet1"><table:table-row><table:table-cell office:value-type="string"><text:p>The ball.'
    '</text:p></table:table-cell><table:table-cell office:value-type="float" office:value="2"><text:p>2</text:p>'
    '</table:table-cell><table:table-cell table:formula="of:=A1" office:value-type="string"><text:p>The ball.</text:p>'
    "</table:table-cell></table:table-row></table:table>",
    "spreadsheet",
)

XHTML = '<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">'


def make_epub(*pages: str) -> bytes:
    """Make an EPUB book of pages, of which the last is read first, with a table of contents of the older kind."""
    numbers = range(len(pages), 0, -1)
    items = "".join(f'<item id="p{i}" href="text/p{i}.xhtml" media-type="application/xhtml+xml"/>' for i in numbers)
    order = "".join(f'<itemref idref="p{i}"/>' for i in numbers)
    title = '<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">A book</dc:title>'
    language = '<dc:language xmlns:dc="http://purl.org/dc/elements/1.1/">en</dc:language>'
    files: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/book.opf": f'{ODF_DECLARATION}<package xmlns="http://www.idpf.org/2007/opf"><metadata>{title}{language}'
        f'</metadata><manifest><item id="toc" href="toc.ncx" media-type="application/x-dtbncx+xml"/>{items}</manifest>'
        f'<spine toc="toc">{order}</spine></package>',
        "OEBPS/toc.ncx": f'{ODF_DECLARATION}<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" xml:lang="en"><navMap>'
        '<navPoint id="n1"><navLabel><text>One</text></navLabel><content src="text/p1.xhtml"/></navPoint></navMap>'
        "</ncx>",
    }
    for i, page in enumerate(pages, 1):
        files[f"OEBPS/text/p{i}.xhtml"] = f"{ODF_DECLARATION}{XHTML}<body>{page}</body></html>"
    return make_zip(files, stored=("mimetype",))


EPUB = make_epub("<h1>The ball.</h1>\n<p>The <b>red ball</b> is here.<br/></p>", "<p>A house &amp; more</p>")
EPUB_TEXTS = ["A book", "A house & more", "The ball.", "The <0>red ball</0> is here.", "One"]

SAMPLES = {
    "a.txt": (TXT, TXT_TEXTS),
    "a.html": (HTML, HTML_TEXTS),
    "a.md": (MD, MD_TEXTS),
    "a.json": (JSON, JSON_TEXTS),
    "a.arb": (b'{"a": "Hello {name}", "@a": {"description": "No."}}', ["Hello {name}"]),
    "a.yml": (YAML, YAML_TEXTS),
    "a.xml": (ANDROID, ANDROID_TEXTS),
    "a.ts": (QT, QT_TEXTS),
    "a.srt": (SRT, SRT_TEXTS),
    "a.vtt": (VTT, VTT_TEXTS),
    "a.sbv": (SBV, ["The ball is blue.", "Yes.", "No."]),
    "a.ass": (ASS, ASS_TEXTS),
    "a.po": (PO, PO_TEXTS),
    "a.xliff": (XLIFF, XLIFF_TEXTS),
    "b.xlf": (XLIFF2, ["The <0>ball</0> is <1/>here.", "A house."]),
    "a.sdlxliff": (SDLXLIFF, SDLXLIFF_TEXTS),
    "a.mqxliff": (MQXLIFF, ["The <0>red</0> ball."]),
    "a.mxliff": (MXLIFF, ["The <0>red</0> ball<1/>is here."]),
    "a.tmx": (TMX, ["The <0>ball</0>.", "Empty."]),
    "a.docx": (DOCX, DOCX_TEXTS),
    "a.pptx": (PPTX, PPTX_TEXTS),
    "a.xlsx": (XLSX, XLSX_TEXTS),
    "a.odt": (ODT, ODT_TEXTS),
    "a.odp": (ODP, ODP_TEXTS),
    "a.ods": (ODS, ["The ball.", "A header."]),
    "a.epub": (EPUB, EPUB_TEXTS),
}
"""Documents by their names, each with the texts that are translated in it."""
