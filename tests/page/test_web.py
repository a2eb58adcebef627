import subprocess

from tests.page.built import WEB, with_node


def test_the_tests_of_the_page_pass():
    said = run("test/run.mjs")
    assert "# fail 0" in said or "fail 0" in said, said


def test_the_types_of_the_page_fit():
    compiler = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    run(str(compiler), "--noEmit")


def run(*words: str) -> str:
    """Node's output; a failure is shown whole."""
    done = subprocess.run(["node", *words], cwd=WEB, env=with_node(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
