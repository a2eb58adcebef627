"""Improvement by corrections: what counts as right, what is held out, what is mixed in, and what is not kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.data.formats.units import Sides
from pellucid.serve.corrections import Corrections
from pellucid.store.directory import load_bundle
from pellucid.training.data import read_dev_pairs
from pellucid.training.loop import train_run
from pellucid.training.state_store import remember_states
from pellucid.workflows.improvement import (
    Changes,
    Correction,
    find_near_pairs,
    find_old_runs,
    leave_out,
    read_corrections,
    sample_old_text,
    write_mixture,
)
from tests.training.corpora import small_run, write_corpus


def correction(wrong: str | None, right: str, held_out: bool = False, number: int = 1) -> Correction:
    return Correction(number, f"source {number}", wrong, right, held_out)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run of seconds."""
    folder = tmp_path_factory.mktemp("improved")
    train_run(small_run(folder / "text"), folder / "run")
    return folder / "run"


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("El automóvil es azul.", True),
        ("Es azul el automóvil.", True),  # only what was corrected counts
        ("El coche es azul.", False),
        ("El automóvil y el coche.", False),  # the word taken out is there again
        ("El azul.", False),
    ],
)
def test_right_is_what_has_the_words_put_in_and_none_of_those_taken_out(text, is_met):
    for fix in (correction("El coche es azul.", "El automóvil es azul."), correction(None, "El automóvil es azul.")):
        assert fix.is_met(text, before="El coche es azul.") is is_met


def test_where_no_word_differs_the_text_must_be_the_right_one():
    fix = correction("es azul.", "Es azul.")
    assert fix.is_met("Es azul.", "")
    assert not fix.is_met("es azul.", "")


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_a_table_of_three_columns_a_memory_and_what_the_server_stores_are_read(tmp_path):
    three = write(tmp_path / "three.tsv", ["source\twrong\tright", "a\tx\ty", "b\tv\tw"])
    assert [(c.number, c.source, c.wrong, c.right) for c in read_corrections(three, Sides(), 1)[0]] == [
        (2, "a", "x", "y"), (3, "b", "v", "w"),
    ]  # fmt: skip
    Corrections(tmp_path / "stored.jsonl").append("the ball", "la bola", ("en", "es"))
    [fix] = read_corrections(str(tmp_path / "stored.jsonl"), Sides(), 1)[0]
    assert (fix.source, fix.wrong, fix.right) == ("the ball", None, "la bola")
    unit = '<tu><tuv xml:lang="en"><seg>the ball</seg></tuv><tuv xml:lang="es"><seg>la bola</seg></tuv></tu>'
    memory = write(tmp_path / "m.tmx", [f'<tmx version="1.4"><header srclang="en"/><body>{unit}</body></tmx>'])
    [fix] = read_corrections(memory, Sides(), 1)[0]
    assert (fix.source, fix.right) == ("the ball", "la bola")


def test_of_a_file_of_several_directions_those_of_the_model_are_read(tmp_path):
    stored = Corrections(tmp_path / "stored.jsonl")
    # One direction in sixteen is the model's, and the others are no reason to refuse the file.
    for number in range(15):
        stored.append(f"la bola {number}", f"the ball {number}", ("es", "en"))
    stored.append("the house", "la maison", ("en", "fr"))
    stored.append("the house", "la casa", ("en", "es-MX"))
    path = str(stored.path)
    for sides, languages, right in (
        (Sides(), ("en", "es"), "la casa"),
        (Sides(), ("eng", "fra"), "la maison"),
        (Sides("en", "fr"), ("en", "es"), "la maison"),
    ):
        [fix], notes = read_corrections(path, sides, 1, languages)
        assert (fix.source, fix.right) == ("the house", right)
        assert "16 with other languages" in notes[0]
    assert len(read_corrections(path, Sides("es", "en"), 1)[0]) == 15
    with pytest.raises(ValueError, match=r"stored\.jsonl:16: this pair is en to fr, and those before it are es to en"):
        read_corrections(path, Sides(), 1)
    with pytest.raises(ValueError, match=r"no sentence pair in .*17 with other languages"):
        read_corrections(path, Sides(), 1, ("en", "de"))


def test_what_older_servers_stored_is_read_where_it_says_its_languages(tmp_path):
    lines = [
        '{"en": "a ball", "es": "una bola"}',
        '{"EN": "a", "ES": "b"}',
        '{"en-US": "c", "es": "d"}',
        '{"en": "x", "fr": "y"}',
    ]
    old = write(tmp_path / "old.jsonl", lines)
    fixes, notes = read_corrections(old, Sides(), 1, ("en", "es"))
    assert [(fix.number, fix.source, fix.right) for fix in fixes] == [
        (1, "a ball", "una bola"),
        (2, "a", "b"),
        (3, "c", "d"),
    ]
    assert f"{old}:4 empty target" in notes[0]
    for name, first in (("old.tsv", "en\tes"), ("old.tsv", "source\ttarget"), ("old.en-es.tsv", "a\tb")):
        table = write(tmp_path / name, [first, "the ball\tla bola"])
        assert read_corrections(table, Sides(), 1)[0][-1].right == "la bola"
    table = write(tmp_path / "mixed.tsv", ["the ball\tla bola", "la bola\tthe ball"])
    with pytest.raises(ValueError, match=r"mixed\.tsv has two columns and does not say .* give --from en --to es"):
        read_corrections(table, Sides(), 1, ("en", "es"))
    assert len(read_corrections(table, Sides("en", "es"), 1)[0]) == 2


def test_of_several_corrections_of_a_sentence_the_last_counts_and_doubtful_ones_are_named(tmp_path):
    path = write(tmp_path / "c.tsv", ["a\tx\ty", "b\t\t", "a\tx\tz", "one two three\tx\tone two three"])
    fixes, notes = read_corrections(path, Sides(), 1)
    assert [(fix.number, fix.right) for fix in fixes] == [(3, "z"), (4, "one two three")]
    assert f"{path}:2 empty target" in notes[0]
    assert notes[1].startswith(f"{path}:4 looks wrong: cop")
    assert "2 corrections are too few to hold some out" in notes[2]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["a\tb\tc"] + ["a\tb"] * 20, "fewer columns than 3, and so it is in 20 of 21 rows"),
        (["a\tb\tc\td"], ":1: 4 columns"),
        (["source\twrong\tright"], "no"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_line(tmp_path, lines, problem):
    path = write(tmp_path / "c.tsv", lines)
    with pytest.raises(ValueError, match=problem) as refusal:
        read_corrections(path, Sides(), 1)
    assert path in str(refusal.value)


def test_taking_a_correction_back_leaves_the_others_where_they_were(tmp_path):
    path = write(tmp_path / "c.tsv", [f"s{i}\tw{i}\tr{i}" for i in range(1, 38)])
    fixes, _ = read_corrections(path, Sides(), 5)
    assert sum(fix.held_out for fix in fixes) == 7
    assert fixes == read_corrections(path, Sides(), 5)[0]
    assert leave_out(fixes, [3, 11], path) == [fix for fix in fixes if fix.number not in (3, 11)]
    with pytest.raises(ValueError, match=r"--without 38: .* has no correction with that number"):
        leave_out(fixes, [38], path)


def test_old_text_is_that_of_all_runs_behind_a_model_without_what_is_corrected(run, tmp_path):
    [data] = [found.data for found in find_old_runs(run / "best")]
    sources = Path(data.source or "").read_text(encoding="utf-8").splitlines()
    (tmp_path / "new").mkdir()
    names = write_corpus(tmp_path / "new", pairs=13, seed=2)
    tuned = small_run(tmp_path / "tuned", data=names, model={"start": str(run / "best")})
    train_run(tuned, tmp_path / "run")
    runs = find_old_runs(tmp_path / "run" / "last")
    assert [found.data.source for found in runs] == [names["source"], data.source]
    old = sample_old_text(runs, {sources[4]}, seed=1)
    expected = {*sources, *Path(names["source"]).read_text(encoding="utf-8").splitlines()} - {sources[4]}
    assert {source for source, _ in old} == expected


def test_text_that_is_gone_is_said_with_what_to_give(run, tmp_path):
    with pytest.raises(ValueError, match=r"no run\.toml.*--source FILE --target FILE"):
        find_old_runs(tmp_path / "model")
    moved = Path(find_old_runs(run / "best")[0].data.source or "")
    moved.rename(tmp_path / "moved")
    try:
        with pytest.raises(ValueError, match=r"source\.txt is gone.*--source FILE --target FILE"):
            find_old_runs(run / "best")
    finally:
        (tmp_path / "moved").rename(moved)


def test_the_pairs_near_a_correction_write_its_token_and_are_not_its_own_sentence(run):
    bundle = load_bundle(run / "best")
    fix = Correction(1, "one two three", "tres dos seis", "tres dos uno", held_out=False)
    assert find_near_pairs(bundle, [fix], {}) == [[]]
    remember_states(run, lambda words: None)
    [near] = find_near_pairs(bundle, [fix], {})
    assert near
    wrong, right = bundle.tokenizer.encode_target(["tres dos seis", "tres dos uno"])
    token = next(b for a, b in zip(wrong, right, strict=False) if a != b)
    for place, source, target in near:
        file, line = place.rsplit(":", 1)
        assert Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1] == source != fix.source
        assert token in bundle.tokenizer.encode_target([target])[0]


def test_half_of_an_epoch_is_old_text_and_a_quarter_corrections(run, tmp_path):
    dev = read_dev_pairs(find_old_runs(run / "best")[0].data)
    assert dev is not None
    old = [(f"o{i}", f"p{i}") for i in range(400)]
    tables = write_mixture(tmp_path, [("a\tb", "c")] * 7, [("n", "m")] * 5, [("k", "l")] * 3, old, dev[0][0])
    shares = {corpus.name: corpus.weight for corpus in tables["corpus"]}
    assert shares == pytest.approx({"corrections": 200 / 7, "near": 200 / 8, "old": 1})
    rows = (tmp_path / "corrections.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(rows[0]) == {"source": "a\tb", "target": "c"}  # a tab is no reason to lose one


def changes(dev_after: list[str], after: str, keep_after: str) -> Changes:
    """Return changes of 40 dev sentences, of one correction held out, and of a sentence to keep."""
    references = [f"una frase número {i} con palabras" for i in range(40)]
    sources = [f"dev {i}" for i in range(40)]
    before = dict(zip(sources, references, strict=True)) | {"source 1": "el coche", "keep": "sí"}
    new = dict(zip(sources, dev_after, strict=True)) | {"source 1": after, "keep": keep_after}
    fixes = [correction("el coche", "el auto", held_out=True), correction("las palabras", "los vocablos", number=2)]
    before |= {"source 2": "las palabras"}
    return Changes(fixes, before, new | {"source 2": ""}, sources, references, ["keep"])


def dev_with(word: str) -> list[str]:
    return [f"una frase número {i} con {word}" for i in range(40)]


def test_only_what_is_better_on_corrections_and_worse_nowhere_is_kept():
    same = dev_with("palabras")
    assert changes(same, "el auto", "sí").find_objections() == []
    assert "held out" in changes(same, "el coche", "sí").find_objections()[0]
    assert "chrF on dev is lower by" in changes(dev_with("nada"), "el auto", "sí").find_objections()[1]
    assert "1 of 1 sentences that must stay" in changes(same, "el auto", "no").find_objections()[0]


def test_what_a_correction_asked_for_is_no_loss_on_dev():
    after = [*dev_with("nada")[:2], *dev_with("los vocablos")[2:20], *dev_with("palabras")[20:]]
    found = changes(after, "el auto", "sí")
    assert not found.asked_for  # "las" was to go, too, and is not in the text before
    plain = replace(found, corrections=[correction("palabras", "vocablos", number=2)])
    assert plain.asked_for == {f"dev {i}" for i in range(2, 20)}
    assert (plain.comparison.sentences, plain.comparison.identical) == (22, 20)


def test_where_every_sentence_of_dev_changed_as_asked_all_of_them_are_compared():
    found = replace(changes(dev_with("vocablos"), "el auto", "sí"), corrections=[correction("palabras", "vocablos")])
    assert found.asked_for == set(found.dev_sources)
    assert (found.comparison.sentences, found.comparison.identical) == (40, 0)
    assert "lower" in found.find_objections()[0]
    assert "dev: 40 sentences changed as was asked for; of the 40 that are compared, 40 changed" in "\n".join(
        found.report_lines()
    )
    assert all(row.startswith("asked\t") for row in found.changed_rows())


def test_each_sentence_of_dev_and_of_the_list_that_changed_is_listed():
    after = dev_with("palabras")
    after[6] = "otra\tfrase"
    rows = list(changes(after, "el auto", "no").changed_rows())
    assert rows == ["dev\t7\tdev 6\tuna frase número 6 con palabras\totra frase\n", "keep\t1\tkeep\tsí\tno\n"]
