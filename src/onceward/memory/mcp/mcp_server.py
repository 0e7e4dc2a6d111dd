"""MCP server: the memory's tools, resources and notifications, over any transport.

A result is returned only after its write is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from importlib import resources
from typing import Any, Final

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from onceward.client import Onceward
from onceward.errors import OncewardError, StoreUnavailable
from onceward.http.guard import to_public_error
from onceward.memory.buffered_records import RecordContext
from onceward.memory.client import Memory, in_context
from onceward.memory.mcp import tools
from onceward.memory.mcp.tool_handlers import ToolResult, facts_of, record_result
from onceward.memory.mcp.tools import Effect, Tool
from onceward.memory.memory_calls import log_event
from onceward.memory.models import Validation
from onceward.memory.offline_buffer import Buffer
from onceward.memory.outage_recovery import CircuitBreaker
from onceward.version import __version__

GRAPH_URI: Final = "memory://knowledge-graph"
POLICY_URI: Final = "memory://policy"
#: Limit for subscribed HTTP sessions; the oldest subscription is dropped.
SUBSCRIBERS_MAX: Final = 1000
#: Timeout for notifying a session; after it the subscription is dropped.
NOTIFY_SECONDS_MAX: Final = 1.0
#: Concurrent calls of clients over HTTP.
CALLS_MAX: Final = 8
#: Timeout of a call; after it the caller gets an error.
CALL_SECONDS_MAX: Final = 30.0
THREADS_MAX: Final = 64

#: Limit for the stored part of a client's name, which clients choose freely.
_CLIENT_CHARACTERS_MAX: Final = 80
#: The error code of older protocol versions.
_RESOURCE_NOT_FOUND: Final = -32002
_CONTEXT_ARGUMENTS: Final = ("mode", "repo", "branch")
_Context = ServerRequestContext[Any, Any]


def policy() -> str:
    """Return the policy, which clients get as the server's instructions."""
    return (resources.files("onceward.memory") / "policy.md").read_text(encoding="utf-8")


class MemoryServer:
    """An MCP server of one memory, for any number of clients."""

    def __init__(  # noqa: PLR0913 - one store, and the options of the server
        self,
        ow: Onceward,
        *,
        validation: Validation = Validation.POLICY,
        root: str = "",
        is_read_only: bool = False,
        may_delete: bool = True,
        is_in_order: bool = True,
        buffer: Buffer | None = None,
        call_seconds: float = CALL_SECONDS_MAX,
    ) -> None:
        """Serve this store.

        With `is_in_order` calls run one at a time, in order of arrival. A client can then send an
        entity and a relation to it without waiting. With a buffer, records are kept on disk while
        the store is unavailable. A call that takes longer than `call_seconds` fails.
        """
        self.tools = tools.available_tools(is_read_only=is_read_only, may_delete=may_delete)
        self.subscriptions = InMemorySubscriptionBus()
        self.listen_handler = ListenHandler(self.subscriptions)
        self._validation = validation
        self._call_limiter = anyio.CapacityLimiter(1 if is_in_order else CALLS_MAX)
        self._subscribers: dict[str, ServerSession] = {}
        memory = Memory(ow, validation=validation, root=root)
        self._memory_for = lru_cache(maxsize=128)(partial(in_context, memory))
        self._call_seconds = call_seconds
        #: Includes threads of calls that have timed out.
        self._threads = anyio.CapacityLimiter(THREADS_MAX)
        self.breaker = None if buffer is None else CircuitBreaker(ow, buffer, self._memory_for)

    def build(self) -> Server[Any]:
        """Return the MCP server, ready to be connected to a transport."""
        return Server(
            "onceward-memory",
            version=__version__,
            title="Onceward memory",
            instructions=policy(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self.listen_handler,
        )

    # --- tools -----------------------------------------------------------------------------------

    async def _list_tools(self, _: _Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_tool_declaration(each) for each in self.tools.values()]
        )

    async def _call_tool(
        self, ctx: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            tool = tools.find(params.name, self.tools)
            is_strict = self._validation is Validation.STRICT
            arguments = tools.checked_arguments(tool, params.arguments or {}, is_strict=is_strict)
            answer = await self._run_tool(tool, arguments, _source(ctx))
        except Exception as exc:  # noqa: BLE001 - every error becomes a result
            return _error_result(to_public_error(exc))
        if answer.is_change:
            await self._notify_subscribers()
        content: list[types.ContentBlock] = [types.TextContent(text=each) for each in answer.texts]
        return types.CallToolResult(content=content, structured_content=answer.data)

    async def _run_tool(self, tool: Tool, arguments: dict[str, Any], source: str) -> ToolResult:
        """Run a tool call in order and within the timeout."""
        mode, repo, branch = (
            arguments.pop(each, "") if tool.is_record else "" for each in _CONTEXT_ARGUMENTS
        )
        where = (source, mode, repo, branch)
        async with self._call_limiter:
            if tool.is_record and self.breaker is not None:
                arguments = self.breaker.with_timestamp(arguments)
            # Shielded: the next call must not overtake a cancelled one.
            with anyio.move_on_after(self._call_seconds, shield=True):
                return await self._in_thread(self._call, tool, arguments, where)
            message = (
                f"the memory's store did not answer within {self._call_seconds:g} s; the call may "
                "still complete"
            )
            error = StoreUnavailable(message, fix="make the same call again; it is idempotent")
            facts = {"tool": tool.name, "seconds": self._call_seconds}
            log_event(logging.ERROR, "call.timed_out", facts)
            return await self._in_thread(self._handle_timeout, tool, arguments, where, error)

    async def _in_thread(self, function: Callable[..., ToolResult], *args: object) -> ToolResult:
        return await anyio.to_thread.run_sync(
            function, *args, limiter=self._threads, abandon_on_cancel=True
        )

    def _call(self, tool: Tool, arguments: dict[str, Any], where: RecordContext) -> ToolResult:
        memory = self._memory_for(*where)
        if self.breaker is None:
            return tool.handler(memory, arguments)
        if tool.is_record:
            facts = facts_of(arguments)
            return record_result(self.breaker.record(tool.name, memory, facts, where))
        return self.breaker.call(lambda: tool.handler(memory, arguments))

    def _handle_timeout(
        self, tool: Tool, arguments: dict[str, Any], where: RecordContext, error: StoreUnavailable
    ) -> ToolResult:
        """Buffer a record that timed out; raise the error for any other call."""
        if self.breaker is None:
            raise error
        self.breaker.trip(error)
        if not tool.is_record:
            raise error
        memory = self._memory_for(*where)
        return record_result(
            self.breaker.buffer_record(tool.name, memory, facts_of(arguments), where)
        )

    # --- resources -------------------------------------------------------------------------------

    async def _list_resources(self, _: _Context, __: object) -> types.ListResourcesResult:
        graph = types.Resource(
            name="knowledge-graph",
            title="Knowledge graph",
            uri=GRAPH_URI,
            description="The knowledge graph, oldest first; the first page of read_graph.",
            mime_type="application/json",
        )
        rules = types.Resource(
            name="policy",
            title="Policy",
            uri=POLICY_URI,
            description="How to use this memory.",
            mime_type="text/markdown",
        )
        return types.ListResourcesResult(resources=[graph, rules])

    async def _read_resource(
        self, ctx: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri == POLICY_URI:
            return _resource(uri, "text/markdown", policy())
        if uri != GRAPH_URI:
            message = f"unknown resource {uri[:200]}; fix: read {GRAPH_URI} or {POLICY_URI}"
            raise MCPError(code=_RESOURCE_NOT_FOUND, message=message)
        tool = tools.available_tools()["read_graph"]
        try:
            answer = await self._run_tool(tool, {}, _source(ctx))
        except Exception as exc:
            raise MCPError(
                code=types.INTERNAL_ERROR, message=_error_text(to_public_error(exc))
            ) from exc
        return _resource(uri, "application/json", answer.texts[0])

    async def _subscribe(
        self, ctx: _Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        if str(params.uri) == GRAPH_URI:
            self._subscribers[_session_key(ctx)] = ctx.session
            if len(self._subscribers) > SUBSCRIBERS_MAX:
                del self._subscribers[next(iter(self._subscribers))]
        return types.EmptyResult()

    async def _unsubscribe(
        self, ctx: _Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        if str(params.uri) == GRAPH_URI:
            self._subscribers.pop(_session_key(ctx), None)
        return types.EmptyResult()

    async def _notify_subscribers(self) -> None:
        """Notify subscribers that the graph has changed."""
        async with anyio.create_task_group() as tasks:
            for wire, session in tuple(self._subscribers.items()):
                tasks.start_soon(self._notify, wire, session)
        await self.subscriptions.publish(ResourceUpdated(uri=GRAPH_URI))

    async def _notify(self, wire: str, session: ServerSession) -> None:
        """Notify one session; drop its subscription on an error or a timeout."""
        with anyio.move_on_after(NOTIFY_SECONDS_MAX), suppress(Exception):
            await session.send_resource_updated(GRAPH_URI)
            return
        if self._subscribers.get(wire) is session:
            del self._subscribers[wire]


def _tool_declaration(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        output_schema=dict(tool.output_schema),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.effect is Effect.READ,
            destructive_hint=tool.effect is Effect.DELETE,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _error_result(error: OncewardError) -> types.CallToolResult:
    """Return an error as a tool result, in `_meta`: structured content must match the schema."""
    meta: Mapping[str, Any] = {"onceward/error": _error_object(error)}
    content: list[types.ContentBlock] = [types.TextContent(text=_error_text(error))]
    return types.CallToolResult(content=content, is_error=True, _meta=dict(meta))


def _error_object(error: OncewardError) -> dict[str, Any]:
    context = {
        name: value if isinstance(value, (str, int, float, list)) else str(value)
        for name, value in error.context.items()
    }
    return {"code": error.code, "message": error.message, "context": context}


def _error_text(error: OncewardError) -> str:
    return f"{error.message}\nfix: {error.fix}" if error.fix else error.message


def _resource(uri: str, mime_type: str, text: str) -> types.ReadResourceResult:
    content = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.ReadResourceResult(contents=[content])


def _session_key(ctx: _Context) -> str:
    """Return the key of a client's session: its HTTP session id, or an empty string over stdio."""
    headers: Mapping[str, str] = getattr(ctx.request, "headers", {})
    return headers.get("mcp-session-id", "")


def _source(ctx: _Context) -> str:
    """Return the source of a client's writes, from the name that it sent."""
    params = ctx.session.client_params
    name = params.client_info.name if params is not None else ""
    clean = "".join(each for each in name if each.isprintable())[:_CLIENT_CHARACTERS_MAX].strip()
    return f"mcp:{clean}" if clean else "mcp"
