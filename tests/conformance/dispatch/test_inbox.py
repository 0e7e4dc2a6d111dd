"""Messages as they come in: each once, whatever their times say, and unchanged."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from onceward.client import Onceward
from onceward.cursors import DualCursor
from onceward.cursors.dual_models import Arrival
from onceward.dispatch import inbox
from onceward.dispatch.models import GroupMessage, NewMessage, Reply, TriggerKind
from onceward.errors import GroupMissing, InvalidArgument
from onceward.stores import Transaction
from onceward.testing.moving_time import MovingTime
from tests.support.dispatcher_parts import TEXTS, Talk, ids

NOON = "2026-02-06T12:00:00Z"


@pytest.fixture
def talk(ow: Onceward) -> Talk:
    found = Talk(ow)
    found.group()
    return found


# --- each once -----------------------------------------------------------------------------------


def test_a_message_that_comes_again_is_known(talk: Talk) -> None:
    """Redeliveries, with or without their time, change nothing and are not handed out again."""
    first = talk.receive("hello", id_="1", at=NOON)
    assert first.fate == "new"
    for at in (NOON, None):
        again = talk.receive("hello", id_="1", at=at)
        assert (again.fate, again.seq) == ("known", first.seq)
    talk.arrivals.see()
    talk.done(talk.begun())
    assert talk.receive("hello", id_="1", at=NOON).fate == "known"
    assert talk.arrivals.see() == []
    assert talk.begin() is None
    (shown,) = talk.items()
    assert isinstance(shown, GroupMessage)
    assert (shown.id, shown.text, shown.timestamp, shown.edited_at) == ("1", "hello", NOON, None)


def test_the_same_id_elsewhere_is_another_message(talk: Talk) -> None:
    """An id is the channel's own, and counts within its group and channel."""
    talk.group("other")
    assert talk.receive("here", id_="1").fate == "new"
    assert talk.receive("there", id_="1", group="other").fate == "new"
    talk.groups.set("team", channel="elsewhere")
    assert talk.receive("here", id_="1").fate == "new"


def test_many_deliveries_of_one_message_at_once_are_one(talk: Talk) -> None:
    """The first one adds it; all get the same number."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: talk.receive("hello", id_="1"), range(24)))
    assert sorted(each.fate for each in found) == ["known"] * 23 + ["new"]
    assert len({each.seq for each in found}) == 1
    talk.arrivals.see()
    assert ids(talk.begin()) == ["1"]


def test_two_deliveries_of_one_message_that_meet_are_one(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks while the other writes, and looks again after it: nothing was edited."""
    writing, looked = threading.Event(), threading.Event()
    draw = DualCursor.next_sequence

    def next_sequence(dual: DualCursor, tx: Transaction, group: str | None = None) -> Arrival:
        if writing.is_set():
            looked.set()  # It saw nothing, and waits for the writer.
            return draw(dual, tx, group)
        drawn = draw(dual, tx, group)
        writing.set()
        assert looked.wait(60)
        return drawn

    monkeypatch.setattr(DualCursor, "next_sequence", next_sequence)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(talk.receive, "hello", id_="1")
        assert writing.wait(60)
        second = pool.submit(talk.receive, "hello", id_="1")
        assert (first.result().fate, second.result().fate) == ("new", "known")
    assert first.result().seq == second.result().seq


def test_an_edit_keeps_its_place_and_is_shown_again(talk: Talk, ow_time: MovingTime) -> None:
    """It is the same message with another text, and followers of the conversation are notified."""
    before = talk.hear("hullo", "next")[0]
    _, place = talk.arrivals.conversation("team", 0)
    ow_time.advance(seconds=1)
    edited = talk.receive("hello", id_="hullo")
    assert (edited.fate, edited.seq) == ("edited", before)
    (news,), _ = talk.arrivals.conversation("team", place)
    assert isinstance(news, GroupMessage)
    assert (news.id, news.text, news.seq) == ("hullo", "hello", before)
    assert news.changed_seq > news.seq
    assert news.edited_at is not None
    assert news.edited_at > news.received_at
    assert [each.text for each in talk.begun().messages] == ["hello", "next"]


def test_an_edit_of_what_was_handed_out_hands_nothing_out(talk: Talk) -> None:
    """The agent has read it; people see the new text."""
    talk.hear("hello")
    talk.done(talk.begun())
    assert talk.receive("goodbye", id_="hello").fate == "edited"
    assert talk.arrivals.see() == []
    assert talk.begin() is None
    assert talk.pending() == 0


def test_an_edit_while_an_agent_works_is_what_the_next_attempt_reads(talk: Talk) -> None:
    """What failed is handed out again as it reads now."""
    talk.hear("one")
    delivery = talk.begun()
    talk.receive("two", id_="one")
    talk.failed(delivery)
    assert [each.text for each in talk.begun().messages] == ["two"]


def test_an_edit_can_call_the_agent(talk: Talk) -> None:
    """A person who forgot the word adds it, and all that waits is handed out."""
    talk.group("quiet", trigger=TriggerKind.PREFIX, word="@bot")
    talk.hear("good morning", "help me", group="quiet")
    assert talk.begin("quiet") is None
    talk.receive("@bot help me", id_="help me", group="quiet")
    talk.arrivals.see()
    assert [each.text for each in talk.begun("quiet").messages] == ["good morning", "@bot help me"]


# --- times ---------------------------------------------------------------------------------------


def test_h07_equal_timestamps_are_never_lost(talk: Talk) -> None:
    """Four messages of one moment, whatever polls and runs lie between: each is handed out once."""
    for place, cuts in enumerate(itertools.product([False, True], repeat=3)):
        name = talk.group(f"group-{place}").name
        handed: list[str] = []
        for number, cut in enumerate([*cuts, True]):
            talk.receive(f"m{number}", group=name, at=NOON)
            if cut:
                talk.arrivals.see()
                delivery = talk.begun(name)
                handed += ids(delivery)
                talk.done(delivery)
        assert handed == ["m0", "m1", "m2", "m3"], cuts
        assert talk.pending(name) == 0


def test_h08_late_and_out_of_order_arrivals_are_delivered(talk: Talk) -> None:
    """A message that is older than all that was processed, by hours or years, still comes."""
    handed: list[str] = []
    times = [NOON, "2026-02-06T11:59:59Z", "1999-12-31T23:59:59Z", "2026-02-06T12:00:01Z", None]
    for number, at in enumerate(times):
        talk.receive(f"m{number}", at=at)
        talk.arrivals.see()
        delivery = talk.begun()
        handed += ids(delivery)
        talk.done(delivery)
    assert handed == ["m0", "m1", "m2", "m3", "m4"]


def test_a_message_that_commits_late_is_not_jumped_over(talk: Talk, ow: Onceward) -> None:
    """The first to draw a number commits first, so no reader moves past a number still to come."""
    numbers: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        with ow.transaction():
            numbers.append(talk.receive("slow").seq)
            other = pool.submit(lambda: talk.receive("fast").seq)
            # It cannot commit before us; what it may have done so far is not visible.
            assert talk.arrivals.see() in ([], ["team"])
        numbers.append(other.result(60))
    assert numbers[0] < numbers[1]
    talk.arrivals.see()
    assert ids(talk.begin()) == ["slow", "fast"]


#: Pairs of moments, the earlier one first.
MOMENTS = [
    ("2026-02-06T12:00:00Z", "2026-02-06T12:00:00.001Z"),
    ("2026-02-06T12:00:00.9Z", "2026-02-06T12:00:00.91Z"),
    ("2026-02-06T12:00:00.999999Z", "2026-02-06T12:00:01Z"),
    ("2026-02-06T14:00:00+05:30", "2026-02-06T12:00:00Z"),
    ("2026-02-06T13:00:00+01:00", "2026-02-06T12:00:00.5"),
    ("2026-02-06T11:59", "2026-02-06 12:00:00"),
]


def test_times_order_the_text_of_a_batch(talk: Talk) -> None:
    """Whatever their precision and zone, what was said first is read first."""
    for number, (earlier, later) in enumerate(MOMENTS):
        talk.receive(f"second {number}", at=later)
        talk.receive(f"first {number}", at=earlier)
        talk.arrivals.see()
        delivery = talk.begun()
        assert ids(delivery) == [f"first {number}", f"second {number}"]
        # What is handed out is decided by arrival alone.
        assert delivery.batch.position == max(each.seq for each in delivery.messages)
        talk.done(delivery)


def test_follow_ups_are_ordered_as_a_first_batch_is(talk: Talk) -> None:
    """Also what is handed to an agent at work reads as it was said."""
    talk.hear("call")
    delivery = talk.begun()
    talk.receive("second", at="2026-02-06T12:00:01Z")
    talk.receive("first", at=NOON)
    talk.arrivals.see()
    assert ids(talk.extended(delivery)) == ["first", "second"]


def test_an_invalid_time_is_harmless(talk: Talk) -> None:
    """It is kept as it came, and the message is handed out."""
    odd = ["yesterday", "1738843200", "99999-01-01", "0001-01-01T00:00:00+23:59", "12:00"]
    for at in (*odd, NOON):
        talk.receive(f"at {at}", at=at)
    talk.arrivals.see()
    delivery = talk.begun()
    assert {each.timestamp for each in delivery.messages} == {*odd, NOON}


# --- texts ---------------------------------------------------------------------------------------


def test_h45_a_text_arrives_unchanged(talk: Talk) -> None:
    """The agent's own name, wildcards, markup, a NUL: kept, handed out and shown as typed."""
    place = 0
    for name, text in TEXTS.items():
        talk.receive(text, id_=name)
        assert talk.receive(text, id_=name).fate == "known", name
        talk.arrivals.see()
        delivery = talk.begun()
        assert [each.text for each in delivery.messages] == [text], name
        talk.say(delivery, text, is_stored=True)
        talk.done(delivery)
        (said, answered), place = talk.arrivals.conversation("team", place)
        assert said.text == answered.text == text, name


def test_ids_and_senders_may_be_any_printable_text(talk: Talk) -> None:
    """They are compared as they are: no wildcard, no folding of cases."""
    names = ["a%", "a_", "A%", "ä", "a\u0308", "👩", "'\"", "a%b"]
    for name in names:
        message = NewMessage(group="team", id=name, sender=name, text="x")
        assert talk.arrivals.receive(message).fate == "new"
    talk.arrivals.see()
    delivery = talk.begun()
    assert [(each.id, each.sender) for each in delivery.messages] == [(n, n) for n in names]


REFUSED = [
    ("id", ""),
    ("id", "x" * 201),
    ("id", "a\0b"),
    ("id", "a\nb"),
    ("sender", ""),
    ("sender", "\x1b[31m"),
    ("timestamp", "x" * 65),
    ("timestamp", "a\0"),
    ("text", ""),
    ("text", "x" * (128 * 1024 + 1)),
    ("text", "ü" * (64 * 1024 + 1)),
    ("text", "half \ud800 a pair"),
]


def test_what_is_no_message_is_refused_by_its_field(talk: Talk) -> None:
    """The error names the field, and nothing is kept."""
    for field, value in REFUSED:
        given = {"group": "team", "id": "m", "sender": "ann", "text": "hello", field: value}
        with pytest.raises(InvalidArgument) as caught:
            talk.arrivals.receive(NewMessage(**given))
        assert caught.value.context["field"] == field
    assert talk.arrivals.see() == []
    assert talk.items() == []


def test_a_message_for_an_unknown_group_is_refused(talk: Talk) -> None:
    """A group that is not there has no messages."""
    with pytest.raises(GroupMissing):
        talk.receive("hello", group="unknown")


# --- seeing and reading --------------------------------------------------------------------------


def test_seeing_moves_the_read_cursor_at_once(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns each group that something came for, and nothing the second time."""
    monkeypatch.setattr(inbox, "SEEN_MAX", 3)
    talk.group("other")
    for number in range(7):
        talk.receive(f"m{number}", group="other" if number == 4 else "team")
    assert talk.arrivals.see() == ["team", "other"]
    assert talk.arrivals.see() == []
    arrived, read = talk.operators.positions()
    assert arrived == read == 7


def test_what_was_not_seen_is_not_handed_out(talk: Talk) -> None:
    """The processed cursor never passes the read cursor."""
    talk.receive("hello")
    assert talk.begin() is None
    talk.arrivals.see()
    assert ids(talk.begin()) == ["hello"]


def test_a_conversation_is_read_in_pages_of_any_size(talk: Talk) -> None:
    """Messages and replies come in one order, each once, and the place goes on from there."""
    expected: list[str] = []
    for number in range(4):
        talk.hear(f"m{number}")
        delivery = talk.begun()
        for word in range(number % 3):
            talk.say(delivery, f"r{number}.{word}", is_stored=True)
        talk.done(delivery)
        expected += [f"m{number}", *(f"r{number}.{word}" for word in range(number % 3))]
    talk.group("other")
    talk.hear("elsewhere", group="other")
    for limit in (1, 2, 3, 4, 100):
        found, place = read_all(talk, limit)
        assert found == expected, limit
    talk.hear("last")
    (last,), _ = talk.arrivals.conversation("team", place)
    assert last.text == "last"


def read_all(talk: Talk, limit: int) -> tuple[list[str], int]:
    found: list[str] = []
    place = 0
    while True:
        items, following = talk.arrivals.conversation("team", place, limit)
        assert len(items) <= limit
        found += [each.text for each in items]
        if not items:
            return found, place
        assert following > place
        place = following


def test_a_reader_of_a_busy_conversation_misses_nothing(talk: Talk) -> None:
    """While people and agents talk from many threads, who reads from place to place sees all."""
    talk.hear("start")
    delivery = talk.begun()
    seen: list[str] = ["start"]
    place = talk.arrivals.conversation("team", 0)[1]

    def speak(number: int) -> None:
        if number % 3:
            talk.receive(f"m{number}")
        else:
            talk.say(delivery, f"r{number}", key=f"k{number}", is_stored=True)

    with ThreadPoolExecutor(6) as pool:
        speaking = [pool.submit(speak, number) for number in range(60)]
        while True:
            is_over = all(each.done() for each in speaking)
            items, place = talk.arrivals.conversation("team", place, 7)
            seen += [each.text for each in items]
            if is_over and not items:
                break
    for each in speaking:
        each.result()
    assert len(seen) == len(set(seen)) == 61
    kinds = {type(each) for each in talk.items()}
    assert kinds == {GroupMessage, Reply}
