"""Modules that have moved are found under their old names, are the same modules, and say where they stand now."""

import importlib
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import pellucid

OLD = pellucid._MOVED
OF_SUBMODULES = {
    "trace.session": "interpret.trace.session",
    "inspect.words": "interpret.studies.word_vectors",
    "inspect.heads": "interpret.studies.head_studies",
    "check.page": "workflows.check.check_page",
    "page.html": "interpret.page.html_file",
    "train.prepare": "training.shard_writing",
    "train.update": "training.update",
    "documents.html": "localize.documents.html",
    "text.sentences": "data.text.sentences",
    "plots.figure": "interpret.plots.figure",
    "check.examine": "workflows.check.examine",
}


@pytest.mark.parametrize(("old", "new"), [*OLD.items(), *OF_SUBMODULES.items()])
def test_an_old_name_is_the_same_module_and_says_the_new_one(old: str, new: str):
    sys.modules.pop(f"pellucid.{old}", None)
    module = importlib.import_module(f"pellucid.{new}")
    if old == "train":
        assert importlib.import_module("pellucid.train").__name__ == "pellucid.train"
        return
    with pytest.warns(FutureWarning, match=rf"^pellucid\.{old} is pellucid\.{new} now; the old name goes"):
        assert importlib.import_module(f"pellucid.{old}") is module
    assert module.__name__ == f"pellucid.{new}"
    assert module.__spec__ is not None
    assert module.__spec__.name == f"pellucid.{new}"


def test_every_new_name_is_there_and_no_old_one():
    source = Path(pellucid.__file__).parent
    for old, new in OLD.items():
        assert (source / new.replace(".", "/")).is_dir() or (source / f"{new.replace('.', '/')}.py").is_file()
        assert not (source / old.replace(".", "/")).exists()
        assert not (source / f"{old.replace('.', '/')}.py").exists()


def test_the_function_train_stays_what_it_is_whatever_is_imported():
    program = """
import warnings
warnings.simplefilter("ignore")
import pellucid, pellucid.api
assert pellucid.train is pellucid.api.train
import pellucid.training.update as u
assert pellucid.train is pellucid.api.train
from pellucid.train.update import update_weights
assert update_weights is u.update_weights
try:
    pellucid.train(nonsense=1)
except (TypeError, ValueError) as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("TypeError", "ValueError")


def test_names_that_never_were_are_not_there():
    for name in ("pellucid.nothing", "pellucid.trace.nothing", "pellucid.training.nothing"):
        with pytest.raises(ModuleNotFoundError), pytest.warns(FutureWarning) if "trace" in name else nullcontext():
            importlib.import_module(name)
