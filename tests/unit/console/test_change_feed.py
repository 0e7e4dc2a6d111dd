"""The numbered events of the console: resumed without gaps, or with a reset for a gap."""

from functools import partial

from onceward.console.change_feed import ALL_SECONDS, KEPT_MAX, ChangeFeed
from onceward.errors import StoreUnavailable
from onceward.system import ManualClock


def feed_of(values: dict[str, object], first: int = 1) -> ChangeFeed:
    looks = {area: (lambda area=area: values[area]) for area in values}
    return ChangeFeed(looks, first=first, clock=ManualClock())


def test_a_change_is_announced_once_with_its_areas() -> None:
    """What changed between two looks is one event; what did not is none."""
    values: dict[str, object] = {"cursors": 1, "dead": 1}
    feed = feed_of(values)
    feed.check()
    assert feed.since(0) == ((), 0, False)
    values["dead"] = 2
    feed.check()
    feed.check()
    (event,) = feed.since(0).events
    assert (event.number, event.areas) == (1, ("dead",))


def test_a_page_that_resumes_gets_what_it_missed_and_nothing_twice() -> None:
    """A page gets every event after its number, in order."""
    feed = feed_of({"dead": 1})
    for _ in range(5):
        feed.announce(["dead"])
    assert [each.number for each in feed.since(2).events] == [3, 4, 5]
    assert feed.since(5) == ((), 5, False)


def test_a_page_that_was_away_for_too_long_has_to_reload_everything() -> None:
    """Events that are not kept any more are not passed over in silence."""
    feed = feed_of({"dead": 1})
    for _ in range(KEPT_MAX + 2):
        feed.announce(["dead"])
    assert feed.since(1).is_reset
    assert not feed.since(2).is_reset


def test_numbers_of_another_server_are_not_taken_for_ours() -> None:
    """A page that comes back after a restart has to reload everything."""
    feed = feed_of({"dead": 1}, first=1_000)
    assert feed.since(7).is_reset
    assert feed.since(5_000).is_reset
    assert feed.since(None) == ((), 999, False)


def test_a_store_that_goes_away_is_news_and_no_failure() -> None:
    """An area that cannot be looked at any more has changed, once."""
    state = {"is_away": False}

    def look() -> object:
        if state["is_away"]:
            raise StoreUnavailable
        return 1

    feed = ChangeFeed({"cursors": look}, clock=ManualClock())
    feed.check()
    state["is_away"] = True
    feed.check()
    feed.check()
    assert len(feed.since(0).events) == 1


def test_a_store_that_is_away_is_asked_once_a_look() -> None:
    """Each question waits for seconds, and one answer is enough for all areas."""
    asked: list[str] = []

    def look(area: str) -> object:
        asked.append(area)
        raise StoreUnavailable

    clock = ManualClock()
    areas = ("runs", "cursors", "dead")
    feed = ChangeFeed({area: partial(look, area) for area in areas}, clock=clock)
    feed.check()
    assert asked == ["runs"]


def test_data_is_as_old_as_the_last_good_look() -> None:
    """While the store is away a page can see its data grow old."""
    clock, state = ManualClock(), {"is_away": False}

    def look() -> object:
        if state["is_away"]:
            raise StoreUnavailable
        return 1

    feed = ChangeFeed({"cursors": look}, clock=clock)
    feed.check()
    state["is_away"] = True
    feed.check()
    before = feed.as_of
    clock.advance(seconds=10)
    feed.check()
    assert feed.as_of == before
    state["is_away"] = False
    feed.check()
    assert feed.as_of > before


def test_changes_that_no_look_can_see_are_announced_after_a_while() -> None:
    """No page is older than that, even after changes that the detectors do not see."""
    clock = ManualClock()
    feed = ChangeFeed({"cursors": lambda: 1, "dead": lambda: 1}, clock=clock)
    feed.check()
    clock.advance(seconds=ALL_SECONDS)
    feed.check()
    feed.check()
    assert [each.areas for each in feed.since(0).events] == [("cursors", "dead")]
