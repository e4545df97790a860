"""The screen, keyboard and pointer of a VM, from outside its guest."""

from __future__ import annotations

from typing import Any, Literal

from ._client import Connection, Reply
from ._errors import MoatError, to_vm_exception

# Models are told of a screen of this size, whatever the VM's is: those that cannot be told another
# expect it, and for the others it is a good one.
SIZE = (1366, 768)

Button = Literal["left", "middle", "right", "back", "forward"]
Direction = Literal["up", "down", "left", "right"]
OtherCharacters = Literal["refuse", "alt", "ctrl-shift-u"]

# How long pictures may take to come to rest, and everything else.
SETTLE = 3.0
SCREEN_TIMEOUT = 180.0


class VmScreen:
    """What can be seen of a VM with a display, and done at its keyboard and pointer.

    Places are pixels of a picture of 1366x768, whatever size the screen has.
    """

    _connection: Connection
    sandbox_id: str
    vm_name: str

    async def screenshot(
        self,
        size: tuple[int, int] | None = SIZE,
        region: tuple[int, int, int, int] | None = None,
        settle: float = SETTLE,
    ) -> bytes:
        """A picture of the screen, as PNG.

        Args:
            size: to which it is stretched; None: as the screen is.
            region: left, top, right and bottom of the part that is wanted.
            settle: how many seconds to wait at most until the picture no longer changes.
        """
        args: dict[str, Any] = {"settle": settle, "of": [*SIZE]}
        if size is not None:
            args["size"] = [*size]
        if region is not None:
            args["region"] = [*region]
        return (await self.screen_request("screenshot", **args)).body

    async def click(
        self,
        x: int | None = None,
        y: int | None = None,
        button: Button = "left",
        count: int = 1,
        keys: str | None = None,
    ) -> None:
        """Click at a place, or where the pointer is, with keys such as "ctrl" held meanwhile."""
        await self.act(do="click", x=x, y=y, button=button, count=count, keys=keys)

    async def move(self, x: int, y: int) -> None:
        await self.act(do="move", x=x, y=y)

    async def drag(
        self, start: tuple[int, int] | None, end: tuple[int, int], button: Button = "left"
    ) -> None:
        """Drag from a place, or from where the pointer is, to another."""
        begin = None if start is None else [*start]
        await self.act(do="drag", x=end[0], y=end[1], button=button, **{"from": begin})

    async def scroll(
        self, direction: Direction, amount: int = 3, x: int | None = None, y: int | None = None
    ) -> None:
        await self.act(do="scroll", direction=direction, amount=amount, x=x, y=y)

    async def press(self, keys: str, hold: float | None = None) -> None:
        """Press keys by X11's names: "ctrl+shift+t", or several with spaces between."""
        await self.act(do="key", keys=keys, hold=hold)

    async def type(self, text: str, other: OtherCharacters = "refuse") -> None:
        """Type text, as on a US keyboard.

        Args:
            text: what is typed.
            other: how characters are typed that such a keyboard does not have.
        """
        await self.act(do="type", text=text, other=other)

    async def pointer(self) -> tuple[int, int] | None:
        """Where the pointer was put last; None: moat has not moved it."""
        at = await self._input([])
        return None if at is None else (at[0], at[1])

    async def act(self, **action: Any) -> None:
        """Do one action of the protocol's operation `input`. Members that are None are left out."""
        await self._input([{key: value for key, value in action.items() if value is not None}])

    async def _input(self, actions: list[dict[str, Any]]) -> list[int] | None:
        reply = await self.screen_request("input", actions=actions, of=[*SIZE])
        at: list[int] | None = reply.result["pointer"]
        return at

    async def screen_request(self, op: str, **args: Any) -> Reply:
        """The answer of the daemon, or Python's exception for its error."""
        args = {"sandbox": self.sandbox_id, "vm": self.vm_name, **args}
        try:
            return await self._connection.request(op, args, timeout=SCREEN_TIMEOUT)
        except MoatError as ex:
            raise to_vm_exception(ex) from ex
