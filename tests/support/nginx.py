"""A real nginx that forwards to a server under test, as the user who runs the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from onceward.testing import postgres
from tests.support.waiting import until

#: Debian installs it where only root looks for programs.
PROGRAM: Final = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
START_SECONDS_MAX: Final = 120.0


@contextmanager
def proxy(url: str, *directives: str) -> Iterator[str]:
    """Forward to `url`, with these directives beside `proxy_pass`; gives the proxy's address."""
    assert PROGRAM is not None
    port = postgres._free_port()
    lines = "".join(f"{each}; " for each in directives)
    user = "user root;" if os.geteuid() == 0 else ""
    with tempfile.TemporaryDirectory(prefix="onceward-nginx-") as directory:
        settings = Path(directory) / "nginx.conf"
        settings.write_text(
            f"""{user} daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events {{}}
http {{
  access_log access.log;
  client_body_temp_path body; proxy_temp_path proxied; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {url}; {lines} }}
  }}
}}
"""
        )
        command = [PROGRAM, "-p", directory, "-c", str(settings), "-e", "stderr"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            try:
                _wait_for(port, process)
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
                process.communicate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert process.poll() is None, process.communicate()
            return False
        return True

    until(answers, "nginx did not start")
