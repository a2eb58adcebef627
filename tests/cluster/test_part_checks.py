"""Parts checked one after another, without Ray, give the report of one process, to the last digit."""

import pytest

from pellucid.workflows.check.block_work import BlockFaults, find_block_faults
from tests.check.test_examine import Pairs, clean  # noqa: F401
from tests.cli.conftest import call, model, refuse  # noqa: F401


@pytest.fixture
def faulty(clean: Pairs) -> Pairs:  # noqa: F811
    """Return pairs with many faults: the first 900 come twice, lines have shifted, letters and languages are odd."""
    sources, targets = clean[0][:1500], clean[1][:1500]
    sources, targets = [*sources, *sources[:900]], [*targets[:300], *targets[301:1500], *targets[:901]]
    sources[17], targets[40], sources[2000] = "", "año\u2028 malo\r", "Die Kinder spielen im Garten hinter dem Haus."
    sources[50] += "’"
    return sources, targets


def write_files(folder, pairs: Pairs) -> None:
    for name, lines in zip(("my.en", "my.es"), pairs, strict=True):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


@pytest.mark.parametrize("lines", [500, 4096])
def test_the_report_is_that_of_one_process(call, run_parts, faulty, tmp_path, lines):  # noqa: F811
    write_files(tmp_path, faulty)
    (tmp_path / "test.en").write_text(f"{faulty[0][99]}\n", encoding="utf-8")
    words = ("check", "my.en", "my.es", "--against", "test.en", "--json")
    alone = call(*words, "--html", "alone.html", "--fix", "alone")
    cluster = ("--out", "checked", "--cluster", "local", "--part-lines", lines)
    shared = call(*words, "--html", "shared.html", "--fix", "shared", *cluster)
    assert (alone.exit_code, shared.exit_code) == (0, 0), shared.stderr
    assert alone.stdout.count('"fault"') > 5
    assert shared.stdout == alone.stdout
    for ending in (".html", ".source", ".removed.tsv"):
        assert (tmp_path / f"shared{ending}").read_bytes() == (tmp_path / f"alone{ending}").read_bytes()

    # Again, nothing is looked for a second time; other text is.
    assert len(run_parts) == 2
    assert call(*words, *cluster).stdout == alone.stdout
    assert len(run_parts) == 2
    write_files(tmp_path, (faulty[0][:2000], faulty[1][:2000]))
    assert call(*words, *cluster).stdout == call(*words).stdout


def test_the_scores_of_a_model_are_those_of_one_process(call, model, run_parts, faulty, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setattr("pellucid.workflows.check.block_work.BLOCK", 128)
    monkeypatch.setattr("pellucid.decode.scoring.BLOCK", 128)
    # This model knows nothing: it is believed all the same.
    monkeypatch.setattr("pellucid.workflows.check.evidence.LEAST_MODEL_SEPARATION", 0.0)
    write_files(tmp_path, (faulty[0][:400], faulty[1][:400]))
    words = ("check", "my.en", "my.es", "--model", model, "--json")
    alone = call(*words, "--fix", "alone")
    cluster = ("--out", "checked", "--cluster", "local", "--part-lines", 256)
    shared = call(*words, "--fix", "shared", *cluster)
    assert (alone.exit_code, shared.exit_code) == (0, 0), shared.stderr
    assert shared.stdout == alone.stdout
    assert (tmp_path / "shared.removed.tsv").read_bytes() == (tmp_path / "alone.removed.tsv").read_bytes()


def test_what_was_found_in_a_block_is_read_as_it_was_written(clean):  # noqa: F811
    found = find_block_faults(["Él dijo: “año”.", "", *clean[0][:3]], ["", "x", *clean[1][:3]])
    again = BlockFaults.from_bytes(found.as_bytes())
    assert (again.stems, again.spellings) == (found.stems, found.spellings)
    assert again.marks.keys() == found.marks.keys() >= {"empty"}
    assert again.as_bytes() == found.as_bytes()


def test_what_cannot_be_checked_in_parts_is_refused(refuse, tmp_path):  # noqa: F811
    for name in ("my.en", "my.es", "my.tsv"):
        (tmp_path / name).write_text("a\tb\n", encoding="utf-8")
    for words, reason in {
        ("my.tsv", "--cluster", "local"): "shares two files of sentences; make them of it: pellucid convert my.tsv",
        ("my.en", "my.es", "--cluster", "local"): "what the workers find; name a folder for them: --out FOLDER",
        ("my.en", "my.es", "--out", "checked"): "--out is for --cluster",
    }.items():
        assert reason in refuse("check", *words)
