"""Workers that do not find each other stop, and name the reason."""

import socket
from datetime import timedelta

import pytest

from pellucid.training import process_group
from pellucid.training.distributed import TrainingFailed


@pytest.mark.parametrize(
    ("rank", "port_taken", "message"),
    [
        (0, False, r"1/2 clients joined\. Start all"),
        (1, False, "timed out"),
        (0, True, r"EADDRINUSE.*nothing else has"),
    ],
)
def test_workers_that_do_not_meet_in_time_stop_with_the_reason(rank, port_taken, message, monkeypatch):
    monkeypatch.setattr(process_group, "WORKER_TIMEOUT", timedelta(seconds=1))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        if port_taken:
            listener.listen()
        else:
            listener.close()
        environment = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        with pytest.raises(TrainingFailed, match=rf"the 2 workers did not meet at 127\.0\.0\.1:{port}: .*{message}"):
            process_group.join_workers().__enter__()
