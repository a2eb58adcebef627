"""The event loop goes first: threads wait between two steps of their work while it has something to do."""

import asyncio
from collections.abc import Callable
from threading import Event, Thread

import pytest

from pellucid.serve import turns
from pellucid.serve.turns import LoopTurns
from pellucid.serve.workers import Worker


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> LoopTurns:
    """Turns for which a thread waits long, so that only the loop can give it one."""
    monkeypatch.setattr(turns, "_LONGEST_WAIT", 60.0)
    return LoopTurns()


def run(loop_turns: LoopTurns, main: Callable[[], object]) -> None:
    """Run a coroutine function in the loop that goes first."""
    with asyncio.Runner(loop_factory=loop_turns.make_loop) as runner:
        runner.run(main())  # type: ignore[arg-type]


def test_a_step_waits_while_the_loop_is_busy_and_is_done_while_the_loop_waits(patient: LoopTurns):
    stepped, asked = Event(), Event()

    def step() -> None:
        asked.set()
        patient.wait()
        stepped.set()

    async def main() -> None:
        await asyncio.sleep(0)  # the loop is at work now
        thread = Thread(target=step)
        thread.start()
        assert asked.wait(60)
        for _ in range(100):  # turns of the loop with more to do at once
            await asyncio.sleep(0)
            assert not stepped.is_set()
        while not stepped.is_set():
            await asyncio.sleep(0.001)  # the loop has nothing to do for so long
        thread.join()

    run(patient, main)
    assert stepped.is_set()


def test_a_thread_does_not_wait_where_no_loop_runs(patient: LoopTurns):
    patient.wait()

    async def main() -> None:
        await asyncio.sleep(0)

    run(patient, main)
    patient.wait()  # nor where it has ended


def test_work_goes_on_beside_a_loop_that_is_never_done(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "_LONGEST_WAIT", 0.001)
    loop_turns, steps = LoopTurns(), list[int]()

    async def main() -> None:
        thread = Thread(target=lambda: [(loop_turns.wait(), steps.append(number)) for number in range(10)])
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0)
        thread.join()

    run(loop_turns, main)
    assert steps == list(range(10))


def test_the_loop_serves_sockets_and_timers_as_any_other(patient: LoopTurns):
    async def main() -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"Yes.\n")
        assert await reader.read() == b"Yes.\n"
        writer.close()
        server.close()
        assert await asyncio.to_thread(lambda: 7) == 7

    run(patient, main)


def test_a_worker_asks_for_a_turn_before_its_first_step_and_between_two():
    asked: list[str] = []

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        for _ in numbers:
            asked.append("step")
            check_wanted()
        return numbers

    worker = Worker[int, int](answer, waiting=9, wait_for_turn=lambda: asked.append("turn"))
    assert worker.submit(3).result(10) == 3
    assert asked == ["turn", "step", "turn"]
