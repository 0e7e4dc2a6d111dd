"""What an order costs."""

from prices import total


def test_an_empty_order_costs_nothing() -> None:
    """There is nothing to ship."""
    assert total([]) == 0


def test_a_small_order_pays_for_shipping() -> None:
    """Shipping comes on top."""
    assert total([1000, 500]) == 1990


def test_shipping_is_free_from_fifty_on() -> None:
    """Fifty itself is enough."""
    assert total([2000, 3000]) == 5000
