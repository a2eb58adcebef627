"""Files converted one after another, without Ray, are those that one process writes; only what is missing is made."""

import json

from tests.cli.conftest import call, refuse  # noqa: F401

NAMES = ("a", "b")


def write_pairs(folder) -> None:
    (folder / "memories").mkdir()
    for number, name in enumerate(NAMES):
        rows = ["en,es", *(f"One {line}.,Uno {line}." for line in range(3 + number)), "Two.,"]
        (folder / "memories" / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_each_file_is_what_one_process_writes_of_it(call, run_parts, tmp_path):  # noqa: F811
    write_pairs(tmp_path)
    words = ("convert", "memories/*.csv", "train/*.en", "train/*.es.gz", "--cluster", "local")
    shared = call(*words)
    assert shared.exit_code == 0, shared.stderr
    for name, (_, said) in zip(NAMES, run_parts, strict=True):
        alone = call("convert", f"memories/{name}.csv", "alone.en", "alone.es.gz")
        for ending in ("en", "es.gz"):
            written = (tmp_path / "train" / f"{name}.{ending}").read_bytes()
            assert written == (tmp_path / f"alone.{ending}").read_bytes()
        assert [f"memories/{name}.csv {said[0]}".replace(f"{tmp_path}/", "")] == alone.stderr.splitlines()

    # Again, only what is missing, was changed, or is of another text is made.
    made = {name: (tmp_path / "train" / f"{name}.en").stat().st_mtime_ns for name in NAMES}
    (tmp_path / "train" / "b.es.gz").unlink()
    assert call(*words).exit_code == 0
    assert len(run_parts) == 3
    assert (tmp_path / "train" / "b.es.gz").exists()
    assert (tmp_path / "train" / "a.en").stat().st_mtime_ns == made["a"]
    assert call(*words).exit_code == 0
    assert len(run_parts) == 3
    (tmp_path / "memories" / "a.csv").write_text("en,es\nNew.,Nuevo.\n", encoding="utf-8")
    assert call(*words).exit_code == 0
    assert (tmp_path / "train" / "a.en").read_text(encoding="utf-8") == "New.\n"


def test_two_files_of_sentences_are_found_by_the_text_in_place_of_the_star(call, run_parts, tmp_path):  # noqa: F811
    for name in NAMES:
        (tmp_path / f"{name}.en").write_text(f"One {name}.\n", encoding="utf-8")
        (tmp_path / f"{name}.es").write_text(f"Uno {name}.\n", encoding="utf-8")
    shared = call("convert", "*.en", "*.es", "all/*.jsonl", "--cluster", "local")
    assert shared.exit_code == 0, shared.stderr
    for name in NAMES:
        row = json.loads((tmp_path / "all" / f"{name}.jsonl").read_text(encoding="utf-8"))
        assert row == {"translation": {"en": f"One {name}.", "es": f"Uno {name}."}}


def test_patterns_that_do_not_name_a_file_for_each_are_refused(refuse, tmp_path):  # noqa: F811
    write_pairs(tmp_path)
    for words, reason in {
        ("memories/*.csv", "all.tsv"): "all.tsv is to name 2 files; put one star in it, as in 'train/*.en'",
        ("memories/*.csv", "*/*.tsv"): "*/*.tsv is to name 2 files; put one star in it",
        ("memories/*.csv", "-"): "--cluster writes files; name one, not standard output",
        ("memories/*.csv", "*.tsv", "--places", "places"): "--places cannot be had with --cluster",
        ("memories/*.tmx", "*.tsv"): "there is no file memories/*.tmx; a pattern",
    }.items():
        assert reason in refuse("convert", *words, "--cluster", "local")
