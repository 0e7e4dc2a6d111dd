"""The world of a demo: everything of it lies in its home."""

from pathlib import Path

from onceward.demo import DemoWorld
from onceward.demo.demo_home import prepare, store_in
from onceward.lab.lab_paths import LabPaths
from onceward.workers.alert_rules import read_rules


def test_every_command_finds_the_lab_of_the_world_by_its_environment() -> None:
    """The variables are spelled out there, and they are those that the Lab reads."""
    home = Path("/somewhere/home")
    world = DemoWorld(home=home, store_url=store_in(home))
    paths = LabPaths.from_environment(world.environment)
    assert (paths.root, paths.feedback) == (world.lab_root, world.feedback)
    assert world.environment["ONCEWARD_STORE"] == "sqlite:////somewhere/home/onceward.db"


def test_rules_of_alerts_are_right_and_do_not_mind_takeovers(tmp_path: Path) -> None:
    """Every worker of the story reads them; an alert is for what a person can mend."""
    world = DemoWorld(home=tmp_path / "home", store_url="sqlite:////elsewhere.db")
    prepare(world)
    rules = read_rules(str(world.home / "onceward.toml"))
    assert {rule.kind for rule in rules} == {"lag", "errors", "dead"}


def test_nothing_of_a_world_lies_outside_its_home() -> None:
    """Removing the home removes everything."""
    world = DemoWorld(home=Path("/somewhere/home"), store_url="sqlite:////elsewhere.db")
    places = (world.lab_root, world.feedback, world.made, world.workspace, world.logs, world.kills)
    assert all(each.is_relative_to(world.home) for each in (*places, world.attempts, world.ready))
