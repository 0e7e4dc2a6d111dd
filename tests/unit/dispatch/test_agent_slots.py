"""Slots: which group starts next, which gives way, and that no group waits for ever."""

from hypothesis import given
from hypothesis import strategies as st

from onceward.dispatch.agent_slots import AgentSlots


def filled(most: int, *groups: str) -> AgentSlots:
    slots = AgentSlots(most)
    for group in groups:
        slots.enqueue(group)
    while slots.start_next():
        pass
    return slots


def test_groups_come_in_turn() -> None:
    """First come, first served; who asks twice does not lose or gain a place."""
    slots = AgentSlots(2)
    for group in ("a", "b", "a", "c"):
        slots.enqueue(group)
    assert slots.waiting == ["a", "b", "c"]
    assert [slots.start_next(), slots.start_next(), slots.start_next()] == ["a", "b", None]
    assert slots.is_crowded
    slots.release("a")
    assert slots.start_next() == "c"
    assert not slots.is_crowded


def test_a_group_that_has_an_agent_does_not_wait() -> None:
    """When the agent has ended, the group may ask again, after the others."""
    slots = filled(1, "a")
    slots.enqueue("a")
    assert slots.waiting == []
    slots.enqueue("b")
    slots.release("a")
    slots.enqueue("a")
    assert [slots.start_next(), slots.waiting] == ["b", ["a"]]


def test_a_group_that_left_the_queue_is_passed_over() -> None:
    """A group that was paused meanwhile takes no slot."""
    slots = AgentSlots(1)
    slots.enqueue("a")
    slots.enqueue("b")
    slots.dequeue("a")
    slots.dequeue("unknown")
    assert slots.start_next() == "b"


def test_h43_idle_agents_give_way_the_longest_idle_first() -> None:
    """As many as groups wait for a slot, each asked once; busy ones go on."""
    slots = filled(3, "a", "b", "c")
    assert slots.take_agents_to_close() == []
    slots.mark_idle("a", 2.0)
    slots.mark_idle("b", 1.0)
    assert slots.take_agents_to_close() == []
    slots.enqueue("d")
    assert slots.take_agents_to_close() == ["b"]
    assert slots.take_agents_to_close() == []
    slots.enqueue("e")
    slots.enqueue("f")
    assert slots.take_agents_to_close() == ["a"]
    slots.mark_idle("c", 3.0)
    slots.mark_busy("c")
    assert slots.take_agents_to_close() == []
    slots.release("b")
    assert slots.start_next() == "d"


def test_no_agent_gives_way_while_a_slot_is_free() -> None:
    """The waiting group takes the free one."""
    slots = filled(2, "a")
    slots.mark_idle("a", 1.0)
    slots.enqueue("b")
    assert slots.take_agents_to_close() == []
    assert slots.start_next() == "b"


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from("wtibfg"), st.sampled_from("abcde")), max_size=60),
)
def test_slots_keep_their_promises(most: int, steps: list[tuple[str, str]]) -> None:
    """Never too many, never one group twice, and no group is overtaken by a later one."""
    slots = AgentSlots(most)
    running: set[str] = set()
    queue: list[str] = []
    for at, (verb, group) in enumerate(steps):
        if verb == "w":
            slots.enqueue(group)
            if group not in running and group not in queue:
                queue.append(group)
        elif verb == "t":
            expected = queue.pop(0) if queue and len(running) < most else None
            assert slots.start_next() == expected
            running |= {expected} - {None}  # type: ignore[arg-type]
        elif verb == "i":
            slots.mark_idle(group, float(at))
        elif verb == "b":
            slots.mark_busy(group)
        elif verb == "f":
            slots.release(group)
            running.discard(group)
        else:
            asked = slots.take_agents_to_close()
            assert set(asked) <= running
            assert len(asked) <= max(0, len(queue) - (most - len(running)))
        assert slots.waiting == queue
        assert len(running) <= most
