"""Files for translators of twice the size take twice the steps, whatever it is in them that there is more of."""

import pytest

from pellucid.localize.documents.readers import read_document
from tests.growth import assert_linear_work

FIRST = (
    '<xliff version="1.2"><file source-language="en" target-language="es" original="a" datatype="x"><body>{}</body>'
    "</file></xliff>"
)
SECOND = '<xliff version="2.0" srcLang="en" trgLang="es"><file id="f">{}</file></xliff>'
MEMORY = '<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'
UNIT = "<trans-unit id='1'><source>{}</source></trans-unit>"
SEGMENTS = "<trans-unit id='1'><source>{0}</source><seg-source>{0}</seg-source><target>{1}</target></trans-unit>"
PAIR = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv></tu>'
# What grows, and what it stands in.
SHAPES = [
    (FIRST, UNIT.format("A ball.")),
    (FIRST, "<group>" + UNIT.format("A ball.") + "</group>"),
    (FIRST.replace("{}", UNIT), 'A <g id="1">ball</g> '),
    (FIRST.replace("{}", UNIT), 'A <bpt id="1">&lt;b></bpt>ball<ept id="1">&lt;/b></ept> '),
    (FIRST.replace("{}", UNIT), 'A <mrk mtype="protected">ball</mrk> '),
    (FIRST.replace("{}", UNIT), 'A <ph id="1">&lt;img alt="<sub>A cat.</sub>"></ph> '),
    (FIRST.replace("{}", UNIT), "A &amp; B &#x1F; <!-- c --> "),
    (FIRST.replace("{}", SEGMENTS.replace("{1}", "")), '<mrk mtype="seg" mid="1">A ball.</mrk> '),
    (FIRST, SEGMENTS.format('<mrk mtype="seg" mid="1">A.</mrk>', '<mrk mtype="seg" mid="1"/>')),
    (
        FIRST,
        "<trans-unit id='1'><source>A.</source><note>n</note><alt-trans><target>B.</target></alt-trans></trans-unit>",
    ),
    (SECOND, '<unit id="1"><segment><source>A ball.</source></segment></unit>'),
    (SECOND.replace("{}", '<unit id="1">{}</unit>'), "<segment><source>A ball.</source></segment>"),
    (
        SECOND.replace("{}", '<unit id="1"><segment><source>{}</source></segment></unit>'),
        'A <sc id="1"/>b<ec startRef="1"/> ',
    ),
    (
        SECOND.replace(
            "{}", '<unit id="1"><originalData>{}</originalData><segment><source>A</source></segment></unit>'
        ),
        '<data id="d1">x</data>',
    ),
    (MEMORY, PAIR.format("A ball.")),
    (MEMORY.replace("{}", PAIR), 'A <bpt i="1">b</bpt>ball<ept i="1"/> '),
    (MEMORY.replace("{}", PAIR), "A <ph>&lt;br/></ph><hi>B</hi> "),
    (MEMORY.replace("{}", "<tu>{}</tu>"), '<tuv xml:lang="en"><seg>A ball.</seg></tuv>'),
    (MEMORY.replace("{}", "<tu>{}</tu>"), '<prop type="x">y</prop><note>z</note>'),
]


@pytest.mark.parametrize(("around", "unit"), SHAPES)
def test_a_file_for_translators_of_twice_the_size_takes_twice_the_steps(around, unit):
    name = "a.tmx" if around.startswith("<tmx") else "a.xlf"

    def work(size: int) -> None:
        document = read_document(name, around.format(unit * size).encode(), ("en", "es"))
        document.write([f"{text} x" for text in document.texts], language="es")

    assert_linear_work(work, 60, "documents")
