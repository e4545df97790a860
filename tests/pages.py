"""The fenced blocks of README.md and docs/*.md: commands, and files that these use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Block(NamedTuple):
    line: int
    kind: str  # what it is of: "sh", "yaml"; "" if the page does not say
    text: str

    @property
    def file(self) -> str:
        """The name of the file that it is, from a comment at its beginning: `# lab.yaml`."""
        name = re.match(r"# (\S+\.\w+)\n", self.text)
        return name[1] if name else ""

    @property
    def needs(self) -> str:
        """What the commands need that not every machine has: `# needs: root`."""
        why = re.match(r"# needs: (.*)\n", self.text)
        return why[1] if why else ""

    @property
    def is_commands(self) -> bool:
        return self.kind == "sh" and not self.text.startswith("#!")


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, one.start()) + 1, one[1], one[2]) for one in found]
