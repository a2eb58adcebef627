"""The commands that look closely at one sentence: tokens, embedding, attention, pair, probes."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from pellucid.api import load
from pellucid.cli.inspecting import words as tokens
from pellucid.interpret.studies import attention_tables
from pellucid.interpret.studies.probing import read_gallery
from pellucid.store.directory import save_bundle
from tests.cli.test_inspect_model import is_whole_figure
from tests.decode.models import random_model, small_tokenizer

BALL = "The ball is blue."
AZUL = ["--target", "La bola es azul."]


@pytest.fixture(scope="module")
def gallery_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a model with room for every sentence of the gallery; return its directory."""
    directory = tmp_path_factory.mktemp("runs") / "roomy" / "best"
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(directory, random_model(2, vocabulary, vocabulary, max_positions=199), small_tokenizer(), step=0)
    return directory


def parse_objects(result) -> list[dict]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def row_numbers(line: str) -> list[float]:
    return [float(cell) for cell in line.split()[1:]]


@pytest.mark.article("A3", "A24", "B19")
def test_a_table_of_words_has_rows_that_sum_to_one(call, model, tmp_path):
    result = call("inspect", "attention", model, BALL, "--head", 1, "--plot", "a.png")
    lines = result.stdout.splitlines()
    assert lines[0] == BALL
    assert lines[2].startswith("encoder.0.self, head 1: pattern")
    assert lines[4].split() == ["The", "ball", "is", "blue", ".", "</s>", "sum"]
    table = [row_numbers(line) for line in lines[5:11]]
    assert [row[-1] for row in table] == [1.0] * 6
    assert [sum(row[:-1]) for row in table] == pytest.approx([1.0] * 6, abs=0.004)
    assert lines[12].startswith("each row sums to 1, to within ")
    assert is_whole_figure(tmp_path / "a.png")
    mean = call("inspect", "attention", model, BALL).stdout.splitlines()
    assert mean[2].startswith("encoder.0.self, mean of all heads: pattern")
    heads = [
        parse_objects(call("inspect", "attention", model, BALL, "--head", n, "--json"))[0]["values"] for n in (0, 1)
    ]
    for line, *head_rows in zip(mean[5:11], *heads, strict=True):
        expected = [sum(weights) / 2 for weights in zip(*head_rows, strict=True)]
        assert row_numbers(line) == pytest.approx([*expected, 1.0], abs=5.1e-4)
    [json_table] = parse_objects(call("inspect", "attention", model, BALL, "--head", 1, "--json"))
    assert [json_table["rows"][3], json_table["columns"][1]] == ["blue", "ball"]
    assert json_table["values"][3] == pytest.approx(table[3][:-1], abs=5e-4)


@pytest.mark.article("A3", "A24")
@pytest.mark.parametrize("options", [[], ["--plot", "a.png"], ["--json"]])
def test_weights_that_do_not_sum_to_one_are_refused(call, model, tmp_path, monkeypatch, options):
    attention_table = attention_tables.attention_table

    def double_weights(*arguments, **named_arguments):
        table = attention_table(*arguments, **named_arguments)
        return dataclasses.replace(table, values=table.values * 2)

    monkeypatch.setattr(attention_tables, "attention_table", double_weights)
    result = call("inspect", "attention", model, BALL, *options)
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert "encoder.0.self: a row of weights sums to 2.000000, and should sum to 1" in result.stderr


@pytest.mark.article("D4")
def test_every_stage_of_attention_can_be_printed(call, model):
    stages = [
        parse_objects(call("inspect", "attention", model, BALL, "--head", 0, "--stage", stage, "--pieces", "--json"))[0]
        for stage in ("products", "scores", "pattern")
    ]
    products, scaled, pattern = (table["values"] for table in stages)
    width = load(model).bundle.model.config.head_width
    assert [value / width**0.5 for value in products[0]] == pytest.approx(scaled[0], rel=1e-5)
    assert sum(pattern[0]) == pytest.approx(1.0)
    printed = call("inspect", "attention", model, BALL, "--head", 0, "--stage", "scores").stdout
    assert "piece by piece: scores of pieces do not add up" in printed
    assert "sum" not in printed.splitlines()[4]


@pytest.mark.article("D10", "X30")
def test_the_decoder_has_no_cells_for_the_future(call, model):
    result = call("inspect", "attention", model, BALL, "--where", "decoder.2.self", *AZUL)
    lines = result.stdout.splitlines()
    assert lines[:2] == [BALL, "→ La bola es azul."]
    assert [len(line.split()) for line in lines[6:12]] == [3, 4, 5, 6, 7, 8]  # a label, what it may read, the sum
    [table] = parse_objects(call("inspect", "attention", model, BALL, "--where", "decoder.2.self", *AZUL, "--json"))
    assert [row.count(None) for row in table["values"]] == [5, 4, 3, 2, 1, 0]


@pytest.mark.article("A34", "B32", "C27", "D9")
def test_cross_attention_has_a_row_for_each_word_written_or_read(call, model):
    cross = ["inspect", "attention", model, BALL, "--where", "decoder.0.cross", *AZUL, "--json"]
    [output_side] = parse_objects(call(*cross))
    [input_side] = parse_objects(call(*cross, "--side", "input"))
    assert output_side["columns"] == input_side["columns"] == ["The", "ball", "is", "blue", ".", "</s>"]
    assert output_side["rows"] == ["La", "bola", "es", "azul", ".", "</s>"]
    assert input_side["rows"] == ["<s>", "La", "bola", "es", "azul", "."]
    assert output_side["texts"] == [BALL, "La bola es azul."]


@pytest.mark.article("D5", "D6")
def test_a_row_of_attention_is_printed_as_a_sum_of_terms(call, model):
    for where, word in (("encoder.1.self", "blue"), ("decoder.1.cross", "azul")):
        for head in ("mean", "1"):
            command = ["inspect", "attention", model, BALL, "--where", where, "--word", word, "--head", head, *AZUL]
            [row_sum] = parse_objects(call(*command, "--json"))
            assert row_sum["error"] < 1e-5
            assert sum(term["share"] for term in row_sum["terms"]) == pytest.approx(1.0)
            lines = call(*command).stdout.splitlines()
            [total] = [line for line in lines if line.startswith("sum ")]
            assert total.split() == ["sum", "1.0000", f"{row_sum['norm']:.4f}", "+1.0000"]


@pytest.mark.article("C28")
def test_rollout_and_distances_cover_the_layers(call, model):
    result = call("inspect", "attention", model, BALL, "--where", "encoder.1.self", "--stage", "rollout")
    assert "rollout up to encoder.1.self" in result.stdout
    assert all(line.endswith("1.000") for line in result.stdout.splitlines()[5:11])
    rows = parse_objects(call("inspect", "attention", model, BALL, "--stage", "distances", "--json"))
    assert [row["attention"] for row in rows] == ["encoder.0.self", "encoder.1.self"]
    assert all(0.0 <= row["mean"] <= row["even"] * 3 for row in rows)
    assert "even weights" in call("inspect", "attention", model, BALL, "--stage", "distances").stdout


@pytest.mark.article("B22", "D7")
def test_a_score_is_split_into_its_factors(call, model):
    command = ["inspect", "pair", model, "the milk, the blue", "milk", "blue", "--where", "encoder.1.self", "--head", 1]
    [factors] = parse_objects(call(*command, "--json"))
    assert factors["product"] == pytest.approx(factors["cosine"] * factors["query_norm"] * factors["key_norm"])
    assert factors["product"] == pytest.approx(sum(factors["by_dimension"]))
    result = call(*command)
    assert f"= q · k              {factors['product']:+.4f}" in result.stdout
    assert f"= score              {factors['score']:+.4f}" in result.stdout
    assert "of 3 dimensions add most: " in result.stdout
    assert "its first is taken" in result.stdout
    second_word = call("inspect", "pair", model, "the milk, the blue", "the:2", "milk").stdout
    assert "the:2 (▁the) reads milk" in second_word


@pytest.mark.article("A7", "A15")
def test_an_embedding_is_printed_whole(call, model):
    result = call("inspect", "embedding", model, "the", "--at", 3)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("▁the, id ")
    grids = [[float(cell) for cell in line.split()[1:]] for line in lines if line.lstrip().startswith("0 ")]
    row, scaled, position, added = grids
    assert len(row) == 6
    assert position == pytest.approx(
        [wave(3 / 10000 ** (i / 6)) for i in (0, 2, 4) for wave in (math.sin, math.cos)], abs=1e-4
    )
    assert scaled == pytest.approx([value * 6**0.5 for value in row], abs=2e-4)
    assert added == pytest.approx([a + b for a, b in zip(scaled, position, strict=True)], abs=2e-4)
    [embedding] = parse_objects(call("inspect", "embedding", model, "the", "--json"))
    assert embedding["row"] == pytest.approx(row, abs=1e-4)
    assert "position" not in embedding
    spelled = call("inspect", "embedding", model, "zebra", "--side", "target").stdout
    assert spelled.startswith("zebra is cut into ")


@pytest.mark.article("A5", "C2")
def test_tokens_are_printed_with_their_ids_and_the_text_they_decode_to(call, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = call("inspect", "tokens", model, "the the zebra 犬")
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["piece", "id", "word"]
    ids = lines[1].split()[1:]
    assert ids[0] == ids[1]
    assert ids[-1] == "3"
    assert "back: the the zebra 犬" in lines
    assert any(line.startswith("'zebra' became ") for line in lines)
    assert lines[-1].startswith("?: a byte of a character")
    [cut] = parse_objects(call("inspect", "tokens", model, "the the", "--json"))
    assert cut["ids"] == [int(ids[0])] * 2 + [3]
    monkeypatch.setattr(tokens, "read_sentences", {"-": ["the es", "", "the"]}.__getitem__)  # what standard input holds
    totals = call("inspect", "tokens", model, "-")
    pieces = 2 + len(parse_objects(call("inspect", "tokens", model, "es", "--json"))[0]["ids"]) - 1
    assert totals.stdout.splitlines()[-1] == f"3 lines, 3 words, {pieces} pieces, {pieces / 3:.2f} a word, 0 unknown"


@pytest.mark.article("A18", "A21", "A26", "B8", "B17", "B18", "B22", "C11", "C30", "D8")
def test_the_gallery_of_probes_is_judged(call, gallery_model, tmp_path):
    result = call("inspect", "probes", gallery_model)
    assert result.exit_code == 0, result.stderr
    for article_row in ("A18", "A21", "A26", "B8", "B17", "B18", "B22", "C11", "C30", "D8"):
        assert f"({article_row})" in result.stdout
    probes = len(read_gallery())
    assert result.stdout.count("this model does") == probes
    summary = {line.split()[0]: line.split() for line in result.stdout.splitlines()[-probes:]}
    for probe_result in parse_objects(call("inspect", "probes", gallery_model, "--json")):
        assert ("yes" in summary[probe_result["probe"]["name"]]) == (": more than chance" in probe_result["verdict"])
    command = ["inspect", "probes", gallery_model, "milk-drank", "they-john-paul", "--json", "--plot", "a.png"]
    results = parse_objects(call(*command))
    assert is_whole_figure(tmp_path / "a.png")
    assert [probe_result["probe"]["name"] for probe_result in results] == ["milk-drank", "they-john-paul"]
    for probe_result in results:
        assert len(probe_result["weights"]["heads"]) == len(probe_result["norms"]["heads"]) == 4
        assert probe_result["weights"]["count"] == sum(head["wished"] for head in probe_result["weights"]["heads"])
        assert f"{probe_result['weights']['count']} of 4 heads do" in probe_result["verdict"]


def test_a_probe_too_long_for_the_model_leaves_the_others_running(call, model):
    result = call("inspect", "probes", model)  # takes 31 pieces, and spells in small ones
    assert result.exit_code == 0
    left_out = [line for line in result.stderr.splitlines() if line.startswith("left out: probe 'they-fruits': ")]
    assert len(left_out) == 1
    assert result.stdout.count("this model does") + result.stderr.count("left out: ") == len(read_gallery())
    chosen_alone = call("inspect", "probes", model, "they-fruits")
    assert (chosen_alone.exit_code, chosen_alone.stdout) == (2, "")


MISTAKES = [
    (["attention", "MODEL", BALL, "--where", "encoder.9.self"], "'encoder.9.self' is no attention of this model"),
    (["attention", "MODEL", BALL, "--head", "7"], "encoder.0.self has heads 0 to 1; head 7 is none"),
    (
        ["attention", "MODEL", BALL, "--head", "-1"],
        "--head is '-1', it must be a number, 0 for the first head, or mean",
    ),
    (["attention", "MODEL", BALL, "--head", "0", "--stage", "raw"], "it must be products, scores, pattern"),
    (["attention", "MODEL", BALL, "--stage", "scores"], "scores are looked at head by head"),
    (["attention", "MODEL", BALL, "--word", "red"], "'red' is not here"),
    (["attention", "MODEL", BALL, "--word", "blue", "--plot", "a.png"], "--word does not go with --plot"),
    (["attention", "MODEL", BALL, "--word", "blue", "--stage", "rollout"], "--word does not go with --stage"),
    (["attention", "MODEL", BALL, "--stage", "rollout", "--head", "0"], "--stage rollout does not go with --head"),
    (
        ["attention", "MODEL", BALL, "--stage", "distances", "--plot", "a.png"],
        "--stage distances does not go with --pl",
    ),
    (["attention", "MODEL", BALL, "--stage", "rollout", "--where", "decoder.0.cross"], "decoder.0.cross joins two"),
    (["attention", "MODEL", BALL, "--plot", "a.txt"], "a.txt: a figure is written to a file that ends in .png or .svg"),
    (["attention", "MODEL", BALL, "--side", "left", "--where", "decoder.0.cross"], "the side is 'left'"),
    (["attention", "MODEL", " "], "there is nothing to trace"),
    (["pair", "MODEL", BALL, "blue", "red"], "'red' is not here"),
    (["pair", "MODEL", BALL, "blue", "ball", "--head", "2"], "head 2 is none"),
    (["pair", "MODEL", BALL, "La", "azul", "--where", "decoder.0.self", *AZUL], "'La' may not read 'azul'"),
    (["embedding", "MODEL", ""], "'' is no word"),
    (["embedding", "MODEL", "the", "--at", "31"], "'the' at position 31 ends beyond"),
    (["embedding", "MODEL", "the", "--side", "output"], "side is 'output'"),
    (["tokens", "nowhere", "the"], "nowhere does not exist"),
    (["tokens", "MODEL", "the", "--side", "both"], "side is 'both'"),
    (["probes", "MODEL", "milk-drnk"], "there is no probe 'milk-drnk'; did you mean 'milk-drank'?"),
    (["probes", "MODEL", "--plot", "a.jpg"], "a.jpg: a figure is written to a file that ends in .png or .svg"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_mistakes_are_reported_in_one_sentence(refuse, model, tmp_path, words: list[str], message: str):
    assert message in refuse("inspect", *[model if word == "MODEL" else word for word in words])
    assert list(tmp_path.iterdir()) == []
