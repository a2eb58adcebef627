"""Promises about the repository: few dependencies, pages that follow the code, an example that runs."""

import ast
import email
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.training.corpora import write_corpus

ROOT = Path(__file__).resolve().parent.parent
SMALL_SETTINGS = {
    "tokenizer.vocabulary": 290,
    "model.d_model": 6,
    "model.d_ff": 11,
    "model.heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.max_positions": 256,
    "train.batch_tokens": 257,
    "train.dev_sentences": 3,
    "train.dev_beam": 1,
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_there_are_at_most_ten_direct_dependencies():
    assert len(PROJECT["dependencies"]) <= 10


def test_under_28_packages_come_besides_torch_and_its_own():
    packages = find_dependencies([Requirement(line) for line in PROJECT["dependencies"]], without={"torch"})
    assert {"numpy", "rich", "pygments"} <= packages  # the walk goes more than one step deep
    assert len(packages) < 28, sorted(packages)


def test_every_dependency_has_a_tested_version():
    pinned = {canonicalize_name(requirement.name): requirement for requirement in read_constraints()}
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    for line in [*PROJECT["dependencies"], *extras]:
        dependency = Requirement(line)
        if canonicalize_name(dependency.name) != PROJECT["name"]:
            [pin] = pinned[canonicalize_name(dependency.name)].specifier
            assert pin.operator == "=="
            assert dependency.specifier.contains(pin.version), line


# The first version of each package without the vulnerabilities that were known when this line was written.
FIRST_SAFE_VERSIONS = {
    "torch": "2.13",
    "lxml": "6.1",
    "pyarrow": "23.0.1",
    "starlette": "1.0.1",
    "h11": "0.16",
    "ctranslate2": "4.8.5",
    "sentencepiece": "0.2.3",
}


def test_lower_bounds_leave_out_vulnerable_versions():
    extras = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name not in ("docs", "dev")}
    lines = [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]
    bounds = {canonicalize_name(Requirement(line).name): Requirement(line).specifier for line in lines}
    for name, safe in FIRST_SAFE_VERSIONS.items():
        lower = [Version(bound.version) for bound in bounds[canonicalize_name(name)] if bound.operator == ">="]
        assert lower, name
        assert max(lower) >= Version(safe), name


def test_every_package_that_is_imported_is_declared():
    """What another package brings today it may not bring tomorrow, and its lower bound is nobody's."""
    lines = [*PROJECT["dependencies"], *(line for lines in PROJECT["optional-dependencies"].values() for line in lines)]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    modules_of = metadata.packages_distributions()
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name in find_imported_modules(path) - set(sys.stdlib_module_names) - {"pellucid"}:
            distributions = {canonicalize_name(distribution) for distribution in modules_of.get(name, [])}
            assert not distributions or distributions & declared, f"{path}: {name}"


def find_imported_modules(path: Path) -> set[str]:
    """Return the top names of all that a file imports."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module.partition(".")[0])
    return modules


def test_the_lock_has_the_tested_versions_with_their_hashes():
    """`make lock` writes it anew after a change of constraints.txt or pyproject.toml."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = [entry for entry in text.replace("\\\n", "").splitlines() if not entry.startswith("#")]
    locked = {}
    for entry in entries:
        line, *hashes = re.split(r"\s+--hash=", entry)
        assert hashes, line
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), line
        requirement = Requirement(line)
        locked[canonicalize_name(requirement.name)] = str(requirement.specifier)
    pinned = {canonicalize_name(requirement.name): str(requirement.specifier) for requirement in read_constraints()}
    assert {name: pinned[name] for name in locked if name in pinned} == {
        name: locked[name] for name in locked if name in pinned
    }
    # Beside them only what the tested build of torch, that for CPUs, does not bring, and what other systems need.
    others = [
        line for entry in entries if canonicalize_name(Requirement(line := entry.split(" --")[0]).name) not in pinned
    ]
    assert all(Requirement(line).marker for line in others), others
    needed = [Requirement(line) for line in PROJECT["dependencies"]]
    for name, lines in PROJECT["optional-dependencies"].items():
        needed += [Requirement(line) for line in lines if name not in ("all", "docs", "dev")]
    assert {canonicalize_name(requirement.name) for requirement in needed} <= set(locked)


def test_every_action_is_pinned_by_its_commit():
    """A tag can be moved to other code by whoever takes over an action's repository; a commit cannot."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
    uses = [line for path in workflows for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert len(uses) > 3
    for line in uses:
        assert re.fullmatch(r"\s*(- )?uses: [\w.-]+(/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_no_workflow_may_write_unless_it_says_what_for():
    for path in sorted((ROOT / ".github" / "workflows").glob("*.y*ml")):
        text = path.read_text(encoding="utf-8")
        assert re.search(r"^permissions:( \{\}|\n  contents: read)$", text, flags=re.MULTILINE), path.name


def test_the_audit_of_every_change_reads_all_lists_of_versions():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    audit = text.partition("\n  audit:\n")[2]
    for words in ("--require-hashes -r requirements.lock", "-r constraints.txt", "npm audit"):
        assert words in audit
    updates = (ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"package-ecosystem: (\S+)", updates)) == {"pip", "npm", "github-actions"}


def test_the_readme_leads_to_the_page_on_security():
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "Report a vulnerability" in page
    assert not re.search(r"\S@\S+\.\w", page)  # nobody's address: reports go through the repository


def test_the_wheel_brings_its_types_and_what_indexes_read(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "HATCH_BUILD_NO_HOOKS": "true"}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    [path] = tmp_path.glob("pellucid-*.whl")
    with zipfile.ZipFile(path) as wheel:
        assert "pellucid/py.typed" in wheel.namelist()
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        wheel_metadata = email.message_from_bytes(wheel.read(name))
    assert wheel_metadata["Metadata-Version"] == "2.4"  # older tools and indexes refuse 2.5
    assert "Typing :: Typed" in wheel_metadata.get_all("Classifier", [])
    assert wheel_metadata["Author"]


def test_one_extra_brings_all_that_users_may_add():
    extras = PROJECT["optional-dependencies"]
    [line] = extras["all"]
    assert Requirement(line).extras == set(extras) - {"all", "docs", "dev"}


def test_the_position_encoding_of_the_contributing_page_works():
    from pellucid.model import positions

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(class .*?)```", text, flags=re.DOTALL)
    assert len(code.splitlines()) <= 12
    names = {**vars(positions), "torch": torch}
    exec(code, names)
    encoding = names["Distance"](d_model=6, max_positions=13, heads=2)
    bias = encoding.bias(torch.arange(3), torch.arange(5))
    assert bias.shape == (1, 2, 3, 5)
    assert bias[0, :, 0].tolist() == [
        [0, -1 / 16, -2 / 16, -3 / 16, -4 / 16],
        [0, -1 / 256, -2 / 256, -3 / 256, -4 / 256],
    ]


@pytest.mark.slow  # it stands in a model that is traced in tests/browser/test_numbers.py
def test_the_position_encoding_of_the_contributing_page_is_trained_and_translates(tmp_path):
    """A copy of the package is changed as the page says: by a class, a line in the table, a name among the choices."""
    shutil.copytree(ROOT / "src" / "pellucid", tmp_path / "pellucid", ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(class .*?)```", page, flags=re.DOTALL)
    table = "POSITIONS: dict[str, type[Positions]] = {\n"
    replace_in_file(tmp_path / "pellucid/model/positions.py", table, f'{code}\n\n{table}    "distance": Distance,\n')
    replace_in_file(tmp_path / "pellucid/model/config.py", 'Positions = Literal["', 'Positions = Literal["distance", "')
    data = write_corpus(tmp_path, pairs=61)
    (tmp_path / "lines").write_text("one two\nthree\n", encoding="utf-8")
    settings = [word for key, value in SMALL_SETTINGS.items() for word in ("--set", f"{key}={value}")]
    training = ["train", "--source", data["source"], "--target", data["target"], "--out", "run", "--steps", "2"]
    commands = [[*training, "--set", "model.positions=distance", *settings]]
    commands += [["translate", "run/best", "lines", "--engine", engine] for engine in ("torch", "auto", "ctranslate2")]
    trained, by_torch, chosen, by_ctranslate2 = run_commands(tmp_path, commands)
    assert trained["exit_code"] == 0, trained
    assert by_torch["exit_code"] == 0
    # A model of two updates may repeat itself, which a note says.
    assert all(line.startswith("pellucid: lines: line") for line in by_torch["err"].splitlines())
    assert (chosen["exit_code"], chosen["out"]) == (0, by_torch["out"])
    assert chosen["err"].count("translating with torch, because CTranslate2 cannot hold this model") == 1
    assert (by_ctranslate2["exit_code"], by_ctranslate2["out"]) == (2, "")
    assert "is Distance, which it does not know" in by_ctranslate2["err"]


def replace_in_file(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


RUN_COMMANDS = """
import json, sys
from typer.testing import CliRunner
from pellucid.cli import app
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words)
    print(json.dumps({"exit_code": result.exit_code, "out": result.stdout, "err": result.stderr}))
"""


def run_commands(folder: Path, commands: list[list[str]]) -> list[dict[str, Any]]:
    """Run the commands, one after another, with the copy of the package in a folder; return what each did."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-c", RUN_COMMANDS, json.dumps(commands)]
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def find_dependencies(requirements: list[Requirement], without: set[str]) -> set[str]:
    """Return the names of all packages that the requirements bring, without those in `without` and what they need."""
    extras_followed: dict[str, set[str]] = {}
    while requirements:
        requirement = requirements.pop()
        name = canonicalize_name(requirement.name)
        extras = {"", *requirement.extras} - extras_followed.get(name, set())
        if name in without or not extras:
            continue
        extras_followed[name] = extras_followed.get(name, set()) | extras
        dependencies = [Requirement(line) for line in metadata.requires(name) or []]
        requirements += [
            dependency
            for dependency in dependencies
            if dependency.marker is None or any(dependency.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return set(extras_followed)


def read_constraints() -> list[Requirement]:
    """Read the pins of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_the_tests_that_other_processors_run_are_there():
    made = subprocess.run(["make", "-n", "test-processors"], cwd=ROOT, capture_output=True, text=True, check=False)
    named = re.findall(r"\btests/[\w/.]+", made.stdout)
    assert len(named) > 20
    assert all((ROOT / name).exists() for name in named)
