"""Addresses of stores: what is kept for one never reaches another."""

import pytest

from onceward.stores import open_store

URLS = (
    "postgresql://alice@db/",
    "postgresql://bob@db/",
    "postgresql://bob@db/x",
    "postgresql://bob@db/x?options=-csearch_path%3Da",
    "postgresql://bob@db/x?options=-csearch_path%3Db",
    "postgresql:///?service=q",
)


def test_every_store_has_an_address_of_its_own() -> None:
    """Whatever leads a connection elsewhere is part of it."""
    assert len({open_store(url).address for url in URLS}) == len(URLS)


def test_the_environment_is_part_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that leaves the database out goes where the environment says."""
    monkeypatch.setenv("PGDATABASE", "one")
    one = open_store("postgresql://db").address
    monkeypatch.setenv("PGDATABASE", "two")
    assert open_store("postgresql://db").address != one
    assert open_store("postgresql://db/one").address == one


def test_an_address_holds_no_password() -> None:
    """It is the name of a directory, by way of a digest."""
    assert "s3cret" not in open_store("postgresql://ann:s3cret@db/x").address
