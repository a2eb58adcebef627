"""Parts translated one after another, without Ray, are what one process writes and says, with all options."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.api import load
from pellucid.cli.cluster_distillation import write_translations_on_cluster
from pellucid.cli.cluster_translation import LineAccount
from pellucid.workflows.distillation import TRANSLATIONS, fingerprint_text, write_translations
from tests.cli.conftest import call, model  # noqa: F401
from tests.cli.test_translation_notes import PLAIN
from tests.documents.samples import SAMPLES

LINES = ["The ball is blue.", "", "Where is the house?", "Yes. No.", "  ", "{unclosed <b>milk</b>.", "42", "☃"] * 5


@pytest.mark.parametrize(
    "words",
    [
        ("--terms", "terms.tsv", "--n-best", 2),
        ("--json", "--set", "method=sample", "--set", "seed=7"),
    ],
    ids=str,
)
def test_the_parts_of_a_text_are_its_translation(call, model, run_parts, monkeypatch, tmp_path, words):  # noqa: F811
    (tmp_path / "in.en").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("ball\tpelota\n", encoding="utf-8")
    # The rounding of a score depends on the lines that are translated together: parts are whole blocks.
    monkeypatch.setattr("pellucid.decode.request.BLOCK", 7)
    options = (*words, "--set", "max_extra=5", "--beam", 2)
    alone = call("translate", model, "in.en", "--out", "alone", *options)
    shared = call("translate", model, "in.en", "--out", "all", "--cluster", "local", "--part-lines", 14, *options)
    assert (alone.exit_code, shared.exit_code) == (0, 0), shared.stderr
    [(text, said)] = run_parts
    assert text == (tmp_path / "alone").read_bytes()
    assert [f"pellucid: in.en: {line}" for line in said] == alone.stderr.splitlines()


def test_the_parts_of_a_teachers_text_are_its_translations(model, run_parts, tmp_path):  # noqa: F811
    sources = []
    for name, lines in (("a.en", LINES), ("b.en", LINES[::-1])):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        sources.append(str(tmp_path / name))
    search: dict[str, Any] = {"beam": 2, "max_extra": 5}
    identity = {"text": fingerprint_text(sources), "models": ["one"]}

    def translate(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
        stream = load(model).translate_stream(lines, **search, scores=False)
        return ((translation.text, translation.stop) for translation in stream)

    counts = list(write_translations(sources, translate, tmp_path / "alone", identity))
    assert counts[-1] == 2 * len(LINES)
    options = {"source": sources, "teachers": [str(model)], "language": None, "part_lines": 7, "cores": 1}
    options |= {"workers": None, "cluster": "local"}
    for _ in range(2):  # the second time all are there
        write_translations_on_cluster(options, tmp_path / "shared", identity, search)
        written = (tmp_path / "shared" / TRANSLATIONS).read_bytes()
        assert written == (tmp_path / "alone" / TRANSLATIONS).read_bytes()
        assert [path.name for path in (tmp_path / "shared").iterdir()] == [TRANSLATIONS]
    assert len(run_parts) == 2
    with pytest.raises(ValueError, match="of another teacher"):
        write_translations_on_cluster(options, tmp_path / "shared", {**identity, "models": ["two"]}, search)


def test_what_cannot_be_done_in_parts_is_refused_before_ray_is_started(call, model, tmp_path):  # noqa: F811
    (tmp_path / "in.en").write_text("Yes.\n", encoding="utf-8")
    (tmp_path / "letter.html").write_bytes(SAMPLES["a.html"][0])
    for words, reason in {
        ("in.en",): "--cluster writes a file for each input file; name a folder for them: --out FOLDER",
        ("in.en", "--out", "in.en"): "in.en is a file; --cluster writes into a folder",
        ("-", "--out", "all"): "name a file, not standard input",
        ("*.es", "--out", "all"): "there is no file *.es; a pattern such as 'books/*.txt' stands in quotes",
        ("in.en", "--out", "all", "--prefix", "in.en"): "--prefix cannot be had with --cluster",
        ("letter.html", "--out", "all", "--json"): "--json of documents cannot be had with --cluster",
        ("in.en", "--out", "all", "--device", "cuda:1"): "Ray gives each worker its GPU: --device cuda",
    }.items():
        result = call("translate", model, *words, "--cluster", "local")
        assert (result.exit_code, reason in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "all").exists()


@given(data=st.data())
def test_accounts_of_parts_put_together_are_the_account_of_the_whole(data):
    """Wherever a text is cut, what is said of it at its end is the same."""
    notes = st.sampled_from(["split into 2 parts", "split into 5 parts", "no words", "term #3 is odd"])
    translations = data.draw(
        st.lists(
            st.builds(
                replace,
                st.just(PLAIN),
                notes=st.lists(notes, max_size=2).map(tuple),
                stop=st.sampled_from(["eos", "failed", "empty"]),
                confidence=st.sampled_from([None, 0.2, 0.9]),
                alarms=st.sampled_from([(), ("copy",)]),
                grade=st.sampled_from([None, "usable", "redo"]),
                missing_sentences=st.integers(0, 2),
                source_pieces=st.sampled_from([["a"], ["<0x41>"], ["<0x42>", "<0x43>"]]),
            ),
            max_size=30,
        )
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(translations)), max_size=4)))
    whole, parts = LineAccount(0.5, with_notes=True), LineAccount(0.5, with_notes=True)
    texts = list(whole.take_all(iter(translations), 1))
    texts_of_parts = []
    for start, end in pairwise([0, *cuts, len(translations)]):
        part = LineAccount(0.5, with_notes=True)
        texts_of_parts += part.take_all(iter(translations[start:end]), start + 1)
        parts.add_later(json.loads(json.dumps(part.as_values())))
    assert texts_of_parts == texts
    assert list(parts.lines()) == list(whole.lines())
