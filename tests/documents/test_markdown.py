"""Markdown: nothing but the words changes, and the marks of a translation are read as those of its source."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pellucid.localize.documents.markdown_marks import MarkdownScanner
from pellucid.localize.documents.readers import read_document
from tests.documents.steps import require_linear_steps

HTML = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def translate(content: str, *translations: str) -> str:
    """Return a document with these translations; without any, with each of its texts in capitals."""
    document = read_document("a.md", content.encode(), ("en", "es"))
    shouted = [re.sub(r"[a-zé]+", lambda match: match[0].upper(), text) for text in document.texts]
    return document.write(translations or shouted).decode()


def list_texts(content: str) -> list[str]:
    return read_document("a.md", content.encode()).texts


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("# One\n\nTwo\n===\n\n> Three\n", ["One", "Two", "Three"]),
        ("- One\n  two\n- [x] Three\n  1. Four\n", ["One two", "Three", "Four"]),
        ("One  \ntwo\\\nthree<br>four", ["One", "two", "three", "four"]),
        ("**One  \ntwo**", ["<0>One<1/>two</0>"]),
        ("A &amp; B \\* &copy;", ["A & B * ©"]),
        ("`code` alone: `a`", ["<0/> alone: <1/>"]),
        ("A ~~crossed~~ word, <kbd>Ctrl</kbd> and <b>bold</b>.", ["A <0>crossed</0> word, <1/> and <2>bold</2>."]),
        ("See <http://a.b> or [it][] or [b].\n\n[it]: c\n", ["See <0/> or <1>it</1> or [b]."]),
        ("A _word_ and a snake_case_name.", ["A <0>word</0> and a snake_case_name."]),
        ("The area is $\\pi r^2$, for $5 or $6.", ["The area is <0/>, for $5 or $6."]),
        ("Term\n: Its meaning.\n", ["Term", "Its meaning."]),
        ("> [!NOTE]\n> A note.\n", ["A note."]),
        (":::{note}\nInside.\n:::\n", ["Inside."]),
        ("+++\ntitle = 'A'\n+++\nText.\n", ["Text."]),
        ("    code\n\n```\ncode\n```\n\n$$\nx = y\n$$\n", []),
        ("|a|b|\n|-|-|\n| | c `x \\| y` |\n", ["a", "b", "c <0/>"]),
    ],
)
def test_each_block_is_a_text_and_its_marks_are_tags(content, texts):
    assert list_texts(content) == texts


@pytest.mark.parametrize(
    ("content", "texts", "code"),
    [
        # kramdown and Pandoc: attributes.
        ("A note.\n{: .note }\n\n* A\n{:toc}\n\n{: #x}\nB\n", ["A note.", "A", "B"], 0),
        ('A [link](x){: .a } and `c`{.b} **d**{#e f="g"}.\n', ["A <0>link</0> and <1/> <2>d</2>."], 0),
        ("# One ## {#a}\n\nTwo {.b}\n===\n", ["One", "Two"], 0),
        ('{::comment}\nA\n\nB\n{:/comment}\n\n{::options a="b" /}\n', [], 0),
        # Python-Markdown and pymdownx: notes and tabs.
        (
            '!!! note "A *title*"\n    One\n    two.\n\n    Three.\nFour.\n',
            ["A <0>title</0>", "One two.", "Three.", "Four."],
            0,
        ),
        ("??? tip\n\n    One.\n\n        code\n", ["One."], 1),
        ('Zero.\n!!! tip ""\n    One.\n', ["Zero.", "One."], 0),
        ('=== "A tab"\n\n    - One\n', ["A tab", "One"], 0),
        ("!!! Attention\n", ["!!! Attention"], 0),
        ("/// tip | A title\nOne.\n///\n", ["A title", "One."], 0),
        # Liquid and Jinja.
        ("A\n{% highlight ruby %}\nb *c*\n\nd\n{% endhighlight %}\nE\n", ["A", "E"], 1),
        ("{% raw %}\nA {{ b }} {# c #} {% d %} e\n{% endraw %}\n", ["A <0/> <1/> <2/> e"], 0),
        ('{% include a.html\n  caption="A cat" %}\n', ["A cat"], 0),
        ("{% comment %}\nA\n\nB\n{% endcomment %}\n", [], 0),
        ("A [link]({% post_url 2020 %}) and [b]({{ c | d }}).\n", ["A <0>link</0> and <1>b</1>."], 0),
        # Hugo.
        ("{{< highlight go >}}\nA()\n\nB()\n{{< /highlight >}}\n", [], 1),
        ('{{% notice tip %}}\nA [b]({{< ref "c d" >}}).\n{{% /notice %}}\n', ["A <0>b</0>."], 0),
        ("{{< figure src='a.png' title='A title' alt='A cat' >}}\n", ["A title", "A cat"], 0),
        # Formulas and LaTeX.
        ("One\n\\newpage\ntwo\n\n\\vspace{1cm}\n", ["One", "two"], 0),
        ("$$\nx\n\ny\n$$\n\n$$ x $$\n\n\\begin{align}\nx\n\ny\n\\end{align}\n\n\\[\nx\n\\]\n", [], 4),
        ("A $x$, $a+b$, $f(x)$, $$z$$, \\\\(y\\\\) and \\(z\\).\n", ["A <0/>, <1/>, <2/>, <3/>, <4/> and <5/>."], 0),
        ("It costs $5 or $6, US$7, $8/$9; \\(see below\\).\n", ["It costs $5 or $6, US$7, $8/$9; (see below)."], 0),
        # Callouts and containers.
        ("> [!TIP] A *title*\n> One.\n\n> [!NOTE]\n> Two.\n", ["A <0>title</0>", "One.", "Two."], 0),
        ("::: warning A title\nOne.\n:::\n", ["A title", "One."], 0),
        (":::tip[A title]{.a}\n\nOne.\n\n:::\n", ["A title", "One."], 0),
        ("::: {.callout-note title='A title'}\nOne.\n:::\n", ["A title", "One."], 0),
        ("::: my.module\n    options:\n      a: b\n", [], 1),
        (":::{note} A title\n:class: tip\nOne.\n:::\n", ["A title", "One."], 0),
        ("```{tip}\nOne `a`.\n```\n\n```{python}\nprint()\n```\n", ["One <0/>."], 1),
        # Tables of contents, and files that are put in.
        ('[TOC]\n\n[[toc]]\n\n[[_TOC_]]\n\n--8<-- "a.md"\n\n<<< @/a.js\n\n{!a.md!}\n', [], 0),
        ("[!INCLUDE [A](b.md)]\n\n[!VIDEO https://a.b/c]\n", [], 0),
        # Front matter.
        ('{\n  "title": "A"\n}\nText.\n', ["Text."], 0),
        # Definitions, abbreviations and footnotes.
        ("A\n:   One\n\n    Two\n\n        code\n\nB\n~ Three\n", ["A", "One", "Two", "B", "Three"], 1),
        ("The HTML.\n\n*[HTML]: Hyper Text\n*[CSS]: Style\n", ["The HTML.", "Hyper Text", "Style"], 0),
        ("A[^1].\n\n[^1]: One\n    two.\n\n    Three.\n", ["A<0/>.", "One two.", "Three."], 0),
        ("A^[a *note*] and ^[b.\n", ["A<0>a <1>note</1></0> and ^[b."], 0),
        # Wikis and Obsidian.
        ("A [[page|label]], [[page]] and ![[a.png]].\n", ["A <0>label</0>, <1/> and <2/>."], 0),
        ("|A|\n|-|\n|[[page\\|label]]|\n", ["A", "<0>label</0>"], 0),
        ("A %%b%% c.\n\n%%\nd\n\ne\n%%\n\nF ^a-1\n", ["A <0/> c.", "F <0/>"], 0),
        # Components of MDX, in any file.
        ("import A from './a'\nimport {\n  B,\n} from 'b'\n\n# One\n", ["One"], 2),
        ('<Tabs>\n<Tab value="a" label="A label">\n\nOne.\n\n</Tab>\n</Tabs>\n', ["A label", "One."], 0),
        (
            '<Card\n  title="A title"\n  run={() => <b>x</b>}\n/>\n\nA <Key run={a}>b</Key> c.\n',
            ["A title", "A <0>b</0> c."],
            0,
        ),
    ],
)
def test_what_dialects_say_to_programs_is_no_text_and_their_texts_are(content, texts, code):
    for written in (content, content.replace("\n", "\r\n"), content.rstrip("\n")):
        document = read_document("a.md", written.encode())
        assert document.texts == texts
        assert document.kept["code"] == code
        assert document.write(document.texts) == written.encode()


def test_pages_of_mdx_have_expressions_and_components_and_no_html():
    content = (
        "---\na: b\n---\n\nimport A from './a'\n\nexport const b = {\n\n  c: 1,\n}\n\n# One {props.a}\n\n{/* no */}\n\n"
        '{list.map((a) => <li>{a}</li>)}\n\n<div className="a">\nTwo *three* {1 + {a: 2}.a}\n</div>\n\n'
        '<A title="Four" run={() => <b>x</b>} />\n\nimport is a word.\n'
    )
    document = read_document("a.mdx", content.encode(), ("en", "es"))
    assert document.texts == ["One <0/>", "Two <0>three</0> <1/>", "Four", "import is a word."]
    assert document.kept["code"] == 3
    written = document.write(["Uno <0/>", "Dos {x} <0>tres</0> <1/>", "Cuatro {x}", "{importa}"])
    assert b"\nDos \\{x} *tres* {1 + {a: 2}.a}\n" in written
    assert b'<A title="Cuatro &#123;x&#125;" run=' in written
    assert read_document("a.mdx", written, ("es", "en")).texts[-1] == "{importa}"


def test_what_people_read_in_tags_of_html_is_translated():
    content = (
        'A <img src="a" alt="A cat"> and <a title="A title" href="b">c</a>.\n\n<img alt="Two cats">\n\n'
        '<p title="A third">\nText\n</p>\n\nBy <span translate="no">Acme *Inc*</span>, <i lang="fr">ici</i>.\n\n'
        '<div translate="no">\nStays\n</div>\n\n<span translate="no">\nStays\n</span>\n'
    )
    document = read_document("a.md", content.encode(), ("en", "es"))
    texts = ["A <0/> and <1>c</1>.", "A cat", "A title", "Two cats", "A third", "Text", "By <0/>, <1/>."]
    assert document.texts == texts
    assert document.kept["protected"] == 4
    assert document.write(document.texts) == content.encode()


def test_texts_of_pictures_lose_their_marks_and_names_stay():
    content = "![some *text*](a.png) ![one][two] ![three]\n\n[two]: b\n[three]: c\n"
    assert list_texts(content) == [
        "some text",
        "one",
        "three",
    ]
    written = translate(content, "algún [texto]", "uno", "tres")
    assert written.startswith("![algún \\[texto\\]](a.png) ![uno][two] ![tres][three]\n")


def test_lists_and_quotations_are_read_however_deep_or_counted():
    content = "".join(f"{'  ' * depth}- level a\n" for depth in range(20)) + "\nEnd.\n"
    assert list_texts(content) == ["level a"] * 20 + ["End."]
    content = f"{'> ' * 45}deep\n\nEnd.\n"
    assert list_texts(content) == ["deep", "End."]
    document = read_document("a.md", f"{'> ' * 200}too deep\n\nEnd.\n".encode())
    assert (document.texts, document.kept["other"]) == (["End."], 1)


def test_what_stays_is_counted():
    content = "---\na: b\n---\n`x`\n\n    code\n\n$$\ny\n$$\n\n[a]: b 'A title'\n\n![](c.png)\n\n12\n\n<!-- no -->\n"
    document = read_document("a.md", content.encode())
    assert document.texts == []
    assert document.kept["code"] == 3
    assert document.kept["other"] == 3  # the front matter, the title and the image
    assert document.kept["without letters"] == 1


@pytest.mark.parametrize(
    ("content", "translation", "written"),
    [
        # A word that would begin another block gets a backslash, or the line ends at another place.
        ("One.", "1. Uno", "1\\. Uno"),
        ("One.", "- Uno", "\\- Uno"),
        ("One.", "# Uno", "\\# Uno"),
        ("One.", "2024 - Uno", "2024 - Uno"),
        ("One.", "a * b _ c < d", "a * b _ c < d"),
        ("One.", "*Uno*", "\\*Uno\\*"),
        ("One.", "[Uno](x)", "\\[Uno\\](x)"),
        ("One.", "<b>", "\\<b>"),
        ("|One|\n|-|\n", "U | no", "|U \\| no|\n|-|\n"),
        # Emphasis that Markdown could not read inside a word is written in HTML.
        ("A **bold** word.", "太<0>（字）</0>字", "太<strong>（字）</strong>字"),
        ("A **bold** word.", "Una <0>palabra</0>.", "Una **palabra**."),
        ("A **bold** word.", "Una palabra<0> </0>.", "Una palabra ."),
        # A reference keeps its name.
        ("See [it].\n\n[it]: x\n", "Véase <0>eso</0>.", "Véase [eso][it].\n\n[it]: x\n"),
        ("See [*it*][].\n\n[*it*]: x\n", "Véase <0><1>eso</1></0>.", "Véase [*eso*][*it*].\n\n[*it*]: x\n"),
        ("> One\n> two.", "Uno dos.", "> Uno dos."),
    ],
)
def test_a_translation_is_written_so_that_it_is_read_as_it_is_meant(content, translation, written):
    assert translate(content, translation) == written


def test_long_translations_are_wrapped_as_their_source_was():
    content = f"> {'word ' * 12}\n> {'word ' * 12}end\n"
    written = translate(content, " ".join(["palabra"] * 30))
    assert all(line.startswith("> palabra") and len(line) <= 65 for line in written.splitlines())
    assert translate("word " * 40, " ".join(["palabra"] * 60)).count("\n") == 0


BLOCKS = ["# ", "- ", "1. ", "> ", "", "", "## "]
PIECES = [
    "a",
    "two words",
    "*soft*",
    "**hard**",
    "`code`",
    "[link](b.html)",
    "![image](c.png)",
    "~~gone~~",
    "é",
    "&amp;",
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(BLOCKS), st.lists(st.sampled_from(PIECES), min_size=1, max_size=5)), max_size=5)
)
def test_a_translated_document_has_the_marks_of_its_source(blocks):
    content = "\n\n".join(block + " ".join(pieces) for block, pieces in blocks)
    source, translated = (re.sub(r'"[^"]*"', "", HTML.render(text)) for text in (content, translate(content)))
    assert translated.lower() == source.lower()


@settings(max_examples=150, deadline=None)
@given(st.text("ab *_`[]()<>!#-+.=|~\\&$:1\n", max_size=20))
def test_whatever_the_translation_is_the_blocks_stay(translation):
    content = "# One\n\nTwo [three](x).\n\n- Four\n\n|Five|\n|-|\n|Six|\n"
    written = translate(content, translation, f"{translation} <0>x</0>", *[translation] * 3)
    tags = [
        re.findall(r"</?(?:h1|p|ul|li|table|th|td|pre|blockquote|hr)\b", HTML.render(text))
        for text in (content, written)
    ]
    assert tags[1] == tags[0]


KINDS = {
    "paragraph": "One.\n",
    "wrapped paragraph": f"{'one ' * 20}\ntwo.\n",
    "heading": "# One\n\nTwo\n",
    "closed heading": "## One ##\n",
    "heading with attributes": "# One {#a}\n",
    "closed heading with attributes": "# One ## {#a}\n",
    "underlined heading": "One\n===\n",
    "underlined heading of two lines": f"{'one ' * 20}\ntwo\n---\n",
    "item": "- One\n- two\n",
    "numbered item": "1. One\n",
    "task": "- [ ] One\n",
    "quotation": "> One\n> two.\n",
    "cell of the first row": "|One|two|\n|-|-|\n|three|four|\n",
    "cell": "|a|b|\n|-|-|\n|One|two|\n",
    "cell at the beginning of a line": "One|two\n-|-\nthree|four\n",
    "footnote": "[^1]: One\n",
    "definition": "One\n: Two\n: Three\n",
    "definition of several paragraphs": "One\n\n:   Two\n\n    Three\n",
    "title of a note": '!!! note "One"\n    Two\n',
    "title of a tab": '=== "One"\n\n    Two\n',
    "title of a container": "::: tip One\nTwo\n:::\n",
    "title of a container in brackets": ":::tip[One]{.a}\nTwo\n:::\n",
    "title of a block of slashes": "/// tip | One\nTwo\n///\n",
    "title of a callout": "> [!TIP] One\n> Two\n",
    "abbreviation": "*[A]: One\n",
    "text of a template": "{% raw %}\nOne\n{% endraw %}\n",
    "line before a break": "One  \ntwo\\\nthree<br>four\n",
    "marks": "A *one* [two](b.html) `c`\n",
    "text of an image": 'A ![one](b.png "two").\n\n![three][c]\n\n![d]\n\n[c]: e\n[d]: f\n',
    "text of an image in a cell": '|![one](b.png "two")|<img alt="three">|\n|-|-|\n',
    "attribute": 'A <img alt="one"> and <a title=\'two\' href="b">three</a>.\n',
    "attribute of a component": "<Card title=\"One\" label='two' />\n",
}
SIGNS = [
    "#",
    "##",
    *"*_`[]()<>!-+.=|~\\&$:;1\"'{}%^/?,@x",
    "===",
    "---",
    "***",
    "```",
    "~~~",
    ":::",
    "!!!",
    "$$",
    "%%",
    "\\\\",
    "[^1]:",
]
SIGNS += [
    "[TOC]",
    "{.a}",
    "{#a}",
    "{: .a}",
    "{{ a }}",
    "{% a %}",
    "[[a|b]]",
    "[x]",
    "[!TIP]",
    "+++",
    "--8<--",
    "1.",
    "<b>",
    "&lt;",
    "import",
    "^a",
    "*[A]:",
]
ENDS = st.lists(st.sampled_from([*SIGNS, " ", "a"]), max_size=4).map("".join)


@pytest.mark.parametrize("content", KINDS.values(), ids=KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_was_written_is_read_again_as_the_translations(content, data):
    document = read_document("a.md", content.encode(), ("en", "es"))
    translations = []
    for text in document.texts:
        before, after = data.draw(ENDS), data.draw(ENDS)
        tags = re.findall(r"<\d+/>|<(\d+)>.*?</\1>|$", text)
        middle = re.sub(r"\b[a-z]+\b", "b", text) if tags != [""] else "b"
        translations.append(" ".join(f"{before}{middle}{after}".split()))
    written = document.write(translations).decode()
    texts = read_document("a.md", written.encode(), ("en", "es")).texts
    # The quotation mark that ends a title is another one in its translation.
    assert [re.sub("[”’]", lambda mark: {"”": '"', "’": "'"}[mark[0]], text) for text in texts] == translations, written


def test_a_line_between_escaped_brackets_is_no_formula_and_keeps_its_marks():
    # Between \[ and \] a block would be a formula, so the brackets are spelled out.
    [text] = read_document("a.md", b"A *one* `c`\n").texts
    translation = f"[{{.a}}{text}[x]"
    written = translate("A *one* `c`\n", translation)
    assert "*one* `c`" in written
    assert read_document("a.md", written.encode()).texts == [translation]


def test_values_in_templates_lose_the_signs_that_would_end_them():
    content = "{{< figure alt=\"One\" title='two' >}}\n"
    written = translate(content, '"Uno" {{ a }}', "dos' \\")
    assert written == "{{< figure alt=\"”Uno” (( a ))\" title='dos’ /' >}}\n"
    assert read_document("a.md", written.encode()).texts == ["”Uno” (( a ))", "dos’ /"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*"ab *_`[]()<>!\\&\n", "**", "<b>", "(x)", "&lt;"]), max_size=12).map("".join))
def test_marks_are_those_that_a_parser_of_commonmark_finds(text):
    """Emphasis, code, links and images are counted beside markdown-it, in one paragraph."""
    paragraph = f"x{text}x"
    tokens = MarkdownIt("commonmark").parse(paragraph)
    if len(tokens) != 3 or "\n" in paragraph:
        return
    names = {"em_open": "em", "strong_open": "strong", "link_open": "link", "code_inline": "code", "image": "image"}
    expected = sorted(names[child.type] for child in tokens[1].children or () if child.type in names)
    marks = MarkdownScanner(paragraph, lambda label: False).scan()
    found = [mark.name for mark in marks if mark.kind != "closing" and mark.name in names.values()]
    addresses = [mark for mark in marks if mark.name == "address"]
    assert sorted([*found, *["link"] * len(addresses)]) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda size: "The red ball is here.\n" * size,
        lambda size: "- a\n" * size,
        lambda size: "> " * size + "a",
        lambda size: "[a" * size + "]" * size,
        lambda size: "![" * size,
        lambda size: "*a _b " * size,
        lambda size: "a**" * min(size, 900),
        lambda size: "|a" * size + "|\n" + "|-" * size + "|\n",
        lambda size: "a <b " * size,
        lambda size: "[^1]: " * size,
        lambda size: "a\n: b\n" * size,
        lambda size: "{% highlight a %}\n" * size,
        lambda size: "{% highlight a %} b " * size,
        lambda size: "{{< highlight a >}}\n" * size + "{{< /highlight >}}",
        lambda size: "\\begin{align}\n" * size,
        lambda size: "$$ a\n" * size + "\nb $$",
        lambda size: "$$\n\n" * size,
        lambda size: "%%\n\n" * size,
        lambda size: "```{note}\n" * size,
        lambda size: ":::{note}\n" * size + ":::\n" * size,
        lambda size: '!!! note "a"\n    b\n' * size,
        lambda size: "".join(f"{'    ' * depth}!!! a\n" for depth in range(20)) + f"{' ' * 80}b\n" * size,
        lambda size: "::: a {b" * size,
        lambda size: f"::: a{' ' * size}b",
        lambda size: "> [!TIP] a\n" * size,
        lambda size: "{a {{ b {% c {{< d " * size,
        lambda size: "<A b={ c\n" * size,
        lambda size: "<A b='" * size,
        lambda size: "import a\n\n" * size,
        lambda size: "[[a|b " * size,
        lambda size: "$a $$b \\(c " * size,
        lambda size: "%%a ^b {: c {.d " * size,
        lambda size: f"{'> ' * 40}a\n" + "b\n" * size,
    ],
)
def test_the_steps_of_reading_markdown_grow_with_its_size_alone(make):
    require_linear_steps(lambda size: read_document("a.md", make(size).encode(), ("en", "es")))


def test_a_page_in_a_frame_is_translated_in_a_block_and_counted_in_a_line():
    in_line = read_document("a.md", b'A <iframe srcdoc="<p>Words</p>"></iframe> B.\n')
    assert (in_line.texts, in_line.kept["other"]) == (["A <0></0> B."], 1)
    assert b"<p>Words</p>" in in_line.write([text.upper() for text in in_line.texts])
    block = read_document("a.md", b'<iframe srcdoc="<p>Words</p>">\n\nB.\n')
    assert block.write([text.upper() for text in block.texts]) == b'<iframe srcdoc="<p>WORDS</p>">\n\nB.\n'
