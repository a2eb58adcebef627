"""What translating requests together gains: a server asked by 1, 8 and 32 clients, and one that takes them singly.

    python -m benchmarks.serve runs/multi30k/best test.en.gz            # on a quiet machine only
    python -m benchmarks.serve runs/demo/best runs/demo/data/test.en --seconds 3 --engine torch

The server is `pellucid serve` in a process of its own; a client holds one connection and asks for one sentence after
another. Every answer is compared with what the model writes for that sentence alone. Times are those a client waits.
"""

import argparse
import http.client
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from pellucid.api import load
from pellucid.cli.files import read_sentences

CLIENTS = (1, 8, 32)
SINGLY = "import pellucid.serve.worker as work; work.TEXTS_TOGETHER = 1; from pellucid.cli import main; main()"
TOGETHER = "from pellucid.cli import main; main()"


@dataclass(frozen=True)
class Row:
    """What was seen of one number of clients."""

    together: bool
    clients: int
    waits: list[float]
    seconds: float
    wrong: int
    requests: float  # translated in one call, on average

    def __str__(self) -> str:
        half, most = (1000 * statistics.quantiles(self.waits, n=20)[i] for i in (9, 18))
        return (
            f"| {'together' if self.together else 'singly'} | {self.clients} | {len(self.waits) / self.seconds:.1f} "
            f"| {half:.0f} | {most:.0f} | {self.requests:.1f} | {self.wrong} of {len(self.waits)} |"
        )


def main() -> None:
    """Measure every row and print the table."""
    options = understood(sys.argv[1:])
    sentences = [
        line.rstrip("\n") for line, _ in zip(read_sentences(options.source), range(options.lines), strict=False)
    ]
    alone = [found.text for found in load(options.model, engine=options.engine).translate(sentences, batch=1)]
    print(f"{options.model}, {len(sentences)} sentences, engine {options.engine}, {platform.processor()}\n")
    print("| requests are translated | clients | requests/s | p50 ms | p95 ms | requests in a call | other texts |")
    print("|---|---|---|---|---|---|---|")
    for together in (True, False):
        with served(options, together) as port:
            measure(port, together, 1, sentences, alone, options.seconds / 4)  # the first requests are slower
            for clients in CLIENTS:
                print(measure(port, together, clients, sentences, alone, options.seconds), flush=True)


def understood(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve")
    parser.add_argument("model", help="a model directory")
    parser.add_argument("source", help="sentences to translate, one a line, plain or .gz")
    parser.add_argument("--lines", type=int, default=256, help="how many of them")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    parser.add_argument("--engine", default="auto", help="auto, torch or ctranslate2")
    return parser.parse_args(arguments)


@contextmanager
def served(options: argparse.Namespace, together: bool) -> Iterator[int]:
    """The port of a server in a process of its own."""
    code = TOGETHER if together else SINGLY
    words = ["serve", options.model, "--port", "0", "--each", "0", "--engine", options.engine]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        if not found:
            raise SystemExit(said + process.stderr.read())
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()


def measure(
    port: int, together: bool, clients: int, sentences: Sequence[str], alone: Sequence[str], seconds: float
) -> Row:
    """Ask for so long by so many."""
    before, began = calls(port), time.perf_counter()
    numbers = count()  # whoever is free takes the next sentence
    with ThreadPoolExecutor(clients) as pool:
        askers = [pool.submit(ask, port, numbers, sentences, alone, began + seconds) for _ in range(clients)]
        answers = [answer for asker in askers for answer in asker.result()]
    took, after = time.perf_counter() - began, calls(port)
    requests, times = (b - a for a, b in zip(before, after, strict=True))
    waits = [wait for wait, _ in answers]
    return Row(together, clients, waits, took, sum(not right for _, right in answers), requests / max(1, times))


def ask(
    port: int, numbers: Iterator[int], sentences: Sequence[str], alone: Sequence[str], end: float
) -> list[tuple[float, bool]]:
    """What one client waited for each answer, and whether it was the right one."""
    connection, found = http.client.HTTPConnection("127.0.0.1", port), []
    while time.perf_counter() < end:
        number = next(numbers) % len(sentences)
        body = json.dumps({"q": sentences[number], "source": "auto", "target": "auto"})
        began = time.perf_counter()
        connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        found.append((time.perf_counter() - began, answer.get("translatedText") == alone[number]))
    return found


def calls(port: int) -> tuple[float, float]:
    """How many requests were translated, and in how many calls."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    total, times = (re.search(rf"pellucid_requests_together_{name} (\S+)", text) for name in ("sum", "count"))
    assert total is not None
    assert times is not None
    return float(total[1]), float(times[1])


if __name__ == "__main__":
    main()
