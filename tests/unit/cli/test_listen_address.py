"""Listen address: what the options of a server are checked for."""

import pytest

from onceward.cli.listen_address import ListenAddress, check_listen_address
from onceward.errors import InvalidArgument


def checked(public_url: str) -> ListenAddress:
    return check_listen_address(
        "127.0.0.1",
        None,
        None,
        external=False,
        require_token=False,
        public_url=public_url,
        trusted_proxy=None,
    )


@pytest.mark.parametrize(
    "url",
    [
        "lab.example",
        "ftp://lab.example",
        "https://lab.example/lab",
        "https://",
        "http://[x",
        "http://[x]",
        "http://lab.example:port",
        "http://lab.example:99999",
        "http://lab.example:0",
    ],
)
def test_a_public_url_that_is_none_of_a_server_is_rejected(url: str) -> None:
    """One error for all of them, which names the option."""
    with pytest.raises(InvalidArgument, match="is not the URL of a server") as refused:
        checked(url)
    assert refused.value.context["field"] == "--public-url"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://lab.example", "lab.example"),
        ("https://lab.example:8443/", "lab.example"),
        ("http://[::1]:8080", "[::1]"),
    ],
)
def test_the_host_of_a_public_url_is_accepted(url: str, name: str) -> None:
    """Its host is one of the accepted names; a slash at its end is dropped."""
    address = checked(url)
    assert name in address.names
    assert address.public_url == url.rstrip("/")
