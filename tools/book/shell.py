"""Cell magic %%bash for the pages: commands of this environment, with output in the order of a terminal.

A page loads it in a hidden cell, from the project's folder:

    import sys; sys.path.append("tools")
    %load_ext book.shell
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def bash(line: str, cell: str) -> None:
    """Run a cell in bash and print its output; raise RuntimeError, with the output, where its last command fails."""
    # Commands such as `pellucid` come from the environment of this Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", cell],
        stdout=subprocess.PIPE,
        # One pipe keeps the order of the two streams; IPython's own %%bash separates them, and hands output on in
        # pieces of 100 bytes, which may end inside a letter.
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path},
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}:\n{process.stdout}")
    print(process.stdout, end="")


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Replace IPython's own %%bash."""
    shell.register_magic_function(bash, "cell", "bash")  # pyright: ignore[reportArgumentType]
