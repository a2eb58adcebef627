"""The tests of the page's own sources pass, and their types are right."""

import subprocess

from tests.page.built import WEB, environment_with_node


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
