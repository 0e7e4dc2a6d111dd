"""`onceward up` as a process: what it prints, what it serves, what it refuses, how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from onceward.cli.http_server import SHUTDOWN_SECONDS, _run, open_browser
from onceward.cli.listen_address import ListenAddress, listen
from onceward.errors import Internal, PortInUse
from onceward.version import __version__
from tests.support.served_commands import Served, browser_in, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-m", "onceward", "up"]
#: Half a second is usual; the machine may have much else to do.
STOP_SECONDS_MAX = 120
#: What is promised, and what may take the longest of it.
assert SHUTDOWN_SECONDS < 2


class Running(Served):
    """A server under test, and where it is."""

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    def get(self, path: str, **options: Any) -> httpx.Response:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            return client.get(path, **options)

    def stop(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Ask it to stop and return its exit code, the rest of its stdout, and its stderr."""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=STOP_SECONDS_MAX)
        return self.process.returncode, out, err


@contextlib.contextmanager
def lab_elsewhere() -> Iterator[dict[str, str]]:
    """Keep the developer's own Lab out of the tests."""
    with tempfile.TemporaryDirectory() as directory:
        yield {
            "CM_LAB_ROOT": f"{directory}/lab",
            "CM_FEEDBACK_STORE_PATH": f"{directory}/feedback.jsonl",
        }


@contextlib.contextmanager
def up(*arguments: str, **options: Any) -> Iterator[Running]:
    """Start the server, wait until it says where it is, and clean up."""
    environment = options.pop("env", os.environ)
    with (
        lab_elsewhere() as lab,
        started([*COMMAND, *arguments], env={**environment, **lab}, **options) as process,
    ):
        yield Running(process)


def refused(*arguments: str, code: int = 2) -> str:
    """Run a command that must be refused, as bad usage unless said, and return what it said."""
    command = [*COMMAND, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("fix: ")
    return done.stderr


def test_it_serves_the_page_and_its_health() -> None:
    """When the address is printed, the server really answers there."""
    with up("--port", "0", "--json") as server:
        page = server.get("/")
        assert page.status_code == 200
        assert "nothing is lost" in page.text
        assert "server" not in page.headers
        assert server.get("/healthz").json() == {"status": "ok", "version": __version__}
        assert server.get("/", headers={"host": "evil.test"}).status_code == 421
        assert server.get("/nope").json()["error"]["code"] == "NOT_FOUND"


def test_json_is_one_line_for_machines() -> None:
    """Standard output is a single line with url and session, from start to end."""
    with up("--port", "0", "--json") as server:
        reported = json.loads(server.line)
        assert list(reported) == ["url", "sessionId"]
        assert reported["url"].startswith("http://127.0.0.1:")
        assert reported["sessionId"].startswith("lab_")
        assert server.stop() == (0, "", "stopped\n")


def test_people_read_where_it_is_and_how_to_stop_it() -> None:
    """Without --json the one line is a sentence."""
    with up("--port", "0", "--no-open") as server:
        assert server.line.startswith(f"Onceward {__version__} is at http://127.0.0.1:")
        assert "Ctrl-C" in server.line
        assert server.stop() == (0, "", "stopped\n")


def test_without_a_port_the_next_free_one_is_taken() -> None:
    """A second server on the same machine starts beside the first, and says so."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # another process holds it already: as good
            stack.enter_context(socket.create_server(("127.0.0.1", 3939)))
        server = stack.enter_context(up("--json"))
        assert 3939 < int(server.address.rpartition(":")[2]) <= 3989
        assert server.get("/healthz").status_code == 200
        assert "port 3939 is in use" in server.stop()[2]


def test_a_taken_port_that_was_asked_for_is_an_error() -> None:
    """A named port is used, or an error explains why not."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"port {port} on 127.0.0.1 is in use" in refused("--port", str(port))
        with pytest.raises(PortInUse, match="is in use"):
            listen(ListenAddress(host="127.0.0.1", port=port, external=False, names=()))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--host", "0.0.0.0"], "--allow-external"),
        (["--host", "::"], "--allow-external"),
        (["--host", "192.168.0.7"], "--allow-external"),
        (["--host", "example.test"], "--allow-external"),
        (["--host", ""], "--allow-external"),
        (["--allow-host", "lab.example"], "--allow-external"),
        (["--allow-external", "--host", ""], "is not a host name or an IP address"),
        (
            ["--allow-external", "--allow-host", "lab.example:80"],
            "is not a host name or an IP address",
        ),
        (["--allow-external", "--host", "192.0.2.1"], "--host"),
        (["--allow-external", "--host", "no-such-host.invalid"], "--host"),
        (["--port", "65536"], "65535"),
        (["--port", "-1"], "65535"),
    ],
)
def test_what_cannot_or_should_not_be_served_is_refused(arguments: list[str], hint: str) -> None:
    """Another machine is let in only on purpose, and nonsense is explained."""
    assert hint in refused("--no-open", *arguments)


def test_a_home_that_cannot_be_written_is_one_error_with_its_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even root can make a directory there; nothing else is tried, and nothing else is said."""
    for name in ("ONCEWARD_HOME", "ONCEWARD_STORE", "CM_LAB_ROOT", "CM_FEEDBACK_STORE_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/sys")
    said = refused("--no-open", "--port", "0", code=1)
    assert "cannot create /sys/.cm" in said
    assert "ONCEWARD_HOME, CM_LAB_ROOT and CM_FEEDBACK_STORE_PATH" in said


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_when_asked_whatever_is_connected(how: signal.Signals) -> None:
    """An idle connection, half a request and a silent one delay nothing; the exit code is 0."""
    with up("--port", "0", "--json") as server, contextlib.ExitStack() as stack:
        idle = stack.enter_context(contextlib.closing(http.client.HTTPConnection(server.address)))
        idle.request("GET", "/healthz")
        assert idle.getresponse().read()
        host, port = server.address.split(":")
        for sent in (b"", b"GET / HTT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(sent)
        assert server.stop(how) == (0, "", "stopped\n")


def test_it_stops_when_asked_though_a_client_reads_nothing() -> None:
    """A client that sends requests and reads no response is cut off, without a trace in the log."""
    with up("--port", "0", "--json") as server, socket.socket() as client:
        host, port = server.address.split(":")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.setblocking(False)
        requests = f"GET / HTTP/1.1\r\nHost: {server.address}\r\n\r\n".encode() * 1000
        while select.select([], [client], [], 0.5)[1]:  # until the server takes no more
            client.send(requests)
        code, out, err = server.stop()
        assert (code, out) == (0, "")
        assert "Traceback" not in err
        assert err.endswith("stopped\n")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_while_it_is_still_starting(tmp_path: Path, how: signal.Signals) -> None:
    """A user who interrupts at once sees no traceback either.

    Much of what is loaded makes its classes from text. Python remembers an interrupt inside that,
    even if it was caught, and would end by it.
    """
    slow = "import time\nprint('starting', flush=True)\nwhile True:\n    time.sleep(0.01)\n"
    (tmp_path / "uvicorn.py").write_text(f"exec({slow!r})\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    with up("--port", "0", "--json", env={**os.environ, "PYTHONPATH": path}) as server:
        assert server.line == "starting\n"
        assert server.stop(how) == (0, "", "stopped\n")


def test_an_address_that_does_not_answer_is_not_announced() -> None:
    """The address is printed after the server has answered there, and not otherwise."""

    class Broken:
        def __init__(self) -> None:
            self.stopped = asyncio.Event()

        @property
        def should_exit(self) -> bool:
            return self.stopped.is_set()

        @should_exit.setter
        def should_exit(self, _value: bool) -> None:
            self.stopped.set()

        async def serve(self, sockets: list[socket.socket]) -> None:
            async with await asyncio.start_server(self.fail, sock=sockets[0]), asyncio.timeout(9):
                await self.stopped.wait()

        async def fail(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 500 Internal Server Error\r\n\r\n")
            writer.close()

    announced: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server: Any = Broken()
        run = _run(server, listener, "http://127.0.0.1:1", "tok_1", lambda: announced.append(True))
        with pytest.raises(Internal, match="does not answer"):
            asyncio.run(run)
    assert announced == []


def test_h65_localhost_is_printed_as_the_address_that_is_bound() -> None:
    """A browser may try `localhost` at ::1 first, where another user can listen on the port."""
    with up("--port", "0", "--json", "--host", "localhost") as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.get("/healthz").status_code == 200
        port = server.url.rpartition(":")[2]
        assert server.get("/healthz", headers={"host": f"localhost:{port}"}).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_other_loopback_addresses_are_served_under_their_own_name(host: str) -> None:
    """The printed address is one that the guard accepts."""
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    with up("--port", "0", "--json", "--host", host) as server:
        assert (f"[{host}]" if ":" in host else host) in server.url
        assert server.get("/healthz").status_code == 200


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def test_external_mode_asks_everybody_for_the_token() -> None:
    """The token is shown once, on stderr; it opens the page, and a browser keeps a cookie."""
    arguments = ["--host", "0.0.0.0", "--allow-external", "--allow-host", "lab.example"]
    with up("--port", "0", "--json", *arguments) as server:
        assert server.process.stderr is not None
        token = server.process.stderr.readline().removeprefix("token: ").strip()
        assert token.startswith("tok_")
        assert token not in server.line
        link = server.process.stderr.readline().strip()
        assert link == f"open {server.url}/#token={token}"

        assert server.get("/healthz").status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        assert server.get("/healthz", headers=bearer).status_code == 200
        named = {**bearer, "host": "lab.example"}
        assert server.get("/healthz", headers=named).status_code == 200
        assert server.get("/healthz", headers={**bearer, "host": "evil.test"}).status_code == 421

        with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as browser:
            first = browser.post("/api/console/login", headers=bearer)
            assert first.json()["token"] != token
            assert browser.get("/").status_code == 200
            assert browser.post("/healthz").status_code == 401
        assert token not in server.stop()[2]


@pytest.mark.parametrize("opener", ["cat >/dev/null; exit 1", "kill -9 $$"])
def test_a_browser_that_fails_does_not_matter(tmp_path: Path, opener: str) -> None:
    """On a terminal the page is opened; when that fails, the server goes on."""
    called, browser = browser_in(tmp_path, opener)
    master, slave = pty.openpty()
    arguments = [*COMMAND, "--port", "0"]
    with (
        lab_elsewhere() as lab,
        os.fdopen(master) as terminal,
        subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=subprocess.PIPE,
            env={**os.environ, **lab, **browser},
        ) as process,
    ):
        os.close(slave)
        try:
            line = terminal.readline()
            url = called.read_text().strip()  # waits for the opener
            assert f" {url} " in line
            assert httpx.get(f"{url}/healthz", trust_env=False, timeout=60).status_code == 200
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=STOP_SECONDS_MAX)[1] == b"stopped\n"
            assert process.returncode == 0
        finally:
            process.kill()


def test_an_opener_that_raises_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that goes wrong inside the opener gets out of it."""
    called: list[str] = []

    def broken(url: str) -> None:
        called.append(url)
        raise RuntimeError

    monkeypatch.setattr("webbrowser.open", broken)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("BROWSER", "some")
    before = set(threading.enumerate())
    open_browser("http://127.0.0.1:1")
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert called == ["http://127.0.0.1:1"]


@pytest.mark.parametrize(
    "module",
    [
        *("onceward", "onceward.cli", "onceward.cli.up", "onceward.cli.lab"),
        *("onceward.cli.feedback", "onceward.lab.client"),
    ],
)
def test_importing_does_not_load_a_web_server(module: str) -> None:
    """Importing the library or asking for help does not load FastAPI."""
    code = f"import sys, {module}; print({{'fastapi', 'starlette', 'uvicorn'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_accepted_connections_do_not_wait_for_acknowledgements() -> None:
    """An answer in two parts leaves at once; else each would take the 40 ms of a delayed ACK."""
    with listen(ListenAddress(host="127.0.0.1", port=0, external=False, names=())) as listener:
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.prove
def test_answers_do_not_wait_for_acknowledgements(prove: bool) -> None:
    """The same, measured from outside: on a machine that has nothing else to do."""
    if not prove:
        pytest.skip("a busy machine is slow for other reasons; `make prove` measures it")
    with up("--port", "0", "--json") as server:
        client = http.client.HTTPConnection(server.address)
        with contextlib.closing(client):
            times = []
            for _ in range(20):
                began = time.perf_counter()
                client.request("GET", "/healthz")
                client.getresponse().read()
                times.append(time.perf_counter() - began)
    assert sorted(times)[5] < 0.03, times
