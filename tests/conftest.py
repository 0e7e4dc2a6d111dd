"""Shared by all tests: how much of a long proof to run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--prove", action="store_true", help="run long proofs at full length")


@pytest.fixture(scope="session")
def prove(pytestconfig: pytest.Config) -> bool:
    """Whether long proofs run at full length."""
    return bool(pytestconfig.getoption("--prove"))
