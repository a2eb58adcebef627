import json

import pytest

from tests.cli.test_inspect_model import is_whole_figure


def test_similar_prints_a_table_and_json(call, model, tmp_path):
    result = call("inspect", "similar", model, "the", "▁the", "house", "--plot", "a.png")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["word", "pieces", "the", "▁the", "house"]
    assert lines[1].split()[:4] == ["the", "▁the", "1.000", "1.000"]
    words = lines[5].split()
    assert words[:5] == ["two", "pieces", "of", "this", "vocabulary:"]
    mean, deviation = float(words[5]), float(words[-1])
    assert lines[6].startswith("the and ▁the: 1.000, ")
    assert float(lines[6].split()[4]) == pytest.approx((1 - mean) / deviation, abs=0.1)
    assert [line.partition(":")[0] for line in lines[7:]] == ["the and house", "▁the and house"]
    assert is_whole_figure(tmp_path / "a.png")
    [similarity] = map(json.loads, call("inspect", "similar", model, "the", "house", "--json").stdout.splitlines())
    assert similarity["cosines"][0][1] == pytest.approx(float(lines[1].split()[4]), abs=5e-4)
    assert [word["text"] for word in similarity["words"]] == ["the", "house"]


def test_neighbours_leave_out_the_word_itself(call, model):
    result = call("inspect", "neighbours", model, "the", "la", "-k", 3, "--side", "target")
    lines = result.stdout.splitlines()
    assert lines[0] == "the: ▁the"
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert "▁the" not in " ".join(lines[2:5])
    rows = [
        json.loads(line) for line in call("inspect", "neighbours", model, "the", "-k", 7, "--json").stdout.splitlines()
    ]
    cosines = [neighbour["cosine"] for neighbour in rows[0]["neighbours"]]
    assert cosines == sorted(cosines, reverse=True)
    assert len(cosines) == 7


def test_an_analogy_is_answered_with_and_without_its_own_words(call, model):
    result = call("inspect", "analogy", model, "▁the", "-", "▁b", "+", "▁t", "--expect", "▁es")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "▁the - ▁b + ▁t"
    assert "this model does" in result.stdout
    [analogy] = map(
        json.loads, call("inspect", "analogy", model, "the", "la", "es", "--json", "-k", 2).stdout.splitlines()
    )
    assert analogy["question"] == "the - la + es"
    assert len(analogy["answers"]) == len(analogy["answers_with_inputs"]) == 2
    assert analogy["verdict"].startswith("with the words of the question included")


def test_a_file_of_analogies_is_counted(call, model, tmp_path):
    (tmp_path / "a").write_text(": title\n\n▁the - ▁b + ▁t = ▁es\n▁b ▁the ▁t ▁es\nthe la es the\n", encoding="utf-8")
    result = call("inspect", "analogy", model, "--file", "a")
    assert result.stdout.splitlines()[0].endswith(" of 2 come out, the words of the question left out")
    [counts] = map(json.loads, call("inspect", "analogy", model, "--file", "a", "--json").stdout.splitlines())
    assert (counts["count"], counts["left_out"]) == (2, 1)
    assert counts["right"] in (0, 2)  # both lines ask the same


def test_a_map_is_written_in_every_format(call, model, tmp_path):
    result = call(
        "inspect",
        "project",
        model,
        "--count",
        0,
        "--html",
        "a.html",
        "--tsv",
        "a.tsv",
        "--vectors",
        "v.tsv",
    )
    assert result.exit_code == 0
    rows = [line.split("\t") for line in (tmp_path / "a.tsv").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["word", "pieces", "x", "y"]
    vectors = (tmp_path / "v.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(vectors) + 1 == 308
    assert {len(line.split("\t")) for line in vectors} == {6}
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "src=" not in page
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.tsv", "v.tsv"]


def test_a_map_of_given_words_is_printed(call, model, tmp_path):
    (tmp_path / "w").write_text("the\nla\n\nes\nbola\n", encoding="utf-8")
    result = call("inspect", "project", model, "--words", "w", "--dims", 3)
    assert [line.split("\t")[0] for line in result.stdout.splitlines()[1:]] == ["the", "la", "es", "bola"]
    assert {len(line.split("\t")) for line in result.stdout.splitlines()[1:]} == {4}
    points = [
        json.loads(line) for line in call("inspect", "project", model, "the", "la", "es", "--json").stdout.splitlines()
    ]
    assert [point["word"] for point in points] == ["the", "la", "es"]
    assert set(points[0]) == {"word", "pieces", "x", "y"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["similar", "MODEL", "the", "--side", "left"], "side is 'left', it must be source, target or output"),
        (
            ["similar", "MODEL", "the", "--plot", "a.jpg"],
            "a.jpg: a figure is written to a file that ends in .png or .svg",
        ),
        (["similar", "MODEL", "the", "--plot", "no/a.png"], "no/a.png cannot be written: no is not a folder"),
        (["neighbours", "MODEL", " "], "' ' is no word"),
        (["neighbours", "MODEL", "the", "-k", "0"], "0 neighbours were asked for"),
        (["analogy", "MODEL"], "give the words of one analogy"),
        (["analogy", "MODEL", "the", "la"], "'the la' is no analogy"),
        (["analogy", "MODEL", "--file", "a", "--expect", "x"], "leave --expect out"),
        (["project", "MODEL", "--dims", "4"], "a map has 2 or 3 dimensions, not 4"),
        (["project", "MODEL", "the", "la"], "take 3 words or more"),
        (["project", "MODEL", "--html", "a.txt"], "a.txt: a figure is written to a file that ends in .html"),
        (["project", "MODEL", "the", "--words", "a"], "leave one out"),
        (["project", "MODEL", "--count", "-1"], "--count is -1"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(call, model, tmp_path, words: list[str], message: str):
    result = call("inspect", *[model if word == "MODEL" else word for word in words])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("pellucid: ")
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bad_line_of_analogies_is_named(call, model, tmp_path):
    (tmp_path / "a").write_text("▁the - ▁b + ▁t = ▁es\nthe la\n", encoding="utf-8")
    assert "a: line 2 is 'the la'; write the analogy as" in call("inspect", "analogy", model, "--file", "a").stderr
