"""Modules import only modules of the floors below, and heavy packages only when they are needed."""

import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

from tools import floors

HEAVY = {
    *("torch", "numpy", "sentencepiece", "safetensors", "sacrebleu", "pydantic", "matplotlib", "jaxtyping"),
    *("rich", "importlib.metadata", "tomllib", "logging", "webbrowser"),  # 1 to 15 of about 120 ms together
}


def test_every_import_points_down():
    assert floors.find_violations(floors.SOURCE) == []


def test_no_row_of_the_table_leads_through_a_wall():
    assert floors.find_breaches() == []


@pytest.mark.parametrize(
    ("room", "row"),
    [
        ("training", floors.Floor(ours="training interpret.trace")),
        ("decode", floors.Floor(ours="decode", ours_inside="localize")),
        ("workflows.plan", floors.Floor(ours="workflows.plan demo.phrasebook")),
        ("interpret.page", floors.Floor(ours="interpret.page api")),
        ("data", floors.Floor(ours="data serve")),
    ],
)
def test_a_row_that_leads_through_a_wall_is_named(room: str, row: floors.Floor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(floors.FLOORS, room, row)
    [problem] = floors.find_breaches()
    assert problem.startswith(f"tools/floors.py: {room} may not import ")


def test_the_table_has_a_ground_floor_and_no_circle():
    below: dict[str, set[str]] = {}
    for name, row in floors.FLOORS.items():
        # The classes of users stand above, and one file of a wing hands them out.
        if name != "interop.pipeline":
            room = name.partition(".")[0]
            below.setdefault(room, set())
            below[room] |= {word.split(".")[0] for word in f"{row.ours} {row.ours_inside}".split()} - {room, "*"}
    assert set().union(*below.values()) <= set(below)
    assert list(graphlib.TopologicalSorter(below).static_order())


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("model/layers.py", "import pellucid.data", "pellucid.data"),
        ("model/layers.py", "def f():\n    from pellucid.decode.search import Step", "pellucid.decode.search.Step"),
        ("model/layers.py", "from ..data.corpus import read_pairs", "pellucid.data.corpus.read_pairs"),
        ("model/layers.py", "from pellucid import data", "pellucid.data"),
        ("model/layers.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rich", "rich"),
        ("store/directory.py", "from pellucid.data.corpus import read_pairs", "pellucid.data.corpus.read_pairs"),
        ("store/directory.py", "from pellucid.data.tokenizers import Tokenizer", "pellucid.data.tokenizers.Tokenizer"),
        ("evaluate/scores.py", "import sacrebleu.metrics", "sacrebleu.metrics"),
        ("cli/train.py", "from pellucid import api", "pellucid.api"),
        ("cli/train.py", "class Command:\n    import torch", "torch"),
        ("__init__.py", "import pellucid.api", "pellucid.api"),
    ],
)
def test_an_import_that_points_up_is_named(path: str, text: str, name: str):
    [problem] = floors.module_violations(Path(path), text)
    assert f"src/pellucid/{path}:{len(text.splitlines())} imports {name}; " in problem


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("model/layers.py", "import math, torch.nn.functional\nfrom pellucid.model.attention import Attention"),
        ("model/layers.py", "from .attention import Attention"),
        ("store/directory.py", "from pellucid.data.tokenizer import Tokenizer"),
        ("evaluate/scores.py", "def bleu():\n    import sacrebleu"),
        (
            "cli/train.py",
            "import typer\nfrom pellucid.cli.options import tell\ndef run():\n    import pellucid.api, torch",
        ),
        ("__init__.py", "def __getattr__(name):\n    from pellucid import api"),
    ],
)
def test_an_import_that_points_down_is_allowed(path: str, text: str):
    assert floors.module_violations(Path(path), text) == []


def test_no_files_import_each_other_in_a_circle():
    assert floors.find_circles(floors.python_imports(floors.SOURCE / "pellucid")) == []
    assert floors.find_circles(floors.typescript_imports(floors.WEB)) == []


def test_imports_inside_a_function_make_a_circle_and_those_of_types_do_not(tmp_path):
    package = tmp_path / "pellucid"
    texts = {
        "a.py": "def f():\n    from pellucid.b import g",
        "b.py": "from pellucid import c",
        "c.py": "from .a import f",
        "d.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pellucid.e",
        "e.py": "import pellucid.d",
        "f.ts": 'import { g } from "./g";',
        "g.tsx": 'import {\n  f,\n} from "./f";',
        "h.ts": 'import type { G } from "./i";',
        "i.ts": 'import { h } from "./h";',
    }
    package.mkdir()
    for name, text in texts.items():
        (package / name).write_text(text, encoding="utf-8")
    circles = [
        *floors.find_circles(floors.python_imports(package)),
        *floors.find_circles(floors.typescript_imports(package)),
    ]
    assert [circle.partition(" import")[0] for circle in circles] == ["a.py, b.py, c.py", "f.ts, g.tsx"]


def test_a_new_folder_needs_a_row():
    assert "stands on no floor" in floors.module_violations(Path("extras/new.py"), "")[0]


HELP_OF_EVERY_COMMAND = """
import contextlib
import pellucid.cli
def print_help(app, words):
    sys.argv = [*words, "--help"]
    with contextlib.suppress(SystemExit):
        pellucid.cli.main()
    for command in app.registered_commands:
        sys.argv = [*words, command.name, "--help"]
        with contextlib.suppress(SystemExit):
            pellucid.cli.main()
print_help(pellucid.cli.app, ["pellucid"])
print_help(pellucid.cli.inspecting.app, ["pellucid", "inspect"])
"""


@pytest.mark.parametrize(
    ("code", "pages"), [("import pellucid", 0), ("import pellucid.cli", 0), (HELP_OF_EVERY_COMMAND, 41)]
)
def test_heavy_packages_wait_until_they_are_needed(code: str, pages: int):
    # Some are imported as Python starts, where it runs from an environment with finders of its own.
    script = f"import sys\nbefore = set(sys.modules)\n{code}\n"
    script += f"print(*sorted({HEAVY!r} & set(sys.modules) - before), file=sys.stderr)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr.strip()) == (0, "")
    assert process.stdout.count("Usage:") == pages
