"""Task cancellation: cancel asyncio tasks at a chosen await, once or at every later one."""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupter:
    """Counts the awaits of the tasks it drives, and interrupts at the nth."""

    def __init__(self, nth: int, interrupt: Callable[[], object], *, again: bool = False) -> None:
        self._nth = nth
        self._interrupt = interrupt
        #: At every further await, too: some libraries cancel until they are obeyed.
        self._again = again
        self._count = 0

    @property
    def has_struck(self) -> bool:
        return self._count >= self._nth

    async def drive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, telling its awaits."""
        return await self._steps(coroutine)

    def task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Task[Any]:
        """Make a task of a driven coroutine, as a loop's task factory does."""
        task = asyncio.Task(self.drive(coroutine), loop=loop, **options)
        # Cancelled before its first step, the task never began what it drives.
        task.add_done_callback(lambda _: coroutine.close())
        return task

    @types.coroutine
    def _steps(self, coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(coroutine.send, None)
        while True:
            try:
                waits_for = step()
            except StopIteration as stop:
                value: T = stop.value
                return value
            self._tell()
            try:
                yield waits_for
            except BaseException as exc:  # noqa: BLE001 - it is the coroutine's
                step = partial(coroutine.throw, exc)
            else:
                step = partial(coroutine.send, None)

    def _tell(self) -> None:
        self._count += 1
        if self._count == self._nth or (self._again and self.has_struck):
            # Soon: the task is waiting then.
            asyncio.get_running_loop().call_soon(self._interrupt)
