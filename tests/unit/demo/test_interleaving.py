"""The stage: acts side by side, and no event without an observation."""

from onceward.demo.interleaving import Act, Stage, StageEvent
from onceward.system import ManualClock, SeededRandomness


def staged() -> tuple[Stage, list[StageEvent]]:
    events: list[StageEvent] = []
    return Stage(events.append, clock=ManualClock(), randomness=SeededRandomness(1)), events


def test_acts_are_played_side_by_side_until_the_last_one_ends() -> None:
    """A long act does not keep a short one waiting."""
    stage, events = staged()

    def act(name: str, seconds: float) -> Act:
        yield from stage.pause(seconds)
        stage.tell(name, "ends")

    stage.run(act("long", 2.0), act("short", 1.0))
    assert [event.part for event in events] == ["short", "long"]
    assert [round(event.at) for event in events] == [1, 2]


def test_what_is_not_seen_in_time_is_reported_as_not_seen() -> None:
    """An event is never reported as happened only because it was planned."""
    stage, events = staged()

    def act() -> Act:
        yield from stage.await_event("x", "it snows", lambda: False, 1.0, is_blow=True)
        yield from stage.await_event("x", "it rains", lambda: True, 1.0)

    stage.run(act())
    assert [event.text for event in events] == ["not seen in time: it snows", "it rains"]
    assert not events[0].is_blow


def test_chance_stays_within_its_limits() -> None:
    """A choice is one of those there are, a number lies between its ends."""
    stage, _ = staged()
    assert {stage.one_of("abc") for _ in range(100)} == set("abc")
    assert all(2.0 <= stage.between(2.0, 3.0) < 3.0 for _ in range(100))
