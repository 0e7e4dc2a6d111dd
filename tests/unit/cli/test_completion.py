"""Completion: what a shell offers when Tab is pressed, without a noticeable wait."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="no bash; fix: apt-get install bash")
#: What bash does at Tab: the words so far, the last one perhaps empty.
PRESS = """
press() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _onceward_completion onceward
    echo "${COMPREPLY[*]}"
}
"""


def shell(home: Path, script: str, *options: str) -> list[str]:
    """Run a script as a person with this home would, and return its lines."""
    beside = str(Path(sys.executable).parent)
    environment = {"PATH": f"{beside}:{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb"}
    command = [str(BASH), *options, "-c", script]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@needs_bash
def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    """Commands, the commands of a group, and the options of a command, in a real bash."""
    tried = """
        press onceward cu
        press onceward cursors ''
        press onceward up --allow-
    """
    said = shell(tmp_path, f'eval "$(onceward --show-completion)"\n{PRESS}{tried}')
    assert said == [
        "cursors",
        "list show pause resume seek undo history",
        "--allow-external --allow-host --allow-root",
    ]


@needs_bash
def test_completion_is_installed_once_and_stays(tmp_path: Path) -> None:
    """Installing twice leaves one line beside what the person has; the next shell completes."""
    (tmp_path / ".bashrc").write_text("alias ll='ls -l'\n")
    install = "onceward --install-completion; onceward --install-completion; true"
    assert any("completion installed" in line for line in shell(tmp_path, install))
    kept = (tmp_path / ".bashrc").read_text()
    assert kept.startswith("alias ll='ls -l'\n")
    assert kept.count("onceward.sh") == 1
    (spec,) = shell(tmp_path, "complete -p onceward", "-i")
    assert spec.endswith("-F _onceward_completion onceward")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("zsh", '"cursors":"List, pause, resume and move cursors."'),
        ("fish", "cursors\tList, pause, resume and move cursors."),
    ],
)
def test_the_first_word_is_completed_without_loading_commands(kind: str, says: str) -> None:
    """The other shells get the summaries, too, and no command is imported for them."""
    asked = {"_ONCEWARD_COMPLETE": f"complete_{kind}", "_TYPER_COMPLETE_ARGS": "onceward cu"}
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "onceward"],
        env={**os.environ, **asked, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert says in ran.stdout
    ours = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    commands = {name for name in ours if name.startswith("onceward.cli.")}
    assert commands == {"onceward.cli.main", "onceward.cli.output"}
