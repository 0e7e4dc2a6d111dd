"""Server: the memory as an MCP server, whatever wire it is on.

Owns what a client is told: tools with their hints, resources, the policy, news about changes. An
answer leaves only after its write is committed. Knows neither pipes nor addresses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from typing import Any, Final

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from onceward.errors import OncewardError, StoreUnavailable
from onceward.gate import as_error
from onceward.handle import Onceward
from onceward.memory.buffer import Buffer
from onceward.memory.client import Memory
from onceward.memory.log_events import log_event
from onceward.memory.mcp import tools
from onceward.memory.mcp.answers import Answer
from onceward.memory.mcp.handlers import facts_of, recorded
from onceward.memory.mcp.tools import Effect, Tool
from onceward.memory.models import Validation
from onceward.memory.outage import Outage
from onceward.memory.replaying import Where
from onceward.version import __version__

GRAPH_URI: Final = "memory://knowledge-graph"
POLICY_URI: Final = "memory://policy"
#: Sessions over HTTP that are told about changes; the oldest gives way.
SUBSCRIBERS_MAX: Final = 1000
#: How long one of them may keep a call waiting; then it is not told any more.
TELL_SECONDS_MAX: Final = 1.0
#: Calls that run at the same time, for clients that do not share a wire.
CALLS_MAX: Final = 8
#: How long a call may take before its caller is told that the store does not answer.
CALL_SECONDS_MAX: Final = 30.0
THREADS_MAX: Final = 64

#: Clients' names are theirs to choose; this much of one is kept.
_CLIENT_CHARACTERS_MAX: Final = 80
#: As the protocol's older versions number it.
_RESOURCE_NOT_FOUND: Final = -32002
_PLACES: Final = ("mode", "repo", "branch")
_Context = ServerRequestContext[Any, Any]


def policy() -> str:
    """Return what agents should know before they use the memory."""
    return (resources.files("onceward.memory") / "policy.md").read_text(encoding="utf-8")


class MemoryServer:
    """One memory for any number of clients."""

    def __init__(  # noqa: PLR0913 - one store, and how it is offered
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
        """Serve what this store remembers.

        With `is_in_order` calls are done one after the other, as they came: a client that sends an
        entity and, without waiting, a relation to it gets both. With a buffer, records wait there
        while the store is away. A call that takes longer than `call_seconds` fails.
        """
        self.tools = tools.offered(is_read_only=is_read_only, may_delete=may_delete)
        self.listening = InMemorySubscriptionBus()
        self.listens = ListenHandler(self.listening)
        self._ow, self._validation, self._root = ow, validation, root
        self._turns = anyio.CapacityLimiter(1 if is_in_order else CALLS_MAX)
        self._subscribers: dict[str, ServerSession] = {}
        self._redactor = Memory(ow).graph.redactor
        self._memory_at = lru_cache(maxsize=128)(self._new_memory)
        self._call_seconds = call_seconds
        #: Also of calls that nobody waits for any more.
        self._threads = anyio.CapacityLimiter(THREADS_MAX)
        self.outage = None if buffer is None else Outage(ow, buffer, self._memory_at)

    def build(self) -> Server[Any]:
        """Return the MCP server, ready to be put on a wire."""
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
            on_subscriptions_listen=self.listens,
        )

    # --- tools -----------------------------------------------------------------------------------

    async def _list_tools(self, _: _Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declared(each) for each in self.tools.values()])

    async def _call_tool(
        self, ctx: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            tool = tools.find(params.name, self.tools)
            is_strict = self._validation is Validation.STRICT
            arguments = tools.checked(tool, params.arguments or {}, is_strict=is_strict)
            answer = await self._answer(tool, arguments, _source(ctx))
        except Exception as exc:  # noqa: BLE001 - whatever it was, the server goes on
            return _failed(as_error(exc))
        if answer.is_change:
            await self._tell()
        content: list[types.ContentBlock] = [types.TextContent(text=each) for each in answer.texts]
        return types.CallToolResult(content=content, structured_content=answer.data)

    async def _answer(self, tool: Tool, arguments: dict[str, Any], source: str) -> Answer:
        """Do a call in its turn and in time."""
        mode, repo, branch = (arguments.pop(each, "") if tool.is_record else "" for each in _PLACES)
        where = (source, mode, repo, branch)
        async with self._turns:
            if tool.is_record and self.outage is not None:
                arguments = self.outage.dated(arguments)
            # Shielded: a client that cancels a call must not let the next one overtake it.
            with anyio.move_on_after(self._call_seconds, shield=True):
                return await self._in_thread(self._call, tool, arguments, where)
            message = f"no answer within {self._call_seconds:g} s; the call may still be done"
            error = StoreUnavailable(message, fix="call again: repeating a call changes nothing")
            said = {"event": "call.timed_out", "tool": tool.name, "seconds": self._call_seconds}
            log_event(logging.ERROR, said)
            return await self._in_thread(self._late, tool, arguments, where, error)

    async def _in_thread(self, function: Callable[..., Answer], *args: object) -> Answer:
        return await anyio.to_thread.run_sync(
            function, *args, limiter=self._threads, abandon_on_cancel=True
        )

    def _call(self, tool: Tool, arguments: dict[str, Any], where: Where) -> Answer:
        memory = self._memory_at(*where)
        if self.outage is None:
            return tool.handler(memory, arguments)
        if tool.is_record:
            facts = facts_of(arguments)
            return recorded(self.outage.record(tool.name, memory, facts, where))
        return self.outage.call(lambda: tool.handler(memory, arguments))

    def _late(
        self, tool: Tool, arguments: dict[str, Any], where: Where, error: StoreUnavailable
    ) -> Answer:
        """Keep a record that got no answer in time; raise the error for any other call."""
        if self.outage is None:
            raise error
        self.outage.trip(error)
        if not tool.is_record:
            raise error
        memory = self._memory_at(*where)
        return recorded(self.outage.keep(tool.name, memory, facts_of(arguments), where))

    def _new_memory(self, source: str, mode: str, repo: str, branch: str) -> Memory:
        return Memory(
            self._ow,
            validation=self._validation,
            root=self._root,
            source=source,
            mode=mode,
            repo=repo,
            branch=branch,
            redactor=self._redactor,
        )

    # --- resources -------------------------------------------------------------------------------

    async def _list_resources(self, _: _Context, __: object) -> types.ListResourcesResult:
        graph = types.Resource(
            name="knowledge-graph",
            title="Knowledge graph",
            uri=GRAPH_URI,
            description="What is remembered, oldest first; the first page of read_graph.",
            mime_type="application/json",
        )
        rules = types.Resource(
            name="policy",
            title="Policy",
            uri=POLICY_URI,
            description="How to use this memory well.",
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
            message = f"there is no resource {uri[:200]}; fix: read {GRAPH_URI} or {POLICY_URI}"
            raise MCPError(code=_RESOURCE_NOT_FOUND, message=message)
        tool = tools.offered()["read_graph"]
        try:
            answer = await self._answer(tool, {}, _source(ctx))
        except Exception as exc:
            raise MCPError(code=types.INTERNAL_ERROR, message=_told(as_error(exc))) from exc
        return _resource(uri, "application/json", answer.texts[0])

    async def _subscribe(
        self, ctx: _Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        if str(params.uri) == GRAPH_URI:
            self._subscribers[_wire(ctx)] = ctx.session
            if len(self._subscribers) > SUBSCRIBERS_MAX:
                del self._subscribers[next(iter(self._subscribers))]
        return types.EmptyResult()

    async def _unsubscribe(
        self, ctx: _Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        if str(params.uri) == GRAPH_URI:
            self._subscribers.pop(_wire(ctx), None)
        return types.EmptyResult()

    async def _tell(self) -> None:
        """Tell those who asked for it that the graph has changed."""
        async with anyio.create_task_group() as tasks:
            for wire, session in tuple(self._subscribers.items()):
                tasks.start_soon(self._tell_one, wire, session)
        await self.listening.publish(ResourceUpdated(uri=GRAPH_URI))

    async def _tell_one(self, wire: str, session: ServerSession) -> None:
        """Tell one; who is gone, or does not listen, costs the caller nothing from then on."""
        with anyio.move_on_after(TELL_SECONDS_MAX), suppress(Exception):
            await session.send_resource_updated(GRAPH_URI)
            return
        if self._subscribers.get(wire) is session:
            del self._subscribers[wire]


def _declared(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.takes),
        output_schema=dict(tool.gives),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.effect is Effect.READ,
            destructive_hint=tool.effect is Effect.DELETE,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _failed(error: OncewardError) -> types.CallToolResult:
    """Return an error as a result. Not as structured content: clients would hold it to a schema."""
    meta: Mapping[str, Any] = {"onceward/error": _plain(error)}
    content: list[types.ContentBlock] = [types.TextContent(text=_told(error))]
    return types.CallToolResult(content=content, is_error=True, _meta=dict(meta))


def _plain(error: OncewardError) -> dict[str, Any]:
    context = {
        name: value if isinstance(value, (str, int, float, list)) else str(value)
        for name, value in error.context.items()
    }
    return {"code": error.code, "message": error.message, "context": context}


def _told(error: OncewardError) -> str:
    return f"{error.message}\nfix: {error.fix}" if error.fix else error.message


def _resource(uri: str, mime_type: str, text: str) -> types.ReadResourceResult:
    content = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.ReadResourceResult(contents=[content])


def _wire(ctx: _Context) -> str:
    """Return what tells one client from the others: over HTTP its session, else it is alone."""
    headers: Mapping[str, str] = getattr(ctx.request, "headers", {})
    return headers.get("mcp-session-id", "")


def _source(ctx: _Context) -> str:
    """Return who writes, as far as the client has said."""
    told = ctx.session.client_params
    name = told.client_info.name if told is not None else ""
    clean = "".join(each for each in name if each.isprintable())[:_CLIENT_CHARACTERS_MAX].strip()
    return f"mcp:{clean}" if clean else "mcp"
