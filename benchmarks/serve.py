"""Measure what translating requests together gains: 1, 8 and 32 clients, and a server that translates them singly.

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
SINGLY = "import pellucid.serve.service as work; work.TEXTS_TOGETHER = 1; from pellucid.cli import main; main()"
TOGETHER = "from pellucid.cli import main; main()"


@dataclass(frozen=True)
class Row:
    """Measurements with one number of clients."""

    together: bool
    clients: int
    waits: list[float]
    seconds: float
    wrong: int
    requests: float  # translated in one call, on average

    def __str__(self) -> str:
        # Twentieths: the tenth cut is the median, the last one the 95th percentile.
        median, slowest = (1000 * statistics.quantiles(self.waits, n=20)[i] for i in (9, 18))
        return (
            f"| {'together' if self.together else 'singly'} | {self.clients} | {len(self.waits) / self.seconds:.1f} "
            f"| {median:.0f} | {slowest:.0f} | {self.requests:.1f} | {self.wrong} of {len(self.waits)} |"
        )


def main() -> None:
    """Measure every row and print the table."""
    options = parse_options(sys.argv[1:])
    sentences = [
        line.rstrip("\n") for line, _ in zip(read_sentences(options.source), range(options.lines), strict=False)
    ]
    expected = [
        translation.text for translation in load(options.model, engine=options.engine).translate(sentences, batch=1)
    ]
    print(f"{options.model}, {len(sentences)} sentences, engine {options.engine}, {platform.processor()}\n")
    print("| requests are translated | clients | requests/s | p50 ms | p95 ms | requests in a call | other texts |")
    print("|---|---|---|---|---|---|---|")
    for together in (True, False):
        with run_server(options, together) as port:
            measure_row(port, together, 1, sentences, expected, options.seconds / 4)  # the first requests are slower
            for clients in CLIENTS:
                print(measure_row(port, together, clients, sentences, expected, options.seconds), flush=True)


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve")
    parser.add_argument("model", help="a model directory")
    parser.add_argument("source", help="sentences to translate, one a line, plain or .gz")
    parser.add_argument("--lines", type=int, default=256, help="how many of them")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    parser.add_argument("--engine", default="auto", help="auto, torch or ctranslate2")
    return parser.parse_args(arguments)


@contextmanager
def run_server(options: argparse.Namespace, together: bool) -> Iterator[int]:
    """Run a server in a process of its own, and give its port."""
    code = TOGETHER if together else SINGLY
    # each=0: all clients come from one address, whose requests are limited otherwise.
    words = ["serve", options.model, "--port", "0", "--set", "each=0", "--engine", options.engine]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        first_line = process.stderr.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)/", first_line)
        if not match:
            raise SystemExit(first_line + process.stderr.read())
        yield int(match[1])
    finally:
        process.terminate()
        process.wait()


def measure_row(
    port: int, together: bool, clients: int, sentences: Sequence[str], expected: Sequence[str], seconds: float
) -> Row:
    """Let a number of clients ask for a time, and return the measurements."""
    counts_before, start = count_calls(port), time.perf_counter()
    numbers = count()  # whoever is free takes the next sentence
    with ThreadPoolExecutor(clients) as pool:
        futures = [
            pool.submit(ask_repeatedly, port, numbers, sentences, expected, start + seconds) for _ in range(clients)
        ]
        answers = [answer for future in futures for answer in future.result()]
    elapsed, counts_after = time.perf_counter() - start, count_calls(port)
    requests, calls = (b - a for a, b in zip(counts_before, counts_after, strict=True))
    waits = [wait for wait, _ in answers]
    return Row(together, clients, waits, elapsed, sum(not is_same for _, is_same in answers), requests / max(1, calls))


def ask_repeatedly(
    port: int, numbers: Iterator[int], sentences: Sequence[str], expected: Sequence[str], end: float
) -> list[tuple[float, bool]]:
    """Ask as one client; return the wait for each answer, and whether the answer was the expected one."""
    connection, answers = http.client.HTTPConnection("127.0.0.1", port), []
    while time.perf_counter() < end:
        number = next(numbers) % len(sentences)
        body = json.dumps({"q": sentences[number], "source": "auto", "target": "es"})
        start = time.perf_counter()
        connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        answers.append((time.perf_counter() - start, answer.get("translatedText") == expected[number]))
    return answers


def count_calls(port: int) -> tuple[float, float]:
    """Return the number of requests translated so far, and the number of calls that translated them."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    total, calls = (re.search(rf"pellucid_requests_together_{name} (\S+)", text) for name in ("sum", "count"))
    assert total is not None
    assert calls is not None
    return float(total[1]), float(calls[1])


if __name__ == "__main__":
    main()
