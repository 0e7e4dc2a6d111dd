"""Prices: what an order costs, in cents."""

FREE_SHIPPING_FROM = 5000
SHIPPING = 490


def total(items: list[int]) -> int:
    """Return the sum of the items, with shipping unless that is free."""
    subtotal = sum(items)
    if not items:
        return 0
    return subtotal + SHIPPING if subtotal <= FREE_SHIPPING_FROM else subtotal
