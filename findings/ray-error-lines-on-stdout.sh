#!/usr/bin/env bash
# Ray tells of a lost worker on the standard output of the program, even where it was told to be quiet.
#
# One would expect: `ray.init(log_to_driver=False, logging_level=ERROR)` keeps Ray's own messages from a program, or at
# least sends them to standard error, where its other messages go. A program whose result is what it prints, such as
# `python translate.py > out.txt`, then writes its result and nothing else.
#
# What happens (ray 2.60.0, Python 3.11, Linux x86_64): when a worker process is lost and its task is tried again, lines
# that begin with "(raylet)" are printed to standard output, between the lines of the result, with escape codes for
# colours although it is a file. Standard error has none of them.
#
# Seen: standard output had "(raylet) A worker died or was killed ..." before "answer 7", and standard error had 0 lines
# with "raylet". `contextlib.redirect_stdout` catches the lines, so that a program can send them elsewhere.
#
# The script installs Ray in a temporary folder (0.3 GB), and fails where Ray does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ray==2.60.0

cat > "$folder/quiet.py" <<'PYTHON'
import logging
import os
import signal
import sys

import ray

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)


@ray.remote(max_retries=1)
def lose_the_first_worker(mark):
    """Take this process away the first time, as a system without memory does, and answer the second time."""
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return 7


print("answer", ray.get(lose_the_first_worker.remote(sys.argv[1])))
PYTHON

cd "$folder"
HOME=$folder RAY_USAGE_STATS_ENABLED=0 venv/bin/python quiet.py "$folder/mark" > out.txt 2> err.txt

echo "ray $(venv/bin/python -c 'import ray; print(ray.__version__)'), $(python3 --version)"
echo "standard output:"
cut -c 1-100 out.txt
told=$(grep -c "raylet" out.txt || true)
told_on_error=$(grep -c "raylet" err.txt || true)
coloured=$(grep -c $'\x1b' out.txt || true)
echo "lines of the raylet on standard output: $told, with colours: $coloured; on standard error: $told_on_error"

grep -q "^answer 7$" out.txt || { echo "changed: the task was not answered"; exit 1; }
[ "$told" -gt 0 ] && [ "$coloured" -gt 0 ] || { echo "changed: standard output has the result only"; exit 1; }
[ "$told_on_error" -eq 0 ] || { echo "changed: standard error tells of the worker"; exit 1; }
echo "as described"
