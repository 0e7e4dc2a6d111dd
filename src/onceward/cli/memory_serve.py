"""`onceward memory serve`: the MCP server of the memory, over stdio or HTTP."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.http_server import serve as serve_app
from onceward.cli.listen_address import (
    AllowExternal,
    AllowHost,
    Host,
    ListenAddress,
    Port,
    PublicUrl,
    RequireToken,
    ServerJson,
    TrustedProxy,
    check_listen_address,
    listen,
)
from onceward.cli.memory_import_hint import offer_import
from onceward.cli.memory_loader import buffer_of
from onceward.cli.stop_signals import until_stopped
from onceward.cli.store_option import StoreUrl
from onceward.errors import InvalidArgument
from onceward.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

    from onceward.memory import Validation
    from onceward.memory.mcp.mcp_server import MemoryServer

#: A token for this server only. Default: the token of all servers of this user.
TOKEN_VARIABLE: Final = "ONCEWARD_MEMORY_TOKEN"  # noqa: S105 - the name of a variable
#: A shorter token could be guessed.
TOKEN_CHARACTERS_MIN: Final = 16

_Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Validate every write against the memory's policy. "
        "Default: only writes that use its prefixes, types, relations or envelopes. "
        "Not with --lenient.",
    ),
]
_Lenient = Annotated[
    bool,
    typer.Option("--lenient", help="Validate no write against the policy. Not with --strict."),
]
_ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer only read-only tools.")]
_NoDelete = Annotated[bool, typer.Option("--no-delete", help="Offer no tools that delete.")]
_Http = Annotated[
    bool,
    typer.Option("--http", help="Serve clients over HTTP at /mcp. Default: one client over stdio."),
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Log every call to stderr. Default: warnings and errors.")
]

_Timeout = Annotated[float, typer.Option(help="Timeout of a call in seconds.", min=0.1, max=3600)]
#: A common option of all servers.
_NoPage = Annotated[
    bool | None,
    typer.Option("--open/--no-open", help="Has no effect: this server has no page."),
]


def serve(
    store: StoreUrl = None,
    strict: _Strict = False,
    lenient: _Lenient = False,
    read_only: _ReadOnly = False,
    no_delete: _NoDelete = False,
    http: _Http = False,
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    require_token: RequireToken = False,
    public_url: PublicUrl = None,
    trusted_proxy: TrustedProxy = None,
    open_page: _NoPage = None,
    json_output: ServerJson = False,
    timeout: _Timeout = 30.0,
    verbose: _Verbose = False,
) -> None:
    """Serve the memory to MCP clients, over stdin and stdout or, with --http, over HTTP.

    Without --http it serves the program that started it until stdin ends; the log goes to stderr.
    Options about addresses, hosts, tokens and proxies, and --json, need --http.

    With --http, every call of a client needs the token, as `Authorization: Bearer …`. The server
    takes the token of `onceward token show`; if `$ONCEWARD_MEMORY_TOKEN` is set, only that one.

    Example: `onceward memory serve --store sqlite:///memory.db`
    """
    del open_page
    address = check_listen_address(
        host,
        port,
        allow_host,
        external=allow_external,
        require_token=require_token,
        public_url=public_url,
        trusted_proxy=trusted_proxy,
    )
    _set_up_log(is_verbose=verbose)
    if not http:
        named = {"--host": host != "127.0.0.1", "--port": port is not None, "--json": json_output}
        named |= {"--allow-external": allow_external, "--require-token": require_token}
        named |= {"--public-url": bool(public_url), "--trusted-proxy": bool(trusted_proxy)}
        _reject_http_only_options(named)
    from onceward.client import Onceward
    from onceward.memory.capture.command_capture import current_root
    from onceward.memory.mcp.mcp_server import MemoryServer
    from onceward.stores import open_store

    options: dict[str, Any] = {
        "validation": _validation(strict=strict, lenient=lenient),
        "is_read_only": read_only,
        "may_delete": not no_delete,
        "is_in_order": not http,
        "call_seconds": timeout,
        # Over stdio a client starts this program in its repository.
        "root": "" if http else current_root(),
    }
    with contextlib.closing(Onceward(open_store(store))) as ow:
        server = MemoryServer(ow, buffer=buffer_of(ow.store), **options)
        assert server.breaker is not None
        with contextlib.closing(server.breaker) as outage:
            outage.start()
            offer_import(ow.store.url, store)
            if http:
                _serve_http(server, address, json_output=json_output)
            else:
                _serve_stdio(server)


def _validation(*, strict: bool, lenient: bool) -> Validation:
    from onceward.memory import Validation

    if strict and lenient:
        message = "--strict and --lenient exclude each other"
        raise InvalidArgument(message, fix="omit one of them", field="--strict")
    if strict:
        return Validation.STRICT
    return Validation.LENIENT if lenient else Validation.POLICY


def _serve_stdio(server: MemoryServer) -> None:
    import anyio

    from onceward.memory.mcp import stdio_transport

    if sys.stdin.isatty():
        print("waiting for an MCP client on stdin; Ctrl-D stops it", file=sys.stderr, flush=True)
    is_stopped = anyio.run(stdio_transport.serve, server.build())
    if is_stopped:
        print("stopped", file=sys.stderr)


def _serve_http(server: MemoryServer, address: ListenAddress, *, json_output: bool) -> None:
    from onceward.http.token_file import open_token
    from onceward.system import Ids

    given = os.environ.get(TOKEN_VARIABLE, "")
    if given and len(given) < TOKEN_CHARACTERS_MIN:
        message = (
            f"the token in ${TOKEN_VARIABLE} is shorter than {TOKEN_CHARACTERS_MIN} characters"
        )
        raise InvalidArgument(message, fix="use a longer one, or unset it", field=TOKEN_VARIABLE)
    token, session_id = given or open_token(), Ids().new("mem")

    def announce(url: str) -> None:
        if not given:
            hint = "clients send the token that `onceward token show` prints"
            print(hint, file=sys.stderr, flush=True)
        if json_output:
            started = {"url": url, "sessionId": session_id, "mcpUrl": f"{url}/mcp"}
            print(json.dumps(started), flush=True)
        else:
            print(
                f"Onceward {__version__}: memory server at {url}/mcp - Ctrl-C stops it", flush=True
            )

    with until_stopped(), listen(address) as listener:

        def build() -> FastAPI:
            from onceward.memory.http import build_app

            bound = listener.getsockname()[1]
            is_external = address.external or address.public_url is not None
            return build_app(server, names=address.names, port=bound, is_external=is_external)

        serve_app(address, listener, token, build, announce=announce)


def _reject_http_only_options(named: Mapping[str, bool]) -> None:
    """Reject options that only apply to an HTTP server, because they would be ignored."""
    for option, is_given in named.items():
        if is_given:
            message = f"{option} requires --http"
            raise InvalidArgument(message, fix=f"add --http, or omit {option}", field=option)


def _set_up_log(*, is_verbose: bool) -> None:
    """Log to stderr: warnings and errors, or everything if verbose."""
    from onceward.system.logs import set_up

    set_up(as_json=not sys.stderr.isatty(), is_verbose=is_verbose)
    if not is_verbose:
        logging.getLogger("onceward").setLevel(logging.WARNING)
