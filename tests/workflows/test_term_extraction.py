"""A glossary that a text proposes: what is planted is found, and what is translated in two ways is said so."""

import gzip
import json
import random

import pytest
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.data.term_spans import link_pairs, list_term_spans
from pellucid.localize.terminology import Terms
from pellucid.workflows.term_extraction import propose_glossary

NOUNS = {"dog": "perro", "cat": "gato", "horse": "caballo", "table": "mesa", "window": "ventana", "garden": "jardín"}
VERBS = {"sees": "ve", "wants": "quiere", "finds": "encuentra", "paints": "pinta"}


def make_pairs(number: int, seed: int = 1) -> list[tuple[str, str]]:
    """Make pairs of plain sentences, with a term of two words in one of five and a word with two translations."""
    draw, pairs = random.Random(seed), []
    for i in range(number):
        (noun, noun_there), (other, other_there) = draw.sample(sorted(NOUNS.items()), 2)
        verb, verb_there = draw.choice(sorted(VERBS.items()))
        source, target = f"The {noun} {verb} the {other}", f"El {noun_there} {verb_there} el {other_there}"
        if i % 5 == 0:
            near, near_there = draw.choice([("beside", "junto a"), ("behind", "tras"), ("before", "ante")])
            source, target = f"{source} {near} the buffer stop", f"{target} {near_there} el tope final"
        if i % 4 == 0:
            source, target = f"{source} quickly", f"{target} {'rápido' if i % 8 else 'deprisa'}"
        pairs.append((f"{source} .", f"{target} ."))
    return pairs


def propose(pairs: list[tuple[str, str]], **options):
    return propose_glossary(((number, *pair) for number, pair in enumerate(pairs, start=1)), **options)


@pytest.fixture(scope="module")
def glossary():
    return propose(make_pairs(400))


def test_words_and_phrases_that_are_always_translated_alike_are_terms(glossary):
    found = {term.source: term.translations[0].forms for term in glossary.consistent}
    for source, target in (NOUNS | VERBS).items():
        assert found[source] == [target]
    assert found["buffer stop"] == ["tope final"]
    assert all(term.consistency >= 0.7 for term in glossary.consistent)


def test_a_term_with_two_translations_is_listed_with_the_places_of_each(glossary):
    assert "quickly" not in {term.source for term in glossary.consistent}
    (quickly,) = [term for term in glossary.inconsistent if term.source == "quickly"]
    ways = {translation.forms[0]: translation for translation in quickly.translations}
    assert set(ways) == {"rápido", "deprisa"}
    pairs = make_pairs(400)
    for word, translation in ways.items():
        assert translation.places
        assert all(word in pairs[place - 1][1] for place in translation.places)
        assert translation.count <= sum(word in target for _, target in pairs)


def test_common_words_begin_and_end_no_term(glossary):
    for term in (*glossary.consistent, *glossary.inconsistent):
        assert {term.source.split()[0].lower(), term.source.split()[-1].lower()}.isdisjoint({"the", "."})


def test_a_pair_that_is_repeated_counts_once():
    pairs = make_pairs(100)
    assert propose(pairs * 3) == propose(pairs)


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="3 different pairs are too few to find terms"):
        propose(make_pairs(3) * 50)


def test_a_word_that_stands_twice_is_linked_with_both():
    pairs = [pair for pair in make_pairs(100) if "dog" in pair[0] or "cat" in pair[0]]
    sources, targets = ([side.split() for side in sides] for sides in zip(*pairs, strict=True))
    twice = ["the", "dog", "sees", "the", "dog"], ["el", "perro", "ve", "el", "perro"]
    *_, links = link_pairs([*sources, twice[0]], [*targets, twice[1]])
    assert {(1, 1), (4, 4), (2, 2)} <= set(links)


def test_a_stretch_whose_links_lead_out_of_its_translation_is_no_term():
    links = [(0, 0), (1, 2), (2, 1)]
    spans = list(list_term_spans(["red", "iron", "gate"], ["rot", "Tor", "Eisen"], links, (set(), set())))
    assert ((0, 1), (0, 1)) in spans
    assert ((1, 3), (1, 3)) in spans
    # "red iron" is "rot ... Eisen", and "Tor" between them belongs to "gate".
    assert not any(source == (0, 2) for source, _ in spans)


@pytest.mark.parametrize("ending", ["tsv", "csv", "tbx"])
def test_the_command_writes_a_glossary_that_terms_reads(tmp_path, ending):
    out = tmp_path / f"glossary.{ending}"
    result = CliRunner().invoke(app, ["terms", *write_books(tmp_path), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    terms = Terms.read(out, "en", "es")
    assert terms.targets("buffer stop") == ("tope final",)
    assert terms.targets("quickly") == ()
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"source", "count", "translations", "consistency"} == set(objects[0])
    if ending == "tsv":
        assert "# quickly: " in out.read_text(encoding="utf-8")


def write_books(folder, source="a.en", target="a.es"):
    """Write the sides of made-up pairs; return their paths."""
    pairs = make_pairs(200)
    for name, side in ((source, 0), (target, 1)):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return str(folder / source), str(folder / target)


def test_a_compressed_glossary_is_compressed(tmp_path):
    out = tmp_path / "glossary.tsv.gz"
    assert CliRunner().invoke(app, ["terms", *write_books(tmp_path), "--out", str(out)]).exit_code == 0
    assert b"\nbuffer stop\ttope final\t" in gzip.decompress(out.read_bytes())
    assert Terms.read(out).targets("buffer stop") == ("tope final",)


def test_a_term_base_without_languages_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("pellucid.workflows.term_extraction.propose_glossary", None)
    books = write_books(tmp_path, "source", "target")
    result = CliRunner().invoke(app, ["terms", *books, "--out", str(tmp_path / "glossary.tbx")])
    assert result.exit_code == 2
    assert "add --from and --to" in result.output
    assert not (tmp_path / "glossary.tbx").exists()


def test_another_ending_is_refused_before_anything_is_read(tmp_path):
    result = CliRunner().invoke(app, ["terms", "none.en", "none.es", "--out", str(tmp_path / "glossary.docx")])
    assert result.exit_code == 2
    assert "a glossary is written as .tsv, .csv or .tbx" in result.output
