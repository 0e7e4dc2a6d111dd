"""A hostile page: what another site tries in a visitor's browser reads and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.support.browser.hostile_site import ALL, site
from tests.support.lab_material import pair
from tests.support.lab_servers import LabServer

#: What even a server that lets everybody in does not tell: these hide their answer, or have none.
MUTE = {"read opaque", "post opaque", "beacon", "form", "frame"}
HOSTS = ["127.0.0.1", "localhost", "evil.test"]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    with site() as port:
        yield port


@pytest.fixture
def stranger(context: BrowserContext) -> Page:
    """A page that may misbehave as it likes."""
    return context.new_page()


def files(lab: LabServer) -> dict[Path, bytes]:
    """Return all that the Lab has on disk."""
    return {path: path.read_bytes() for path in sorted(lab.directory.rglob("*")) if path.is_file()}


def test_the_attempts_work_where_they_may(stranger: Page, elsewhere: int) -> None:
    """On a server that lets everybody in, every attempt that can read something does."""
    with site() as other:
        stranger.goto(f"http://127.0.0.1:{elsewhere}/")
        said = stranger.evaluate(ALL, f"http://127.0.0.1:{other}")
    assert {name for name, read in said.items() if "1" not in read and "loaded" not in read} <= MUTE
    assert len(said) > len(MUTE)


@pytest.mark.parametrize("host", HOSTS)
def test_another_site_reads_and_changes_nothing(
    stranger: Page, lab: LabServer, elsewhere: int, host: str
) -> None:
    """Forms, fetches, events, images, scripts and frames of another site come back empty."""
    pair(lab)
    before = files(lab)
    stranger.goto(f"http://{host}:{elsewhere}/")
    said = stranger.evaluate(ALL, lab.url)
    assert {name: read for name, read in said.items() if read not in ("", "opaque ")} == {}
    assert files(lab) == before


def test_a_form_that_takes_the_visitor_along_changes_nothing(
    stranger: Page, lab: LabServer, elsewhere: int
) -> None:
    """A form that navigates to the Lab is refused as well."""
    before = files(lab)
    stranger.goto(f"http://127.0.0.1:{elsewhere}/")
    with stranger.expect_navigation() as left:
        stranger.evaluate(
            """(action) => {
              const form = Object.assign(document.createElement("form"),
                { method: "post", enctype: "text/plain", action });
              form.append(Object.assign(document.createElement("input"),
                { name: '{"notes":"planted","tags":["', value: '"]}' }));
              document.body.append(form);
              form.submit();
            }""",
            f"{lab.url}/api/feedback",
        )
    assert left.value is not None
    assert left.value.status == 403
    assert files(lab) == before


def test_a_name_that_was_rebound_reads_and_changes_nothing(stranger: Page, lab: LabServer) -> None:
    """A site whose name now leads to the Lab has the Lab's origin, and still gets nothing."""
    before, port = files(lab), lab.url.rpartition(":")[2]
    answer = stranger.goto(f"http://evil.test:{port}/lab")
    assert answer is not None
    assert answer.status == 421
    said = stranger.evaluate(
        """async () => {
          const asked = [
            fetch("/api/config"),
            fetch("/assets/icon.svg"),
            fetch("/api/feedback", { method: "POST", body: '{"notes": "planted"}',
              headers: { "content-type": "application/json" } }),
          ];
          const answers = await Promise.all(asked);
          return Promise.all(answers.map(async (each) => [each.status, await each.text()]));
        }"""
    )
    assert [status for status, _ in said] == [421] * 3
    secrets = (lab.token, lab.session_id, str(lab.directory))
    assert not [text for _, text in said if any(secret in text for secret in secrets)]
    assert files(lab) == before


def test_h65_a_name_that_was_rebound_does_not_end_ownership(
    stranger: Page, mortal: LabServer
) -> None:
    """Over plain HTTP a browser marks such a request neither with Origin nor with Sec-Fetch."""
    port = mortal.url.rpartition(":")[2]
    stranger.goto(f"http://evil.test:{port}/lab")
    status = stranger.evaluate(
        """async () => {
          const headers = { "x-forwarded-for": "192.0.2.60", "accept-language": "" };
          return (await fetch("/api/config", { headers })).status;
        }"""
    )
    assert status == 421
    assert mortal.get("/api/config").status_code == 200


def test_a_link_from_another_site_opens_the_page(
    stranger: Page, lab: LabServer, elsewhere: int
) -> None:
    """Another site may link to the Lab; the link opens the Lab's own page, without an opener."""
    stranger.goto(f"http://127.0.0.1:{elsewhere}/")
    stranger.evaluate("(url) => { location.href = url; }", f"{lab.url}/lab")
    stranger.get_by_role("heading", name="Experiment Lab").wait_for()
    assert stranger.evaluate("window.opener") is None
