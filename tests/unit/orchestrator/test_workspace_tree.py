"""Tree: states of a workspace, and how two of them differ."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import SystemClock, SystemFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "w"
    (place / "src").mkdir(parents=True)
    (place / "src" / "a.txt").write_text("a")
    (place / "b.txt").write_text("b")
    return place


def tree_of(root: Path) -> WorkspaceTree:
    return WorkspaceTree(Workspace(root=root), files=SystemFiles(), clock=SystemClock())


def test_a_state_is_named_by_what_is_there(root: Path) -> None:
    """The same files have the same name, whenever one looks, and whatever we keep beside them."""
    tree = tree_of(root)
    before = tree.now()
    (root / "state").mkdir(exist_ok=True)
    (root / "state" / "run.json").write_text("{}")
    (root / "logs").mkdir()
    os.utime(root / "b.txt", ns=(1, 1))
    assert tree.now() == tree_of(root).now() == before
    (root / "b.txt").write_text("c")
    assert tree.now() != before


def test_changes_are_named_by_path_and_kind(root: Path) -> None:
    """Added, changed, removed, sorted by path; the same state has none."""
    tree = tree_of(root)
    before = tree.now()
    (root / "b.txt").write_text("bb")
    (root / "c.txt").write_text("c")
    (root / "src" / "a.txt").unlink()
    after = tree.now()
    found = tree.changes(before, after)
    assert [(each.how, each.path) for each in found or []] == [
        ("changed", "b.txt"),
        ("added", "c.txt"),
        ("removed", "src/a.txt"),
    ]
    assert tree.changes(after, after) == []


@pytest.mark.parametrize("content", [None, b"{}", b"not json"])
def test_without_a_valid_manifest_changes_are_unknown(content: bytes | None, root: Path) -> None:
    """Not that there are none."""
    tree = tree_of(root)
    before = tree.now()
    (root / "b.txt").write_text("bb")
    after = tree.now()
    path = Workspace(root=root).manifest(before)
    path.unlink() if content is None else path.write_bytes(content)
    assert tree.changes(before, after) is None


def test_known_digests_outlive_the_process_and_may_be_lost(root: Path) -> None:
    """What was kept is used, and damage to it changes nothing."""
    tree = tree_of(root)
    before = tree.now()
    tree.save()
    kept = Workspace(root=root).digests()
    assert tree_of(root).now() == before
    kept.write_bytes(b"broken")
    assert tree_of(root).now() == before
    tree_of(root).save()  # Nothing was looked at, so nothing is known, and nothing is lost.
    assert kept.read_bytes() == b"broken"
