"""Workers that do not find each other stop, and say why."""

import socket
from datetime import timedelta

import pytest

from pellucid.train import distributed
from pellucid.train.failures import TrainingFailed


@pytest.mark.parametrize(
    ("rank", "taken", "said"),
    [
        (0, False, r"1/2 clients joined\. Start all"),
        (1, False, "timed out"),
        (0, True, r"EADDRINUSE.*nothing else has"),
    ],
)
def test_a_worker_that_never_comes_is_waited_for_no_longer_than_said(rank, taken, said, monkeypatch):
    monkeypatch.setattr(distributed, "WORKER_TIMEOUT", timedelta(seconds=1))
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        if taken:
            place.listen()
        else:
            place.close()
        there = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in there.items():
            monkeypatch.setenv(name, str(value))
        with pytest.raises(TrainingFailed, match=rf"the 2 workers did not meet at 127\.0\.0\.1:{port}: .*{said}"):
            distributed.join_workers().__enter__()
