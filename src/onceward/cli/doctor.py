"""`onceward doctor`: whether this machine is fit to keep promises."""

from __future__ import annotations

from dataclasses import asdict

import typer

from onceward.cli.output import JsonFlag, print_json


def doctor(json_output: JsonFlag = False) -> None:
    """Check this machine: Python, SQLite, fsync, disk, permissions, clock and port.

    Example: `onceward doctor --json`
    """
    from onceward.doctor import examine_machine

    found = examine_machine()
    failed = any(check.status == "fail" for check in found)
    if json_output:
        print_json({"ok": not failed, "checks": [asdict(check) for check in found]})
    else:
        for check in found:
            print(f"{check.status:<5} {check.name:<12} {check.detail}")
            if check.fix:
                print(f"{'':<18} fix: {check.fix}")
    if failed:
        raise typer.Exit(1)
