"""A little of cmd.exe: what it makes of carets, quotes, percent signs and redirections.

Only what is needed to see that a client's scripts mean what they should; the rest it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from .windisk import NO_PATH, WinError

if TYPE_CHECKING:
    from .windows import Process

SPECIAL = "&|<>()"


class Part(NamedTuple):
    """One command of a line: how it hangs on the one before it, its text, its redirections."""

    join: str
    text: str
    redirects: list[tuple[str, str]]


class Unknown(Exception):
    """Something of cmd that this one has not learned."""


class Exit(Exception):
    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


class Goto(Exception):
    pass


def take_token(text: str) -> tuple[str, str]:
    """The next word, in quotes or not, and what follows."""
    text = text.lstrip(" \t")
    found = re.match(r'"[^"]*"?|[^ \t&|<>()]+', text)
    word = found.group() if found else ""
    return word.strip('"'), text[len(word) :]


def split_line(line: str) -> list[Part]:
    """A line as its commands; carets are gone after that, quotes are not."""
    parts: list[Part] = []
    redirects: list[tuple[str, str]] = []
    join, text, quoted, i = "", "", False, 0
    while i < len(line):
        c = line[i]
        if quoted or c not in '^"' + SPECIAL:
            quoted = quoted and c != '"'
            text += c
        elif c == "^":
            i += 1
            text += line[i : i + 1]
        elif c == '"':
            quoted = True
            text += c
        elif c in "&|" and line[i + 1 : i + 2] == c:
            parts.append(Part(join, text.strip(" \t"), redirects))
            join, text, redirects, i = c + c, "", [], i + 1
        elif c == "&":
            parts.append(Part(join, text.strip(" \t"), redirects))
            join, text, redirects = c, "", []
        elif c in "<>":
            handle = ""
            if re.search(r"(^|[ \t])[0-9]$", text):
                handle, text = text[-1], text[:-1]
            rest = line[i + 1 :]
            if c == ">" and rest.startswith("&"):
                redirects.append((handle or "1", "&" + rest[1:2]))
                i += 2
            else:
                target, after = take_token(rest)
                redirects.append((handle or ("0" if c == "<" else "1"), target))
                i = len(line) - len(after) - 1
        else:
            raise Unknown(f"{c!r} in {line!r}")
        i += 1
    parts.append(Part(join, text.strip(" \t"), redirects))
    return parts


class Cmd:
    """One cmd.exe: a line, or a batch file."""

    def __init__(self, process: Process, batch: str | None = None) -> None:
        self.process = process
        self.disk = process.guest.disk
        self.batch = batch
        self.level = 0
        self.encoding = "cp437"
        self.variables: dict[str, str] = {}

    async def line(self, text: str) -> int:
        """What follows /c."""
        try:
            await self.run(self.percents(text))
        except Exit as end:
            self.level = end.code
        return self.level

    async def file(self) -> int:
        """Line by line, each read in the code page that is set by then."""
        assert self.batch is not None
        lines = self.disk.read(self.batch).split(b"\r\n")
        at = 0
        try:
            while at < len(lines):
                text = lines[at].decode(self.encoding)
                at += 1
                if text.startswith(":") or not text.strip():
                    continue
                try:
                    await self.run(self.percents(text))
                except Goto as label:
                    at = lines.index(f":{label}".encode()) + 1
        except Exit as end:
            self.level = end.code
        return self.level

    def percents(self, line: str) -> str:
        def value(found: re.Match[str]) -> str:
            name = found.group(1)
            if self.batch is not None and name is None:
                return "%"
            if (name or "").lower() == "errorlevel":
                return str(self.level)
            known = self.process.env.get((name or "").upper())
            if known is not None:
                return known
            return "" if self.batch is not None else found.group()

        if self.batch is None:
            return re.sub(r"%([^%]+)%", value, line)
        return re.sub(r"%(?:%|([^%~][^%]*)%)", value, line)

    async def run(self, line: str) -> None:
        line = line.lstrip(" \t@")
        word = line.split(" ", 1)[0].lower()
        if word == "if":
            await self.run_if(line[3:])
        elif word == "for":
            await self.run_for(line[4:])
        else:
            await self.run_parts(line)

    async def run_if(self, rest: str) -> None:
        word, rest = take_token(rest)
        wanted = word.lower() != "not"
        if not wanted:
            word, rest = take_token(rest)
        word, given = self.loop_values(word), take_token(rest)
        if given[0] == "LEQ" and wanted:
            most, rest = take_token(given[1])
            if int(word) <= int(most):
                await self.run(rest)
            return
        if word.lower() != "exist":
            raise Unknown(f"if {word}")
        path, rest = self.loop_values(given[0]), given[1]
        try:
            full = self.full(path)
            there = self.disk.is_dir(full) if path.endswith("\\") else self.disk.get(full)
        except WinError:
            there = None
        if bool(there) == wanted:
            await self.run(rest)

    async def run_for(self, rest: str) -> None:
        found = re.fullmatch(r'(?:/f "eol=\? delims=" )?%(\w) in \(([^)]*|"[^"]*")\) do (.*)', rest)
        if found is None:
            raise Unknown(f"for {rest}")
        name, given, body = found.groups()
        if rest.startswith("/f"):
            values = await self.output_of(given)
        else:
            values = [word.replace('"', "") for word in re.findall(r'"[^"]*"|[^ ]+', given)]
        try:
            for one in values:
                self.variables[name] = one
                await self.run(body)
        finally:
            self.variables.clear()

    async def output_of(self, command: str) -> list[str]:
        if command[:1] != "'":
            raise Unknown(command)
        kept = self.process.out
        self.process.out = bytearray()
        try:
            await self.run_parts(re.sub(r"\^(.)", r"\1", command.strip("'")))
            text = self.process.out.decode(self.encoding)
        finally:
            self.process.out = kept
        return [line for line in text.split("\r\n") if line]

    def loop_values(self, text: str) -> str:
        """%~af, %~zf, %~f, %f: put in after the line was taken apart."""

        def value(found: re.Match[str]) -> str:
            how, name = found.groups()
            if name not in self.variables:
                return found.group()
            whole = self.variables[name]
            if how in (None, "~"):
                return whole
            node = self.disk.get(self.full(whole))
            if how == "~a":
                return ("d" if node.data is None else "-") + "-a--------" if node else ""
            return str(len(node.data or b"")) if node else ""

        return re.sub(r"%(~[az]?)?(\w)", value, text) if self.variables else text

    async def run_parts(self, line: str) -> None:
        failed = False
        for part in split_line(line):
            if (part.join == "&&" and failed) or (part.join == "||" and not failed):
                continue
            failed = await self.run_one(part._replace(text=self.loop_values(part.text)))

    async def run_one(self, part: Part) -> bool:
        """One command with its redirections; whether it failed."""
        process = self.process
        kept = process.out, process.err, process.stdin
        files: list[tuple[str, bytearray]] = []
        try:
            for handle, target in part.redirects:
                if handle == "0":
                    process.stdin = self.disk.read(self.full(target))
                elif target.startswith("&"):
                    process.out = process.err
                else:
                    sink = bytearray()
                    if target.lower() != "nul":
                        self.disk.write(self.full(target), b"")
                        files.append((self.full(target), sink))
                    process.out, process.err = (
                        (sink, process.err) if handle == "1" else (process.out, sink)
                    )
            code = await self.execute(part.text)
        except WinError as why:
            process.err += self.encode(f"{why}\r\n")
            code = 1
        finally:
            for path, sink in files:
                self.disk.write(path, bytes(sink))
            process.out, process.err, process.stdin = kept
        if code is not None:
            self.level = code
        return bool(code)

    def encode(self, text: str) -> bytes:
        return text.encode(self.encoding, "replace")

    def say(self, text: str) -> None:
        self.process.out += self.encode(f"{text}\r\n")

    def full(self, path: str) -> str:
        return self.disk.full(path, self.process.cwd)

    async def execute(self, text: str) -> int | None:
        if not text:
            return None
        name = re.split(r"[ \t./]", text, maxsplit=1)[0].lower()
        if name in BUILT_IN and not text.startswith('"'):
            return await BUILT_IN[name](self, text[len(name) :])
        program, rest = take_token(text)
        path = self.process.guest.find_program(program, self.process.cwd)
        if path is None and "\\" in program:
            raise WinError(NO_PATH)
        if path is None:
            self.process.err += self.encode(
                f"'{text.split(' ')[0]}' is not recognized as an internal or external command,\r\n"
                "operable program or batch file.\r\n"
            )
            return 9009 if self.batch is not None else 1
        if path.lower().endswith("chcp.com"):
            self.encoding = {"65001": "utf-8", "437": "cp437"}[rest.strip()]
            self.say(f"Active code page: {rest.strip()}")
            return 0
        code = await self.process.guest.start(path, f"{text}", self.process)
        if self.batch is not None and path.lower().endswith((".bat", ".cmd")):
            # Not called: the one that named it does not go on.
            raise Exit(code)
        return code

    # What cmd itself can do.

    async def do_echo(self, rest: str) -> int | None:
        if rest.strip().lower() not in ("off", "on"):
            self.say(rest[1:])
        return None

    async def do_cd(self, rest: str) -> int:
        if rest.strip().lower().startswith("/d"):
            rest = rest.strip()[2:]
        if not rest.strip():
            self.say(self.process.cwd)
            return 0
        full = self.full(rest.strip(" \t").strip('"'))
        node = self.disk.get(full)
        if node is None:
            raise WinError(NO_PATH)
        if node.data is not None:
            raise WinError("The directory name is invalid.")
        self.process.cwd = full if full != "C:" else "C:\\"
        return 0

    async def do_set(self, rest: str) -> int:
        name, equals, value = rest.lstrip(" \t").partition("=")
        if not equals or name.startswith("/"):
            raise Unknown(f"set{rest}")
        self.process.env[name.upper()] = value
        return 0

    async def do_type(self, rest: str) -> int:
        """Not for bytes: UTF-16 becomes text of the code page, and old versions end at Ctrl-Z."""
        name, _ = take_token(rest)
        data = b"" if name.lower() == "nul" else self.disk.read(self.full(name))
        if data.startswith(b"\xff\xfe"):
            data = self.encode(data[2:].decode("utf-16-le", "replace"))
        self.process.out += data.partition(b"\x1a")[0]
        return 0

    async def do_mkdir(self, rest: str) -> int:
        name, _ = take_token(rest)
        self.disk.mkdir(self.full(name))
        return 0

    async def do_dir(self, rest: str) -> int:
        word, rest = take_token(rest)
        while word.startswith("/"):
            if word.lower() not in ("/b", "/a"):
                raise Unknown(f"dir {word}")
            word, rest = take_token(rest)
        full = self.full(word or ".")
        if not self.disk.names(full):
            raise WinError("File Not Found")
        for node in self.disk.names(full):
            self.say(node.name)
        return 0

    async def do_copy(self, rest: str) -> int:
        found = re.fullmatch(r' /b /y ("[^"]+")((?:\+[^ ]+)+) ("[^"]+")', rest)
        if found is None or found.group(1) != found.group(3):
            raise Unknown(f"copy{rest}")
        target = self.full(found.group(1).strip('"'))
        data = self.disk.read(target)
        for name in found.group(2)[1:].split("+"):
            data += self.disk.read(self.full(name))
        self.disk.write(target, data)
        self.say("        1 file(s) copied.")
        return 0

    async def do_del(self, rest: str) -> int:
        word, rest = take_token(rest)
        if word.lower() != "/q":
            raise Unknown(f"del {word}")
        name, _ = take_token(rest)
        if self.disk.remove(name, self.process.cwd) == 0:
            self.process.err += self.encode(f"Could Not Find {name}\r\n")
        return 0

    async def do_exit(self, rest: str) -> int:
        words = rest.lower().replace("/b", "").split()
        raise Exit(int(words[0]) if words else self.level)

    async def do_goto(self, rest: str) -> int:
        raise Goto(rest.strip())

    async def do_ver(self, rest: str) -> int:
        self.say("")
        self.say("Microsoft Windows [Version 10.0.19045.3803]")
        return 0


BUILT_IN: dict[str, Callable[[Cmd, str], Awaitable[int | None]]] = {
    "echo": Cmd.do_echo,
    "cd": Cmd.do_cd,
    "set": Cmd.do_set,
    "type": Cmd.do_type,
    "mkdir": Cmd.do_mkdir,
    "dir": Cmd.do_dir,
    "copy": Cmd.do_copy,
    "del": Cmd.do_del,
    "exit": Cmd.do_exit,
    "goto": Cmd.do_goto,
    "ver": Cmd.do_ver,
}
