#!/usr/bin/env python3
"""Makes docs/demo.svg: runs moat in a terminal and draws what the terminal shows.

tools/demo-svg.py [OUT]      $MOAT_BIN is the binary; the image tiny must be built

Nothing in the picture is made up but the pauses: waiting is cut short, and typing is slow. A viewer
that does not animate shows the end.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 82
LAB = """\
vms:
- {name: attacker, source: tiny, ram_mb: 256, vcpus: 1, depends_on: [victim]}
- {name: victim, source: tiny, ram_mb: 256, vcpus: 1, is_sandbox: false}
"""
SESSION = [
    "moat run tiny -- uname -sr",
    "cat lab.yaml",
    "moat up -n lab lab.yaml",
    "moat ls lab",
    "moat net lab",
    "moat snapshot lab before",
    "moat exec -u root lab -- rm -rf /bin /etc /lib",
    "moat exec lab -- cat /etc/hostname",
    "moat restore lab before",
    "moat exec lab -- cat /etc/hostname",
    "moat rm lab",
]
PAUSE_MAX = 0.9  # seconds that a wait takes in the picture
TYPE = 0.035  # seconds for a letter
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "1": "#ffffff", "2": "#8b949e"}
PLAIN, PROMPT, BACK, FRAME = "#d0d7de", "#79c0ff", "#0d1117", "#30363d"
WIDTH, HEIGHT, SIZE, LEFT, TOP = 8.4, 19, 14, 18, 52


@dataclass
class Line:
    """What stands on a line of the terminal, and when it got there."""

    cells: list[tuple[str, str]] = field(default_factory=list)  # a letter and its colour
    at: float = 0
    typed: bool = False

    def put(self, column: int, letter: str, colour: str) -> None:
        self.cells += [(" ", PLAIN)] * (column + 1 - len(self.cells))
        self.cells[column] = (letter, colour)

    def text(self) -> str:
        return "".join(letter for letter, _ in self.cells).rstrip()


class Terminal:
    """As much of a terminal as moat uses: colours, and lines that are drawn again."""

    def __init__(self) -> None:
        self.lines = [Line()]
        self.column, self.colour = 0, PLAIN

    def type(self, command: str, at: float) -> None:
        self.lines[-1] = Line([("$", PROMPT), (" ", PROMPT)], at, typed=True)
        self.lines[-1].cells += [(letter, "#ffffff") for letter in command]
        self.lines.append(Line())
        self.column = 0

    def write(self, text: str, at: float) -> None:
        for one in re.finditer(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|[^\x00-\x1f]", text):
            line = self.lines[-1]
            if one[0] == "\r":
                self.column = 0
            elif one[0] == "\n":
                self.lines.append(Line())
                self.column = 0
            elif one[2] == "K":
                del line.cells[self.column :]
            elif one[2] == "m":
                self.colour = COLOURS.get(one[1], PLAIN)
            elif not one[2]:
                line.put(self.column, one[0], self.colour)
                line.at = at
                self.column += 1


def record(terminal: Terminal, command: str, cwd: str, env: dict[str, str], at: float) -> float:
    """Runs a command in a terminal of its own; returns its end on the picture's clock."""
    terminal.type(command, at)
    at += TYPE * len(command) + 0.3
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe("sh", ["sh", "-c", command], env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    last = time.monotonic()
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        now = time.monotonic()
        at += min(now - last, PAUSE_MAX)
        last = now
        terminal.write(piece.decode(errors="replace"), at)
    os.close(fd)
    os.waitpid(pid, 0)
    return at + 0.7


def draw_line(number: int, line: Line) -> str:
    y = TOP + number * HEIGHT
    runs: list[tuple[int, str, str]] = []
    for column, (letter, colour) in enumerate(line.cells[: len(line.text())]):
        if runs and runs[-1][2] == colour:
            runs[-1] = (runs[-1][0], runs[-1][1] + letter, colour)
        else:
            runs.append((column, letter, colour))
    spans = "".join(
        f'<tspan x="{LEFT + column * WIDTH:.1f}" fill="{colour}" '
        f'textLength="{len(letters) * WIDTH:.1f}">{html.escape(letters)}</tspan>'
        for column, letters, colour in runs
        if letters.strip()
    )
    count = len(line.cells)
    how = f"type {TYPE * count:.2f}s steps({count})" if line.typed else "show 0.01s"
    return f'<text y="{y}" style="animation:{how} {line.at:.2f}s backwards">{spans}</text>'


def draw(lines: list[Line]) -> str:
    width = int(2 * LEFT + COLUMNS * WIDTH)
    height = TOP + len(lines) * HEIGHT
    dots = "".join(
        f'<circle cx="{LEFT + 4 + 20 * i}" cy="20" r="6" fill="{colour}"/>'
        for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="moat">\n'
        "<style>text{white-space:pre;font:"
        f"{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}}"
        "@keyframes show{from{opacity:0}to{opacity:0}}"
        "@keyframes type{from{clip-path:inset(0 100% 0 0)}to{clip-path:inset(0 0 0 0)}}"
        "@media(prefers-reduced-motion){text{animation:none!important}}</style>\n"
        f'<rect width="{width}" height="{height}" rx="10" fill="{BACK}" stroke="{FRAME}"/>\n'
        f"{dots}\n" + "\n".join(draw_line(i, line) for i, line in enumerate(lines)) + "\n</svg>\n"
    )


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "demo.svg"
    moat = Path(os.environ["MOAT_BIN"])
    terminal, at = Terminal(), 0.5
    with tempfile.TemporaryDirectory(prefix="moat-demo-") as home:
        env = {**os.environ, "MOAT_HOME": f"{home}/moat", "TERM": "xterm-256color"}
        env["PATH"] = f"{moat.parent}:{env['PATH']}"
        (Path(home) / "lab.yaml").write_text(LAB)
        try:
            # What is done once ahead of all else would be most of the picture.
            for spec in ("tiny", f"{home}/lab.yaml"):
                subprocess.run([moat, "run", spec, "true"], env=env, check=True)
            for command in SESSION:
                at = record(terminal, command, home, env, at)
        finally:
            subprocess.run([moat, "serve", "--stop", "--force"], env=env, check=True)
    out.write_text(draw([line for line in terminal.lines if line.text()]))


if __name__ == "__main__":
    main()
