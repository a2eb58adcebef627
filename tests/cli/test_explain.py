import json
import re

import pytest

from pellucid.api import load
from pellucid.cli.terminal import Terminal, escape_controls, shorten_text, text_width
from pellucid.cli.walk import walk_trace
from pellucid.interpret.page.html_file import manifest_with_answers
from tests.page.traces import Read, built_script

__all__ = ["built_script"]

SENTENCE = "The black cat drank."
HEADINGS = [
    "From text to pieces",
    "What is computed",
    "Writing, step by step",
    "What each word attends to",
    "The search",
    "What adds to the logit of each piece written",
    "What may be wrong with this translation",
    "Checks of these numbers",
]


@pytest.fixture(scope="module")
def trace(model):
    return load(model).trace(SENTENCE)


@pytest.fixture(scope="module")
def manifest(trace):
    return manifest_with_answers(trace)


@pytest.fixture(scope="module")
def walk_text(trace, manifest):
    """Return a function that gives the walk as one text, for a terminal of this width, with or without colours."""
    return lambda width=100, colour=False, **changed: "\n".join(
        walk_trace({**manifest, **changed}, trace.tensor, [(0, 0)], Terminal(width, colour))
    )


def find_headings(text: str) -> list[str]:
    return re.findall(r"(?m)^\d  (.+)$", text)


def find_section(text: str, title: str) -> str:
    return re.split(r"(?m)^\d  ", text.partition(f"  {title}\n")[2])[0]


def test_the_walk_goes_from_the_text_to_the_checks(call, model, trace):
    result = call("explain", model, SENTENCE)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [SENTENCE, f"→ {trace.target.text}"]
    assert find_headings(result.stdout) == HEADINGS
    assert "\x1b" not in result.stdout


def test_every_piece_stands_over_its_id(walk_text, trace):
    rows = find_section(walk_text(), "From text to pieces").splitlines()
    for name, side in (("source", trace.source), ("translation", trace.target)):
        cells: dict[str, list[str]] = {}
        starts = [n for n, row in enumerate(rows) if row.split()[:1] == [name]]
        for n in starts:
            for row in rows[n : n + 3]:
                cells.setdefault(row.split()[0], []).extend(row.split()[1:])
        assert cells[name] == side.pieces
        assert [int(token.rstrip("?")) for token in cells["id"]] == side.ids
        assert cells["word"] == ["-" if word is None else str(word + 1) for word in side.words]


def test_each_step_shows_its_input_its_choice_and_how_likely_that_is(walk_text, trace):
    lines = find_section(walk_text(), "Writing, step by step").splitlines()[1:-1]
    for line, step in zip(lines[: len(trace.steps)], trace.steps, strict=True):
        number, *words = line.split()
        assert int(number) == step.step + 1
        assert words[:2] == [step.input, step.chosen.piece]
        probability = f"{step.chosen.prob:.3f}" if step.chosen.prob >= 0.0005 else "<0.001"
        assert probability in words
        runner_up = next(candidate for candidate in step.top if candidate.id != step.chosen.id)
        assert f"{runner_up.piece} " in line


@pytest.mark.parametrize("stop", ["eos", "length"])
def test_the_walk_says_why_it_stopped(walk_text, stop: str):
    text = walk_text(stop=stop)
    assert ("wrote EOS, the end token" in text) == (stop == "eos")
    assert ("as long as the search allows" in text) == (stop == "length")


def test_every_tensor_of_the_first_layers_has_its_shape(walk_text, trace):
    lines = find_section(walk_text(), "What is computed")
    for name, values in trace.items():
        if not re.search(r"\.[1-9]\d*\.", name):
            shape = " x ".join(f"{n:,}" for n in values.shape)
            *_, last = name.rpartition(".")
            assert re.search(rf"(?m) {re.escape(shape)}( .*\b{last}\b.*)?$", lines), name


def test_what_a_word_attends_to_is_the_mean_of_all_heads(walk_text, trace):
    """Compare with a reference without matrices: word by word, piece by piece."""
    lines = find_section(walk_text(400), "What each word attends to")
    header, *rows = lines.splitlines()
    patterns = [trace[f"decoder.{n}.cross.pattern"].values for n in range(3)]
    heads = [head for pattern in patterns for head in pattern]
    source_words = [*SENTENCE.split(), "</s>"]
    assert header.split() == source_words

    def weight_between(target: int, source: int) -> float:
        rows = [t for t, word in enumerate(trace.target.words) if word == target]
        keys = [s for s, word in enumerate(trace.source.words) if word == source]
        return sum(float(head[t, s]) for head in heads for t in rows for s in keys) / len(heads) / len(rows)

    target_words = trace.target.text.split()
    assert len(target_words) > 1
    for number, row in enumerate(rows[: len(target_words)]):
        cells = row.split()[-len(source_words) :]
        assert [int(cell) for cell in cells[:-1]] == [
            pytest.approx(100 * weight_between(number, source), abs=0.51) for source in range(len(source_words) - 1)
        ]
        assert sum(map(int, cells)) == pytest.approx(100, abs=len(cells) / 2)


def test_a_table_too_wide_becomes_a_line_for_each_word(walk_text, trace):
    first = shorten_text(escape_controls(trace.target.text.split()[0]), 14)
    wide, narrow = (find_section(walk_text(width), "What each word attends to") for width in (400, 38))
    assert f"\n  {first} " in wide
    assert f"\n  {first}:  " in f"\n{narrow}"
    assert f"  {first}:" not in wide


def test_accounts_are_one_line_each_and_add_up(walk_text, trace):
    header, *rows = find_section(walk_text(200), HEADINGS[5]).splitlines()
    assert header.split()[:2] == ["writes", "logit"]
    for row, step in zip(rows[: len(trace.steps)], trace.steps, strict=True):
        logit, _, terms = row.partition("=")
        assert float(logit.split()[-1]) == pytest.approx(step.chosen.logit, abs=0.006)
        assert sum(map(float, terms.split())) == pytest.approx(step.chosen.logit, abs=0.006 * (1 + len(terms.split())))


def test_the_search_shows_what_was_finished_and_what_was_dropped(walk_text, trace):
    text = find_section(walk_text(120), "The search")
    assert trace.tree is not None
    assert f"Beam of {trace.tree.width}; score = {trace.tree.formula}" in text
    finished = [node for node in trace.tree.nodes if node.fate == "finished"]
    scores = [float(score) for score in re.findall(r"(?m)^ +\*? +(-\d+\.\d{4}) ", text)]
    assert scores == sorted((round(node.score, 4) for node in finished), reverse=True)
    assert len(re.findall(r"(?m)^ {2,5}\d+  ", text)) == 1 + max(node.step for node in trace.tree.nodes)
    assert "dropped: " in text


def test_a_translation_that_was_given_is_not_searched_for(call, model):
    result = call("explain", model, SENTENCE, "--target", "El gato negro.")
    assert result.stdout.splitlines()[1] == "→ El gato negro."
    assert "The search" not in find_headings(result.stdout)
    assert "Then the translation that was given ends." in result.stdout


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(walk_text, width: int):
    lines = walk_text(width, True).splitlines()[2:]  # a terminal wraps both texts as they are
    assert [line for line in lines if text_width(line) > width] == []


def test_colours_change_nothing_but_colours(walk_text):
    plain, coloured = walk_text(90), walk_text(90, True)
    assert re.sub(r"\x1b\[[0-9;]+m", "", coloured) == plain
    assert all(line.count("\x1b[") % 2 == 0 for line in coloured.splitlines())
    assert "\x1b[1m" in coloured


def test_a_failed_check_says_what_it_means(walk_text):
    failed = {"name": "rows sum to 1", "passed": False, "value": 0.5, "limit": 1e-6, "means": "They should."}
    unmade = {"name": "same as fused", "passed": True, "value": None, "limit": None, "means": "An edit is in force."}
    text = walk_text(checks=[failed, unmade])
    assert "  FAILED    rows sum to 1  0.5, limit 1e-06\n            They should.\n" in text
    assert "  not run   same as fused\n            An edit is in force.\n" in text


def test_control_characters_are_escaped(call, model):
    result = call("explain", model, "Yes.\x1b[2J \u202eNo.")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
    assert escape_controls("\x9b\u2028\r") == r"\x9b\u2028\r"


def test_json_is_the_manifest_with_all_answers(call, model, manifest):
    result = call("explain", model, SENTENCE, "--json")
    [line] = result.stdout.splitlines()
    printed = json.loads(line)
    expected = json.loads(json.dumps(manifest))
    assert printed["accounts"] == expected["accounts"]
    assert printed["verdict"] == expected["verdict"]
    keys = ("id", "source", "target", "steps", "tree", "tensors", "parameters")
    assert {key: printed[key] for key in keys} == {key: expected[key] for key in keys}


def test_standard_input_holds_one_sentence(call, refuse, model, monkeypatch):
    for lines in ([], ["Yes.", "No."]):
        monkeypatch.setattr("pellucid.cli.explain.read_sentences", {"-": lines}.get)
        assert f"has {len(lines)} lines; explain takes one sentence" in refuse("explain", model, "-")
    monkeypatch.setattr("pellucid.cli.explain.read_sentences", {"-": [SENTENCE]}.get)
    assert json.loads(call("explain", model, "-", "--json").stdout)["source"]["text"] == SENTENCE


def test_a_text_of_several_sentences_is_explained_in_the_part_asked_for(call, refuse, model):
    for options, number, text in (([], 1, "Yes."), (["--segment", "2"], 2, "No.")):
        printed = json.loads(call("explain", model, "Yes. No.", "--json", *options).stdout)
        assert printed["source"]["text"] == text
        assert printed["part"]["segments"] == ["Yes.", "No."]
        walk = call("explain", model, "Yes. No.", *options).stdout
        assert f"Note: the line is translated in 2 parts; this is part {number}" in walk
    sentence = refuse("explain", model, "Yes. No.", "--segment", "3")
    assert "segment is 3" in sentence
    assert "1 to 2" in sentence


@pytest.mark.parametrize(
    ("unit", "note", "is_traced"),
    [
        (SENTENCE, "memory.tsv:2 is this sentence, so its translation is explained", True),
        ("The black dog drank.", "memory.tsv:2 is similar, which this model cannot use (data.memory = 0)", False),
        ("Nobody knows.", "the memory has no unit like this sentence", False),
    ],
)
def test_a_memory_gives_the_translation_of_the_same_sentence(
    call, model, trace, tmp_path, unit: str, note: str, is_traced: bool
):
    (tmp_path / "memory.tsv").write_text(f"A house.\tUna casa.\n{unit}\tel gato\n")
    result = call("explain", model, SENTENCE, "--memory", "memory.tsv")
    assert (result.exit_code, result.stderr) == (0, f"pellucid: note: {note}\n")
    assert result.stdout.splitlines()[1] == f"→ {'el gato' if is_traced else trace.target.text}"


def test_what_terms_brought_is_a_section_of_its_own(call, model, tmp_path):
    title = "Where its words come from"
    assert title not in call("explain", model, SENTENCE).stdout
    (tmp_path / "terms.tsv").write_text("cat\tZorplat\n")
    shown = find_section(call("explain", model, SENTENCE, "--terms", "terms.tsv").stdout, title)
    word, *rest = shown.split()
    assert word.startswith("Zorplat")
    assert rest == ["term", "terms.tsv:1", "cat", "→", "Zorplat"]


@pytest.mark.usefixtures("built_script")
@pytest.mark.parametrize(
    "keep", [None, "maps", *(pytest.param(keep, marks=pytest.mark.slow) for keep in ("float16", "float32", "weights"))]
)
def test_html_is_written_and_its_size_printed(call, model, trace, tmp_path, keep: str | None):
    result = call("explain", model, SENTENCE, "--html", "out.html", *(["--keep", keep] if keep else []))
    assert result.exit_code == 0
    size = (tmp_path / "out.html").stat().st_size
    words = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{-(-size // 1000)} kB"
    assert result.stdout == f"out.html: {words}\n"
    assert re.fullmatch(r"out\.html will have at most \d+ kB\n|out\.html will have at most \d\.\d MB\n", result.stderr)
    page = Read((tmp_path / "out.html").read_text(encoding="utf-8"))
    arrays = page.arrays("tensor")
    assert set(arrays) == {name for name in trace if keep != "maps" or name.endswith((".pattern", ".allowed"))}
    tolerance = 2**-11 if keep in (None, "float16") else 0.0  # so small a file is whole by default
    for name, values in arrays.items():
        assert abs(values - trace.tensor(name)).max() <= tolerance * abs(trace.tensor(name)).max(), name
    parameters = dict(trace.model.named_parameters())
    assert set(page.arrays("parameter")) == (set(parameters) if keep == "weights" else set())
    for name, values in page.arrays("parameter").items():
        assert (values == parameters[name].detach().numpy()).all()


@pytest.mark.usefixtures("built_script")
def test_hostile_sentences_stay_text_in_the_file(call, model, tmp_path):
    hostile = "</script <img src=x <!--"
    assert call("explain", model, hostile, "--html", "out.html", "--beam", 1).exit_code == 0
    page = Read((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert "img" not in page.tags
    assert page.manifest["source"]["text"] == hostile


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Yes.", "--beam", "0"], "beam is 0, it must be 1 or more"),
        (["Yes.", "--keep", "float16"], "--keep float16 says what a file keeps; name one with --html FILE"),
        (["Yes.", "--html", "a.html", "--keep", "all"], 'a file keeps maps, float16, float32 or weights, not "all"'),
        (["Yes.", "--html", "no/a.html"], "no is not a folder"),
        (["Yes.", "--memory", "a.tsv", "--target", "Sí."], "--memory and --target exclude each other"),
        ([" "], "nothing to trace"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(refuse, model, tmp_path, words: list[str], message: str):
    assert message in refuse("explain", model, *words)
    assert list(tmp_path.iterdir()) == []
