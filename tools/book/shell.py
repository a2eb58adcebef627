"""The cell magic %%bash as pages use it: commands of this environment, and their output as a terminal would order it.

A page loads it in a hidden cell, from the project's folder:

    import sys; sys.path.append("tools")
    %load_ext book.shell

IPython's own %%bash hands output on in pieces of 100 bytes, which may end inside a letter, and standard error apart.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def bash(line: str, cell: str) -> None:
    """Run a cell in bash and print what it wrote; RuntimeError, with that, where its last command or pipe fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", cell],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path},
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}:\n{done.stdout}")
    print(done.stdout, end="")


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Takes the place of IPython's own %%bash."""
    shell.register_magic_function(bash, "cell", "bash")  # pyright: ignore[reportArgumentType]
