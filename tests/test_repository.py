"""Promises about the repository: few dependencies, pages that follow the code, an example that runs."""

import email
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_there_are_at_most_ten_direct_dependencies():
    assert len(PROJECT["dependencies"]) <= 10


def test_under_28_packages_come_besides_torch_and_its_own():
    brought = closure([Requirement(line) for line in PROJECT["dependencies"]], without={"torch"})
    assert {"numpy", "rich", "pygments"} <= brought  # the walk goes more than one step deep
    assert len(brought) < 28, sorted(brought)


def test_every_dependency_has_a_tested_version():
    pinned = {canonicalize_name(requirement.name): requirement for requirement in constraints()}
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    for line in [*PROJECT["dependencies"], *extras]:
        wanted = Requirement(line)
        if canonicalize_name(wanted.name) != PROJECT["name"]:
            [pin] = pinned[canonicalize_name(wanted.name)].specifier
            assert pin.operator == "=="
            assert wanted.specifier.contains(pin.version), line


def test_the_wheel_brings_its_types_and_what_indexes_read(tmp_path):
    pytest.importorskip("hatchling")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    without_the_page = {**os.environ, "HATCH_BUILD_NO_HOOKS": "true"}
    subprocess.run(words, cwd=ROOT, env=without_the_page, capture_output=True, check=True)
    [path] = tmp_path.glob("pellucid-*.whl")
    with zipfile.ZipFile(path) as wheel:
        assert "pellucid/py.typed" in wheel.namelist()
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        about = email.message_from_bytes(wheel.read(name))
    assert about["Metadata-Version"] == "2.4"  # older tools and indexes refuse 2.5
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    assert about["Author"]


def test_one_extra_brings_all_that_users_may_add():
    extras = PROJECT["optional-dependencies"]
    [named] = extras["all"]
    assert Requirement(named).extras == set(extras) - {"all", "docs", "dev"}


def test_the_position_encoding_of_the_contributing_page_works():
    from pellucid.model import positions

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(class .*?)```", text, flags=re.DOTALL)
    assert len(code.splitlines()) <= 10
    names = {**vars(positions), "torch": torch}
    exec(code, names)
    encoding = names["Distance"](d_model=6, max_positions=13, heads=2)
    bias = encoding.bias(torch.arange(3), torch.arange(5))
    assert bias.shape == (1, 2, 3, 5)
    assert bias[0, :, 0].tolist() == [
        [0, -1 / 16, -2 / 16, -3 / 16, -4 / 16],
        [0, -1 / 256, -2 / 256, -3 / 256, -4 / 256],
    ]


def closure(wanted: list[Requirement], without: set[str]) -> set[str]:
    """The names of all packages an installation of `wanted` brings here, not following those in `without`."""
    found: dict[str, set[str]] = {}
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        extras = {"", *requirement.extras} - found.get(name, set())
        if name in without or not extras:
            continue
        found[name] = found.get(name, set()) | extras
        inner = [Requirement(line) for line in metadata.requires(name) or []]
        wanted += [
            each
            for each in inner
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return set(found)


def constraints() -> list[Requirement]:
    """The pins of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]
