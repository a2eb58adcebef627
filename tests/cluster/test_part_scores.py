"""Parts scored one after another, without Ray, have the scores of one process, to the last digit."""

import pytest

from pellucid.decode import scoring
from tests.cli.conftest import call, model, refuse  # noqa: F401
from tests.data.test_context import context_model

LINES = ["The ball is blue.", "", "Where is the house?", "Yes. No.", "  ", "The black cat drank the milk.", "42"] * 5


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Form batches within blocks of seven lines."""
    monkeypatch.setattr(scoring, "BLOCK", 7)


def test_the_parts_of_two_files_have_the_scores_of_one_process(call, model, run_parts, tmp_path):  # noqa: F811
    (tmp_path / "books").mkdir()
    for name, lines in (("a", LINES), ("b", LINES[:9])):
        (tmp_path / "books" / f"{name}.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / "books" / f"{name}.es").write_text("\n".join(lines[::-1]) + "\n", encoding="utf-8")
    words = ("--source", "books/*.en", "--target", "books/*.es", "--cluster", "local", "--part-lines", 14)
    for json in ((), ("--json",)):
        out = f"scores{len(json)}"
        shared = call("score", model, *words, *json, "--out", out)
        assert shared.exit_code == 0, shared.stderr
        for name in ("a", "b"):
            files = ("--source", f"books/{name}.en", "--target", f"books/{name}.es")
            alone = call("score", model, *files, *json)
            assert (tmp_path / out / f"{name}.en").read_text(encoding="utf-8") == alone.stdout
            assert call("score", model, *files, *json, "--out", "alone").stdout == ""
            assert (tmp_path / "alone").read_text(encoding="utf-8") == alone.stdout
    assert len(run_parts) == 4


def test_a_file_of_pairs_has_the_scores_of_one_process(call, model, run_parts, tmp_path):  # noqa: F811
    rows = [f"{source}\t{target}\n" for source, target in zip(LINES, LINES[::-1], strict=True)]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    alone = call("score", model, "--source", "pairs.tsv")
    shared = call("score", model, "--source", "pairs.tsv", "--out", "scores", "--cluster", "local", "--part-lines", 1)
    assert (alone.exit_code, shared.exit_code) == (0, 0), shared.stderr
    assert (tmp_path / "scores" / "pairs.tsv").read_text(encoding="utf-8") == alone.stdout


def test_lines_in_the_middle_of_a_file_are_counted_and_read_with_those_before():
    translator, sources = context_model().translator, [line for line in LINES if line.strip()]
    targets = sources[::-1]
    whole = scoring.score_pairs(translator, sources, targets, 0, document=True)
    part = scoring.score_pairs(
        translator, sources[7:], targets[7:], 0, document=True, first_line=8, before=sources[6:7]
    )
    assert part == whole[7:]
    with pytest.raises(ValueError, match=r"target: this model takes .* line 9 has"):
        scoring.score_pairs(translator, ["Yes."] * 2, ["Yes.", "x " * 200], 0, first_line=8)


def test_files_that_make_no_pairs_are_refused_before_ray_is_started(refuse, model, tmp_path):  # noqa: F811
    for name in ("a.en", "a.es", "b.en"):
        (tmp_path / name).write_text("Yes.\n", encoding="utf-8")
    words = ("score", model, "--source", "*.en", "--target", "*.es", "--cluster", "local")
    assert "b.en has no other file among *.es" in refuse(*words, "--out", "all")
    assert "name a folder for them: --out FOLDER" in refuse(*words)
    assert "Ray gives each worker its GPU" in refuse(*words, "--out", "all", "--device", "cuda:1")
    assert not (tmp_path / "all").exists()
