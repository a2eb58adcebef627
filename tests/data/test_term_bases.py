"""Term bases (TBX) of both editions of the standard, as the programs of others write them."""

from pathlib import Path

import pytest

from pellucid.data.corpus import SkippedPairs, read_rows, read_valid_pairs
from pellucid.data.formats.units import Sides

# ISO 30042:2019, in the style with categories as attributes (DCA) and in the one with names of elements (DCT).
NEW = """<?xml version="1.0" encoding="UTF-8"?>
<tbx type="TBX-Basic" style="dca" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2">
<tbxHeader><fileDesc><sourceDesc><p>A title</p></sourceDesc></fileDesc></tbxHeader>
<text><body>
<conceptEntry id="c1">
  <descrip type="subjectField">railways</descrip>
  <langSec xml:lang="en"><termSec><term>points</term></termSec><termSec><term>switch</term></termSec></langSec>
  <langSec xml:lang="de-AT"><termSec><term>Weiche</term>
    <termNote type="administrativeStatus">preferredTerm-admn-sts</termNote></termSec>
    <termSec><term>Wechsel</term><termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></termSec>
  </langSec>
</conceptEntry>
<conceptEntry id="c2"><langSec xml:lang="en"><termSec><term>buffer stop</term></termSec></langSec></conceptEntry>
</body></text></tbx>
"""
BY_ELEMENTS = """<?xml version="1.0"?>
<tbx type="TBX-Min" style="dct" xml:lang="fr" xmlns="urn:iso:std:iso:30042:ed-2"
  xmlns:min="http://www.tbxinfo.net/ns/min"><text><body>
<conceptEntry id="1"><langSec xml:lang="fr"><termSec><term>aiguille</term></termSec></langSec>
<langSec xml:lang="de"><termSec><term>Weiche</term></termSec><termSec><term>Spitze</term>
<min:administrativeStatus>supersededTerm-admn-sts</min:administrativeStatus></termSec></langSec></conceptEntry>
</body></text></tbx>
"""
# ISO 30042:2008: <martif>, and terms in <tig>, or in <ntig><termGrp>.
OLD = """<?xml version='1.0'?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="de"><martifHeader><fileDesc/></martifHeader><text><body>
<termEntry id="x"><langSet xml:lang="de"><tig><term>Weiche</term></tig></langSet>
<langSet xml:lang="en"><ntig><termGrp><term>points</term></termGrp></ntig></langSet></termEntry>
</body></text></martif>
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "glossary.tbx"
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path, sides: Sides) -> tuple[list[tuple[str, str]], dict[str, int]]:
    skipped = SkippedPairs()
    pairs = [(source, target) for _, source, target in read_rows(path, None, sides, skipped) if source]
    return pairs, dict(skipped.counts)


def test_each_term_of_a_source_goes_with_each_that_may_be_written(tmp_path):
    sides = Sides()
    pairs, left_out = read(write(tmp_path, NEW), sides)
    assert pairs == [("points", "Weiche"), ("switch", "Weiche")]
    assert (sides.source, sides.target) == ("en", "de-AT")
    assert left_out == {"a term that is marked as not to be used": 2, "no de-AT": 1}


def test_the_language_of_the_root_is_the_source_wherever_it_stands(tmp_path):
    text = NEW.replace('xml:lang="en" xmlns', 'xml:lang="de-AT" xmlns')
    pairs, _ = read(write(tmp_path, text), Sides())
    assert pairs == [("Weiche", "points"), ("Weiche", "switch")]


def test_the_wished_direction_goes_before(tmp_path):
    pairs, _ = read(write(tmp_path, NEW), Sides("de", "en"))
    assert pairs == [("Weiche", "points"), ("Weiche", "switch")]


@pytest.mark.parametrize(
    ("text", "expected", "unwanted"),
    [(BY_ELEMENTS, [("aiguille", "Weiche")], 1), (OLD, [("Weiche", "points")], 0)],
)
def test_other_styles_and_the_older_edition_are_read(tmp_path, text, expected, unwanted):
    pairs, left_out = read(write(tmp_path, text), Sides())
    assert pairs == expected
    assert left_out.get("a term that is marked as not to be used", 0) == unwanted


def test_another_root_is_refused(tmp_path):
    with pytest.raises(ValueError, match="begins with <tmx>, expected <tbx> or <martif>"):
        list(read_valid_pairs(write(tmp_path, "<tmx/>"), None, 100, SkippedPairs(), Sides()))
