"""Fixture: the parts of a job worked on in this process, one after another, without Ray."""

from collections.abc import Callable
from typing import Any

import pytest

from pellucid.cli.cluster_work import Account
from pellucid.cluster.part_worker import Job, PartWorker, read_part_rows
from pellucid.cluster.results import Results

COMMANDS = ("checking", "conversion", "distillation", "preparation", "scoring", "translation")


@pytest.fixture
def run_parts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, list[str]]]:
    """Let `--cluster` work on the parts here, one after another; return what is written and said of each file."""
    written: list[tuple[bytes, list[str]]] = []

    def run(job: Job, address: str, workers: Any, identity: Any, begin_account: Callable[[], Account]) -> None:
        job.folder.mkdir(parents=True, exist_ok=True)
        worker = PartWorker(job)
        for number, work in enumerate(job.works):
            rows = [worker(row) for row in read_part_rows(job, {"work": number})]
            assert {row["state"] for row in rows} <= {"new", "done", "end"}, rows
            account, results = begin_account(), Results(job.folder, work.name)
            if results.are_joined(len(rows) - 1):
                continue
            results.join(len(rows) - 1, {}, lambda record, account=account: account.add_later(record.about))
            written.append((results.joined.read_bytes(), list(account.lines())))

    for command in COMMANDS:
        monkeypatch.setattr(f"pellucid.cli.cluster_{command}.run_on_cluster", run)
    return written
