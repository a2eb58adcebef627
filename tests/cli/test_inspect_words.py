import json

import pytest


def test_similar_prints_a_table_and_json(call, model):
    result = call("inspect", "similar", model, "the", "▁the", "house")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["word", "pieces", "the", "▁the", "house"]
    assert lines[1].split()[:4] == ["the", "▁the", "1.000", "1.000"]
    words = lines[5].split()
    assert words[:5] == ["two", "pieces", "of", "this", "vocabulary:"]
    mean, deviation = float(words[5]), float(words[-1])
    assert lines[6].startswith("the and ▁the: 1.000, ")
    assert float(lines[6].split()[4]) == pytest.approx((1 - mean) / deviation, abs=0.1)
    assert [line.partition(":")[0] for line in lines[7:]] == ["the and house", "▁the and house"]
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
    [analogy] = map(json.loads, call("inspect", "analogy", model, "the", "la", "es", "--json").stdout.splitlines())
    assert analogy["question"] == "the - la + es"
    assert len(analogy["answers"]) == len(analogy["answers_with_inputs"]) == 5
    assert analogy["verdict"].startswith("with the words of the question included")


def test_a_map_is_written_as_a_page_and_as_vectors(call, model, tmp_path):
    result = call("inspect", "project", model, "--html", "a.html", "--json")
    assert result.exit_code == 0
    points = [json.loads(line) for line in result.stdout.splitlines()]
    assert [point["word"] for point in points] == ["▁the", "▁dr", "▁es"]
    assert {len(point["vector"]) for point in points} == {6}
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "src=" not in page
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_map_of_given_words_is_printed(call, model):
    result = call("inspect", "project", model, "the", "la", "es", "bola", "--dims", 3)
    assert [line.split("\t")[0] for line in result.stdout.splitlines()[1:]] == ["the", "la", "es", "bola"]
    assert {len(line.split("\t")) for line in result.stdout.splitlines()[1:]} == {4}
    points = [
        json.loads(line) for line in call("inspect", "project", model, "the", "la", "es", "--json").stdout.splitlines()
    ]
    assert [point["word"] for point in points] == ["the", "la", "es"]
    assert set(points[0]) == {"word", "pieces", "x", "y", "vector"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["similar", "MODEL", "the", "--side", "left"], "side is 'left', it must be source, target or output"),
        (["neighbours", "MODEL", " "], "' ' is no word"),
        (["neighbours", "MODEL", "the", "-k", "0"], "0 neighbours were asked for"),
        (["analogy", "MODEL", "the la"], "'the la' is not an analogy"),
        (["analogy", "MODEL", "the", "la"], "'the la' is not an analogy"),
        (["project", "MODEL", "--dims", "4"], "a map has 2 or 3 dimensions, not 4"),
        (["project", "MODEL", "the", "la"], "take 3 words or more"),
        (["project", "MODEL", "--html", "a.txt"], "a.txt: a figure is written to a file that ends in .html"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(refuse, model, tmp_path, words: list[str], message: str):
    assert message in refuse("inspect", *[model if word == "MODEL" else word for word in words])
    assert list(tmp_path.iterdir()) == []
