"""`onceward up` beside a store: metrics that Prometheus reads, alerts that ring, and no store."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from onceward.client import open as open_handle
from tests.support.webhook_server import hook
from tests.system.test_up import Running, refused, up


def scraped(server: Running) -> dict[str, float]:
    answer = server.get("/metrics")
    assert answer.status_code == 200
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_a_store_is_shown_and_watched(tmp_path: Path) -> None:
    """Its cursors are at /metrics, and what is wrong with them reaches a webhook."""
    url = f"sqlite:///{tmp_path / 'work.db'}"
    with open_handle(url) as ow:
        lease = ow.cursors.acquire("leads", "w")
        assert lease is not None
        lease.checkpoint("1200")
        lease.fail()
    with hook() as server:
        (tmp_path / "rules.toml").write_text(
            f'[[alerts]]\nkind = "errors"\nthreshold = 0\nwebhook = "{server.url}"\n'
        )
        rules = str(tmp_path / "rules.toml")
        with up("--port", "0", "--json", "--store", url, "--config", rules) as console:
            assert server.arrived.wait(60)
            page = scraped(console)
            assert console.get("/metrics", headers={"host": "evil.test"}).status_code == 421
            code, _, err = console.stop()
    assert (page["onceward_up"], page["cursor_last_position leads"]) == (1, 1200)
    assert page["onceward_alerts_firing errors"] == 1
    ((_, body), *_) = server.taken
    assert (body["event"], body["cursor"], body["rule"]) == ("fired", "leads", "errors *")
    assert code == 0
    assert err == "alert fired: errors *: leads has 1 failures in a row, more than 0\nstopped\n"
    with open_handle(url) as ow:
        assert ow.cursors.show("~alerts").lease_owner is None


def test_without_a_store_our_own_is_made(tmp_path: Path) -> None:
    """The console has something to show from its first start on."""
    environment = {**os.environ, "ONCEWARD_HOME": str(tmp_path / "home")}
    environment.pop("ONCEWARD_STORE", None)
    with up("--port", "0", "--json", env=environment, cwd=tmp_path) as console:
        assert scraped(console)["onceward_up"] == 1
        assert console.stop() == (0, "", "stopped\n")
    assert (tmp_path / "home" / "onceward.db").exists()


def test_our_own_store_is_found(tmp_path: Path) -> None:
    """The file that every command takes when nothing is named."""
    open_handle(f"sqlite:///{tmp_path / 'onceward.db'}").close()
    environment = {**os.environ, "ONCEWARD_HOME": str(tmp_path)}
    environment.pop("ONCEWARD_STORE", None)
    with up("--port", "0", "--json", env=environment, cwd=tmp_path) as console:
        assert scraped(console)["onceward_up"] == 1


def test_a_store_that_is_away_does_not_stop_the_server(tmp_path: Path) -> None:
    """The page is there and says so, and the server stops as quickly as ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # Takes connections, and says nothing.
        url = f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres"
        with up("--port", "0", "--json", "--store", url, cwd=tmp_path) as console:
            page = scraped(console)
            assert page["onceward_up"] == 0
            assert not [name for name in page if name.startswith("cursor_")]
            code, out, err = console.stop()
    assert (code, out) == (0, "")
    assert "Traceback" not in err


def test_a_mistake_in_the_rules_is_reported_at_the_start(tmp_path: Path) -> None:
    """With the file, the field and the fix."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[alerts]]\nkind = "lag"\nthreshold = "5"\n')
    said = refused("--port", "0", "--config", str(rules))
    assert f"{rules}: alerts[0].threshold: must be a number" in said
    assert "fix: write a number such as threshold = 300, without quotes" in said
    assert "does not exist" in refused("--config", str(tmp_path / "nope.toml"))
    assert "sqlite:///" in refused("--store", "mysql://x")


def test_a_read_only_console_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    """It takes no lease: it evaluates no alert, runs no agent, brings nothing up to date."""
    url = f"sqlite:///{tmp_path / 'ours.db'}"
    open_handle(url).close()
    with up("--port", "0", "--json", "--store", url, "--read-only", cwd=tmp_path) as console:
        assert scraped(console)["onceward_up"] == 1
        assert console.stop()[0] == 0
    with open_handle(url) as ow:
        assert ow.cursors.list("~*") == ()


def test_a_read_only_console_makes_no_store(tmp_path: Path) -> None:
    """Where there is none it says so, and what to do."""
    url = f"sqlite:///{tmp_path / 'none.db'}"
    with up("--port", "0", "--json", "--store", url, "--read-only", cwd=tmp_path) as console:
        response = console.get("/api/cursors")
        assert response.status_code == 503
        assert "omit --read-only" in response.json()["error"]["context"]["fix"]
        assert console.stop()[0] == 0
    assert not (tmp_path / "none.db").exists()
