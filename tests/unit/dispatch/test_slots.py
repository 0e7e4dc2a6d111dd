"""Turns and slots: who starts next, who gives way, and that nobody waits for ever."""

from hypothesis import given
from hypothesis import strategies as st

from onceward.dispatch.slots import Slots


def filled(most: int, *groups: str) -> Slots:
    slots = Slots(most)
    for group in groups:
        slots.want(group)
    while slots.take():
        pass
    return slots


def test_groups_come_in_turn() -> None:
    """First come, first served; who asks twice does not lose or gain a place."""
    slots = Slots(2)
    for group in ("a", "b", "a", "c"):
        slots.want(group)
    assert slots.waiting == ["a", "b", "c"]
    assert [slots.take(), slots.take(), slots.take()] == ["a", "b", None]
    assert slots.is_crowded
    slots.free("a")
    assert slots.take() == "c"
    assert not slots.is_crowded


def test_who_has_an_agent_does_not_wait() -> None:
    """When it has ended, the group may ask again, behind the others."""
    slots = filled(1, "a")
    slots.want("a")
    assert slots.waiting == []
    slots.want("b")
    slots.free("a")
    slots.want("a")
    assert [slots.take(), slots.waiting] == ["b", ["a"]]


def test_who_waits_no_more_is_passed_over() -> None:
    """A group that was paused meanwhile takes nobody's turn."""
    slots = Slots(1)
    slots.want("a")
    slots.want("b")
    slots.forget("a")
    slots.forget("nobody")
    assert slots.take() == "b"


def test_h43_idle_agents_give_way_the_longest_idle_first() -> None:
    """As many as groups wait for a slot, each asked once; busy ones go on."""
    slots = filled(3, "a", "b", "c")
    assert slots.giving_way() == []
    slots.idle("a", 2.0)
    slots.idle("b", 1.0)
    assert slots.giving_way() == []
    slots.want("d")
    assert slots.giving_way() == ["b"]
    assert slots.giving_way() == []
    slots.want("e")
    slots.want("f")
    assert slots.giving_way() == ["a"]
    slots.idle("c", 3.0)
    slots.busy("c")
    assert slots.giving_way() == []
    slots.free("b")
    assert slots.take() == "d"


def test_nobody_gives_way_while_a_slot_is_free() -> None:
    """Who waits takes the free one."""
    slots = filled(2, "a")
    slots.idle("a", 1.0)
    slots.want("b")
    assert slots.giving_way() == []
    assert slots.take() == "b"


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from("wtibfg"), st.sampled_from("abcde")), max_size=60),
)
def test_slots_keep_their_promises(most: int, steps: list[tuple[str, str]]) -> None:
    """Never too many, never one group twice, and nobody is overtaken by who came later."""
    slots = Slots(most)
    running: set[str] = set()
    queue: list[str] = []
    for at, (verb, group) in enumerate(steps):
        if verb == "w":
            slots.want(group)
            if group not in running and group not in queue:
                queue.append(group)
        elif verb == "t":
            expected = queue.pop(0) if queue and len(running) < most else None
            assert slots.take() == expected
            running |= {expected} - {None}  # type: ignore[arg-type]
        elif verb == "i":
            slots.idle(group, float(at))
        elif verb == "b":
            slots.busy(group)
        elif verb == "f":
            slots.free(group)
            running.discard(group)
        else:
            asked = slots.giving_way()
            assert set(asked) <= running
            assert len(asked) <= max(0, len(queue) - (most - len(running)))
        assert slots.waiting == queue
        assert len(running) <= most
