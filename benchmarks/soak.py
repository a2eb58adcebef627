"""Soak test of the server: three times the load it can answer, with misbehaving clients, stopped while it is busy.

    python -m benchmarks.soak                    # ten minutes; writes benchmarks/results/soak.md
    python -m benchmarks.soak --seconds 60 --page /tmp/soak.md

First, every question is asked alone, of two models in turn, and the server's capacity is measured. Then more questions
come than it can answer, and the model's directory is replaced again and again: each question must be answered
completely and as one of the models answers it alone, or be told to come again (429, 503). The load follows what was
answered lately, as other programs may take a part of the machine meanwhile.
Needs a system with several addresses of its own (127.0.0.2, ...), as Linux has.
"""

import argparse
import asyncio
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.quality import RESULTS, machine
from benchmarks.soak_clients import (
    AGAIN,
    JUST_BEFORE,
    Clients,
    Lost,
    Question,
    Tally,
    get_request,
    make_halves,
    make_hostile_requests,
    make_questions,
    make_trace_questions,
    make_uploads,
    without_seconds,
)
from benchmarks.soak_documents import make_documents
from benchmarks.soak_reloads import DAMAGED, GOOD, ServedModels
from pellucid.cli.files import read_sentences
from pellucid.localize.documents.readers import read_document

ADDRESSES = [f"127.0.0.{number}" for number in range(1, 9)]
"""Addresses of the clients; half of the requests come from the first."""

EACH_SECOND = {
    "a hostile request": 3.0,
    "asked and gone": 5.0,
    "read slowly": 2.0,
    "half": 4.0,
    "a trace": 1.0,
    "a document": 0.5,
    "asked and never read": 0.2,
}
"""Requests of other kinds beside the load, per second."""

REPLACEMENTS = 30
"""How often the model's directory is replaced at most; every second time, what comes is damaged."""

LINES = 200
"""Sentences that are asked, if no other number is named; each is also translated here, without a server."""

CLIENTS = 24
LATELY = 10
"""Counts of answers, a second apart, from which the load is computed."""

LEAST_LOAD = 0.1
"""Least load, as a share of the load at the beginning."""

MOST_GROWTH = 0.03
"""Growth of memory from the fourth tenth of the time to the last that is allowed: by then all that is kept has been
filled. Requests at a time differ in number, and so do models in memory, as a trace that is kept keeps what can make
another one of its model."""

LONG_ENOUGH = 300.0
"""Seconds from which a soak says something about memory."""


@dataclass
class Server:
    """A server in a process of its own, and the file of its messages."""

    process: subprocess.Popen[str]
    port: int
    log_path: Path

    def memory(self) -> float:
        """Return the resident memory in MB of a million bytes."""
        process = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process.pid)], capture_output=True, text=True)
        return int(process.stdout or 0) * 1024 / 1e6


@dataclass
class Soak:
    """Measurements of one soak."""

    seconds: float
    capacity: float
    asked_alone: int
    tally: Tally
    memory: list[float] = field(default_factory=list)  # at equal distances
    drained: float = 0.0
    status: int | None = None

    @property
    def tenths(self) -> list[float]:
        """Median of the memory in each tenth of the time, in MB."""
        cuts = [len(self.memory) * i // 10 for i in range(11)]
        return [statistics.median(self.memory[start:end] or [0.0]) for start, end in pairwise(cuts)]


def main() -> None:
    """Run a soak and write its page; exit status 1 if anything was lost or wrong."""
    arguments = parse_options(sys.argv[1:])
    sentences = [line for line, _ in zip(read_sentences(arguments.source), range(arguments.lines), strict=False)]
    soak = run_soak(
        (arguments.model, arguments.other),
        sentences,
        arguments.seconds,
        factor=arguments.factor,
        seed=arguments.seed,
        busy=arguments.busy,
    )
    arguments.page.write_text("\n".join(page_lines(arguments, soak)) + "\n", encoding="utf-8")
    print(arguments.page.read_text(encoding="utf-8"))
    sys.exit(1 if soak.tally.problems else 0)


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Ask a server too much for long.")
    parser.add_argument("--model", default="runs/demo/best", help="a model directory")
    parser.add_argument("--other", default="runs/demo/last", help="the model that replaces it, and is replaced by it")
    parser.add_argument("--source", default="runs/demo/data/test.en", help="sentences to translate, one a line")
    parser.add_argument("--lines", type=int, default=LINES, help="how many of them")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--factor", type=float, default=3.0, help="load, as a multiple of what the server can answer")
    parser.add_argument("--busy", type=int, default=0, help="other programs that compute all the time under the load")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=RESULTS / "soak.md")
    return parser.parse_args(arguments)


def run_soak(
    models: Sequence[str],
    sentences: Sequence[str],
    seconds: float,
    *options: str,
    factor: float = 3.0,
    seed: int = 1,
    busy: int = 0,
) -> Soak:
    """Start a server with these options, load it while its models change, stop it, and return the measurements."""
    with tempfile.TemporaryDirectory() as folder:
        served = ServedModels(Path(folder) / "model", models, sentences)
        with run_server(str(served.directory), *options) as server:
            soak = asyncio.run(soak_server(server, served, sentences, seconds, factor, random.Random(seed), busy))
            log_text = server.log_path.read_text(encoding="utf-8")
    lines = log_text.splitlines()
    if "Traceback" in log_text or "Error" in log_text:
        soak.tally.problems.append(f"the server said: {log_text[-1000:]}")
    if soak.status != 0 or not lines or lines[-1] != "stopped":
        soak.tally.problems.append(f"the server ended with {soak.status}, and said last: {lines[-1:]}")
    _, _, _, warm, *_, end = soak.tenths
    if seconds >= LONG_ENOUGH and end > (1 + MOST_GROWTH) * warm:
        soak.tally.problems.append(f"memory grew from {warm:,.0f} to {end:,.0f} MB")
    return soak


@contextmanager
def run_server(model: str, *options: str) -> Iterator[Server]:
    """Run a server with its default limits, except those in `options`."""
    with tempfile.TemporaryDirectory() as folder:
        log_path = Path(folder) / "said.txt"
        with log_path.open("w", encoding="utf-8") as log:
            # Port 0: the system chooses a free one, and the server's first message names it.
            words = [sys.executable, "-m", "pellucid", "serve", model, "--port", "0", *options]
            process = subprocess.Popen(words, stderr=log, text=True)
        try:
            while not (match := re.search(r"http://127\.0\.0\.1:(\d+)/", log_path.read_text(encoding="utf-8"))):
                if process.poll() is not None:
                    raise SystemExit(log_path.read_text(encoding="utf-8"))
                time.sleep(0.1)
            yield Server(process, int(match[1]), log_path)
        finally:
            process.kill()
            process.wait()


@contextmanager
def run_busy_programs(count: int) -> Iterator[None]:
    """Run so many programs that take all of the processor that they can get."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def soak_server(
    server: Server,
    served: ServedModels,
    sentences: Sequence[str],
    seconds: float,
    factor: float,
    draw: random.Random,
    busy: int = 0,
) -> Soak:
    """Ask every question alone, measure the server's capacity, then overload it until it is stopped."""
    tally, expected = Tally(), dict[bytes, list[bytes]]()
    clients = Clients(server.port, ADDRESSES, tally, expected)
    plain, trace_questions, uploads = (
        make_questions(sentences, draw),
        make_trace_questions(sentences[:: max(1, len(sentences) // 40)]),
        make_uploads(make_documents(sentences)),
    )
    for number in range(len(served.models)):
        if number != served.current:
            await served.replace_until_served(number, clients)
        for question in (*plain, *trace_questions, *uploads):
            answer = await clients.answer_or_document(question)
            if answer.status == 200:
                # What the server answers alone is what it must answer under load.
                expected.setdefault(question.sent, []).append(without_seconds(answer.body))
            elif question not in trace_questions:
                tally.problems.append(f"alone, {question.kind}: {answer.status} {answer.body[:200]!r}")
        tally.problems += find_differences(served, sentences, (*plain, *uploads), expected)
    # Not every sentence can be shown as one trace.
    trace_questions = [question for question in trace_questions if question.sent in expected]
    # One trace is read again and again, so that the server does not forget it.
    trace_id = json.loads((await clients.answer(trace_questions[0].sent)).body)["id"]
    numbers = Question("the numbers of a trace", get_request(f"/trace/{trace_id}/tensors.npz"))
    expected[numbers.sent] = [without_seconds((await clients.answer(numbers.sent)).body)]

    measure_seconds = max(2.0, seconds / 40)
    await measure_capacity(clients, plain, measure_seconds / 4)  # not counted: the first requests are slower
    soak = Soak(seconds, await measure_capacity(clients, plain, measure_seconds), len(expected), tally)
    sources = Sources(clients, plain, trace_questions, uploads, numbers, draw)
    with run_busy_programs(busy):
        await sources.soak(server, served, soak, factor)
    return soak


def find_differences(
    served: ServedModels, sentences: Sequence[str], asked: Sequence[Question], expected: Mapping[bytes, list[bytes]]
) -> Iterator[str]:
    """Yield where the server's newest lone answers differ from what its model does in this process."""
    model, name = served.loaded[served.current], served.models[served.current]
    sentence_questions = [question for question in asked if question.kind == "a sentence"]
    for sentence, question in zip(sentences, sentence_questions, strict=True):
        text = json.loads(expected[question.sent][-1])["translatedText"]
        if text != model.translate(sentence).text:
            yield f"alone, {sentence!r} became {text!r} with {name}"
    for question in asked:
        if question.document is not None:
            document = read_document(question.document.name, question.document.content, ("en", "es"))
            translations = model.translate(document.texts, scores=False)
            if expected[question.sent][-1:] != [document.write([translation.text for translation in translations])]:
                yield f"alone, {question.document.name} differs from its translation with {name}"


async def measure_capacity(clients: Clients, plain: Sequence[Question], seconds: float) -> float:
    """Return the questions answered per second, with as many clients as keep the server busy."""
    end, numbers, answers = time.monotonic() + seconds, count(), 0

    async def client(address: str) -> None:
        nonlocal answers
        while time.monotonic() < end:
            try:
                # Steps of 7 mix the kinds of questions, which stand in blocks.
                answer = await clients.answer(plain[next(numbers) * 7 % len(plain)].sent, address)
            except Lost as lost:
                clients.tally.problems.append(f"while its capacity was measured: lost, {lost}")
                return
            answers += answer.status not in AGAIN

    await asyncio.gather(*(client(ADDRESSES[number % len(ADDRESSES)]) for number in range(CLIENTS)))
    return answers / seconds


class Sources:
    """Sources of requests: a number of each kind per second, at moments drawn at random."""

    def __init__(
        self,
        clients: Clients,
        plain: Sequence[Question],
        trace_questions: Sequence[Question],
        uploads: Sequence[Question],
        numbers: Question,
        draw: random.Random,
    ):
        self.clients, self.plain, self.trace_questions, self.uploads, self.numbers, self.draw = (
            clients,
            plain,
            trace_questions,
            uploads,
            numbers,
            draw,
        )
        self.hostile = make_hostile_requests("The ball is blue.")
        self.halves = make_halves("The ball is blue.")
        # Running clients: `soak` waits for them at the end.
        self.open: set[asyncio.Task[None]] = set()
        self.each_second = dict(EACH_SECOND)

    async def soak(self, server: Server, served: ServedModels, soak: Soak, factor: float) -> None:
        """Send requests and replace models for some time, stop the server meanwhile, and wait for all answers."""
        tally, end, first_load = soak.tally, time.monotonic() + soak.seconds, factor * soak.capacity
        self.each_second["load"] = first_load
        sources = [asyncio.create_task(self.send_clients(kind)) for kind in self.each_second]
        replacing = asyncio.create_task(served.keep_replacing(self.clients, soak.seconds / REPLACEMENTS))
        health = asyncio.create_task(self.clients.watch_health())
        own_delay = asyncio.create_task(self.clients.watch_own_delay())
        answer_counts = deque([(time.monotonic(), 0)], maxlen=LATELY)
        while time.monotonic() < end:
            soak.memory.append(await asyncio.to_thread(server.memory))
            await asyncio.sleep(min(1.0, soak.seconds / 20))
            answer_counts.append((time.monotonic(), len(tally.waits)))
            if len(answer_counts) == LATELY:
                (start, answers_before), (now, answers_now) = answer_counts[0], answer_counts[-1]
                # The load follows what was answered lately: other programs may take the processor meanwhile.
                recent_load = factor * (answers_now - answers_before) / (now - start)
                self.each_second["load"] = max(LEAST_LOAD * first_load, recent_load)
        replacing.cancel()
        await asyncio.wait([replacing])
        if not replacing.cancelled():
            tally.problems.append(f"the model was no longer replaced: {replacing.exception()!r}")
        began = tally.stopping = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(1.0)  # clients that come now come too late
        for source in sources:
            source.cancel()
        soak.status = await asyncio.to_thread(server.process.wait)
        soak.drained = time.monotonic() - began
        own_delay.cancel()
        await asyncio.gather(health, *self.open)

    async def send_clients(self, kind: str) -> None:
        """Start clients of a kind at random intervals, until this is cancelled."""
        due = time.monotonic()
        while True:
            # Clients that were due while this process had no processor do not all come at once afterwards.
            due = max(due, time.monotonic() - 1.0) + self.draw.expovariate(self.each_second[kind])
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            task = asyncio.create_task(self.client(kind))
            # asyncio itself holds tasks only weakly: one without a reference may vanish.
            self.open.add(task)
            task.add_done_callback(self.open.discard)

    def client(self, kind: str) -> Coroutine[Any, Any, None]:
        """Make the next client of a kind."""
        draw, clients = self.draw, self.clients
        address = ADDRESSES[0] if draw.random() < 0.5 else draw.choice(ADDRESSES[1:])
        question = draw.choice(self.plain)
        match kind:
            case "load":
                return clients.ask(question, address)
            case "a hostile request":
                return clients.ask(draw.choice(self.hostile), address)
            case "asked and gone":
                return clients.leave(
                    draw.choice((question, question, draw.choice(self.uploads))), address, draw.uniform(0, 0.5)
                )
            case "read slowly":
                return clients.ask(draw.choice((question, self.numbers)), address, pause=0.02)
            case "half":
                return clients.send_half(*draw.choice(self.halves), address)
            case "a trace":
                return clients.ask(draw.choice(self.trace_questions), address)
            case "a document":
                return clients.ask(draw.choice(self.uploads), address)
        return clients.never_read(self.numbers, address, draw.uniform(1, 60))


def write_quantiles(seconds: Sequence[float]) -> str:
    """Return the median, the 99th percentile and the longest of some durations."""
    ordered = sorted(seconds) or [0.0]
    return " / ".join(f"{ordered[int(quantile * (len(ordered) - 1))]:.2f}" for quantile in (0.5, 0.99, 1.0))


def page_lines(arguments: argparse.Namespace, soak: Soak) -> Iterator[str]:
    """Yield the lines of the page: the setup, the numbers, and the outcomes of each kind of request."""
    tally = soak.tally
    kinds = dict.fromkeys(kind for kind, _ in sorted(tally.outcomes))
    answers, requests = tally.total("answered"), sum(tally.outcomes.values())
    documents = tally.total("answered", *(kind for kind in kinds if kind.startswith("a document")))
    yield "# A server that is asked too much\n"
    command = f"python -m benchmarks.soak --seconds {soak.seconds:g} --factor {arguments.factor:g}"
    command += f" --busy {arguments.busy}" if arguments.busy else ""
    command += f" --lines {arguments.lines}" if arguments.lines != LINES else ""
    beside = f", beside {arguments.busy} other programs that compute all the time," if arguments.busy else ""
    yield f"Made by `{command} --seed {arguments.seed}` on {machine()}, with {arguments.model} and {arguments.other}.\n"
    yield fill(
        f"`pellucid serve` with its default limits answers {soak.capacity:.0f} questions a second from {CLIENTS} "
        f"clients. Then, for {soak.seconds:g} seconds{beside} it gets {arguments.factor:g} times as many questions as "
        "it answered in the seconds before. They come from eight addresses, half of them from one. Meanwhile other "
        "clients upload documents and fetch their translations, disconnect, read slowly or not at all, send incomplete "
        "requests, or attack the server. The directory of the model is replaced again and again, by another model and "
        "by damaged ones, with which the server goes on with what it has. While this goes on, the server is told to "
        f"stop (SIGTERM). Each of the {soak.asked_alone:,} questions was asked alone before, with both models, and the "
        "answers for single sentences and for documents were compared with the translations of the model without a "
        "server. Every answer must be complete and the same as one of the models gives alone, or say that the server "
        "is too busy (429, 503).\n",
        120,
    )
    yield ""
    yield "| what | number |"
    yield "|---|---|"
    rows = {
        "requests": f"{requests:,}",
        "answered, with the same answer as alone": f"{answers:,}",
        "translated documents among them": f"{documents:,}",
        "replacements of the model that the server noticed: by another one, by a damaged one": " / ".join(
            f"{tally.total('noticed', kind):,}" for kind in (GOOD, DAMAGED)
        ),
        "told that too many from one address are open (429)": f"{tally.total('told to come again (429)'):,}",
        "told that too many wait or are open (503)": f"{tally.total('told to come again (503)'):,}",
        "lost: without a whole answer": f"{tally.total('lost'):,}",
        "wrong: an answer other than alone": f"{tally.total('wrong'):,}",
        "answered with a wrong status": f"{tally.total('another status'):,}",
        "seconds until an answer: median, 99th percentile, longest": write_quantiles(tally.waits),
        "seconds until a request was told to come again: median, 99th percentile, longest": write_quantiles(tally.told),
        "seconds until `/health` was answered: median, 99th percentile, longest": write_quantiles(tally.health),
        "seconds by which the clients' own program was late, which all of these but `/health` contain": write_quantiles(
            tally.own_delays
        ),
        "memory in MB, largest": f"{max(soak.memory, default=0.0):,.0f}",
        "memory in MB in each tenth of the time": " / ".join(f"{tenth:,.0f}" for tenth in soak.tenths),
        f"came in the last {JUST_BEFORE:g} s before SIGTERM, and were no longer accepted": (
            f"{tally.total('came too late'):,}"
        ),
        "came after SIGTERM": f"{tally.total('came after SIGTERM'):,}",
        "seconds from SIGTERM to the end of the process": f"{soak.drained:.1f}",
        "its exit code": f"{soak.status}",
        "problems": f"{len(tally.problems):,}",
    }
    for label, number in rows.items():
        yield f"| {label} | {number} |"
    yield "\n| request | outcome |"
    yield "|---|---|"
    for kind in kinds:
        outcomes = [
            f"{n:,} {outcome}" for (outcome_kind, outcome), n in sorted(tally.outcomes.items()) if outcome_kind == kind
        ]
        yield f"| {kind} | {', '.join(outcomes)} |"
    for problem in tally.problems[:40]:
        yield f"\n- `{problem}`"


if __name__ == "__main__":
    main()
