"""Namespaces: commands that run elsewhere on this machine, as containers and other users do.

Each is a prefix to a command line. Where the machine does not allow them, `problem` says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

#: What another user may read and write in spite of its uid: the tests' own directories, nothing of
#: other processes.
_CAPABILITIES = "+dac_override,+dac_read_search"

#: Belongs to no user of the machine, and is not the overflow uid.
SECOND_UID = 54321


def pid_namespace(*, first_pid: int = 50) -> tuple[str, ...]:
    """Run in a new pid namespace with a /proc of its own, under a pid not below this one."""
    script = f'n=0; while [ $n -lt {first_pid} ]; do (:); n=$((n+1)); done; "$@"; exit $?'
    return (*_unshare(), "--pid", "--mount-proc", "sh", "-c", script, "sh")


def pid_namespace_without_proc() -> tuple[str, ...]:
    """Run in a new pid namespace that still sees the /proc of the old one."""
    return (*_unshare(), "--pid")


def another_boot(boot_id: str = "5f2b11d2-5d0e-4c53-9c6a-1b2d7c3f9a10") -> tuple[str, ...]:
    """Run in a new pid namespace of what says that it is another boot."""
    file = "/proc/sys/kernel/random/boot_id"
    script = (
        f"t=$(mktemp) && echo {boot_id} > $t && mount --bind $t {file} && rm $t && "
        f'n=0; while [ $n -lt 50 ]; do (:); n=$((n+1)); done; "$@"; exit $?'
    )
    return (*_unshare(), "--pid", "--mount-proc", "sh", "-c", script, "sh")


def hidepid() -> tuple[str, ...]:
    """Run as another user to whom /proc shows only its own processes."""
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    may = (f"--inh-caps={_CAPABILITIES}", f"--ambient-caps={_CAPABILITIES}")
    script = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    return (*_unshare(), "--mount", "sh", "-c", script, "sh", *user, *may)


def _unshare() -> tuple[str, ...]:
    as_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *as_user, "--fork", "--kill-child")


@cache
def problem() -> str | None:
    """Return why commands cannot be run elsewhere on this machine; None if they can."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return "no unshare or setpriv; fix: apt-get install util-linux"
    for prefix in (pid_namespace(first_pid=1), another_boot(), hidepid()):
        done = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
            return f"{why}; fix: run as root, in a container with --privileged"
    return None
