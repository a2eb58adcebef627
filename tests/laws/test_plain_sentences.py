"""A sentence without terms, prefix, tags and placeholders takes a short way: few files, and nothing made for others."""

import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.api import load
from pellucid.model import attention
from pellucid.store.directory import save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.laws.calls import SOURCE, functions_entered

# Four of them look whether a text is in a spelling and a case that the model knows, and where its sentences end; four
# more look whether something went wrong in its translation.
MOST_FILES = 29
"""Files of the package that somebody reads who follows one plain sentence from `Model.translate` to its text."""

MOST_FUNCTIONS = 13
"""Functions of the package that stand on one another from `Model.translate` to `attend`, both counted."""

PROGRAM = f"""
import sys
sys.path.insert(0, {str(SOURCE.parent)!r})
import pellucid
model = pellucid.load(sys.argv[1])
for terms in (None, {{"ball": "bola"}}):
    model.translate({LINES[0]!r}, terms=terms, max_extra=5)
    rare = "decode.terms", "decode.stages.term", "interpret.trace", "localize"
    prefixes = *(f"pellucid.{{name}}" for name in rare), "lxml"
    print(*(name for name in sys.modules if name.startswith(prefixes)))
"""


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "best"
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(directory, random_model(7, vocabulary, vocabulary), small_tokenizer())
    return directory


def test_a_plain_sentence_goes_through_few_files(model_directory):
    model = load(model_directory)
    model.translate(LINES[1], max_extra=5)  # whatever is made once is made now
    files = {file for file, _ in functions_entered(lambda: model.translate(LINES[0], max_extra=5))}
    files -= {"cpu.py"}  # a thread that looks at the machine now and then, whatever this one does
    assert {"api.py", "decode/beam.py", "model/attention.py", "model/layers.py"} <= files
    assert len(files) <= MOST_FILES, " ".join(sorted(files))


def test_few_functions_stand_between_a_sentence_and_attention(model_directory, monkeypatch):
    attend, depths = attention.attend, set[int]()

    def measure_depth(*arguments, **options):
        frame, depth = sys._getframe(1), 1
        while frame is not None:
            depth += Path(frame.f_code.co_filename).is_relative_to(SOURCE)
            frame = frame.f_back
        depths.add(depth)
        return attend(*arguments, **options)

    model = load(model_directory)
    monkeypatch.setattr(attention, "attend", measure_depth)
    model.translate(LINES[0], max_extra=5)
    assert max(depths) <= MOST_FUNCTIONS


def test_a_plain_sentence_imports_nothing_that_only_terms_traces_and_documents_need(model_directory):
    command = [sys.executable, "-c", PROGRAM, str(model_directory)]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    plain, with_terms = (line.split() for line in printed.split("\n")[:2])
    assert plain == []
    assert "pellucid.localize.terminology" in with_terms
    assert "pellucid.decode.stages.term_placement" in with_terms
