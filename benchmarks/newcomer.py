"""Measure how long a newcomer waits for `make demo` in a fresh clone, from nothing installed to the last line.

python -m benchmarks.newcomer            # writes benchmarks/results/newcomer.md
"""

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.quality import machine

HOUSE = Path(__file__).parent.parent
RESULTS = HOUSE / "benchmarks" / "results"


def main() -> None:
    """Clone the repository, run the command, and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "pellucid"
        subprocess.run(["git", "clone", "--quiet", HOUSE, clone], check=True)
        seconds, output = time_command(["make", "demo"], clone)
        # The training's own progress lines; the last and largest is all of its time.
        minutes = [float(match) for match in re.findall(r"after ([\d.]+) min", output)]
    page = f"""# A newcomer's first command

Made by `python -m benchmarks.newcomer` on {machine()}: a fresh clone, no virtual environment.

| command | minutes in all | of them training |
|---|---|---|
| `make demo`, installation included | {seconds / 60:.1f} | {max(minutes, default=0):.1f} |

## What it prints

```
{output.strip()}
```
"""
    (RESULTS / "newcomer.md").write_text(page, encoding="utf-8")
    print(page)


def time_command(command: list[str], folder: Path) -> tuple[float, str]:
    """Return the seconds and the output of a command that must succeed, run as from a new shell."""
    # `make` would use an active environment, and the project of this one instead of the clone.
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    start = time.monotonic()
    process = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{process.stdout[-3000:]}")
    return time.monotonic() - start, process.stdout.replace(str(folder), ".")


if __name__ == "__main__":
    main()
