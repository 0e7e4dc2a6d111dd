"""OpenAPI fuzzing: an application behind the guard on a real port, and a fuzzer that asks it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from onceward.http.guard import GuardSettings, RequestGuard

ROOT = Path(__file__).parent.parent.parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "allow_header_conformance",
)
#: How much longer than planned it may take on a machine that is busy.
TIMES = (1, 3, 9)
SEED = 20261115
REQUEST_SECONDS_MAX = 120


@contextmanager
def serving(app: FastAPI, token: str) -> Iterator[str]:
    """Serve an application as the commands do, in a thread; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        guard = RequestGuard(app, settings=GuardSettings(port=port, token=token))
        config = uvicorn.Config(guard, log_level="error", access_log=False, server_header=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        # The fuzzer does not wait for changes: every stream and long poll ends at once.
        app.state.stop_waiting()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def fuzz(  # noqa: PLR0913 - all by name
    url: str,
    token: str,
    directory: Path,
    *,
    seconds: float,
    got_through: Callable[[], bool],
    is_random: bool,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Take the document at its word for so long.

    Every run sends the same, unless it is to be random. What it sent must not all have been
    refused, or nothing was tried. On a busy machine its time may be over before it has begun, so it
    gets more then. Its settings are those of `schemathesis.toml` in the directory, if there are.
    """
    for times in TIMES:
        seed = () if is_random else ("--seed", str(SEED + times))
        options = ("--max-time", str(times * seconds), *seed)
        said = _fuzz(url, token, directory, options, environment or {})
        if got_through():
            return
    raise AssertionError(said)


def _fuzz(
    url: str,
    token: str,
    directory: Path,
    options: Sequence[str],
    environment: Mapping[str, str],
) -> str:
    command = [
        *(str(Path(sys.executable).parent / "st"), "run"),
        f"{url}/api/console/openapi.json",
        *("--header", f"X-CM-LAB-TOKEN: {token}"),
        *("--checks", ",".join(CHECKS)),
        # How long an answer or an example takes says how busy the machine is.
        *("--request-timeout", str(REQUEST_SECONDS_MAX)),
        *("--suppress-health-check", "all"),
        *options,
        "--no-color",
    ]
    ran = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
