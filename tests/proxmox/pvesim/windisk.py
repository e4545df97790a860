"""The disk of a pretended Windows guest: names without regard to case, drive C: only."""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

NO_FILE = "The system cannot find the file specified."
NO_PATH = "The system cannot find the path specified."
DENIED = "Access is denied."
BAD_NAME = "The filename, directory name, or volume label syntax is incorrect."


class WinError(Exception):
    """What Windows says."""


class Node(NamedTuple):
    name: str
    data: bytes | None  # None: a directory
    denied: bool = False


class Disk:
    """Nodes by their path in lower case: "c:\\windows"; those of directories are there too."""

    def __init__(self) -> None:
        self.files: dict[str, Node] = {"c:": Node("C:", None)}

    def full(self, path: str, cwd: str = "C:\\Windows\\System32") -> str:
        """As the system understands it: slashes are backslashes, dots are taken out."""
        path = path.replace("/", "\\")
        if path[1:2] != ":":
            path = path[:0] + (cwd[:2] + path if path.startswith("\\") else cwd + "\\" + path)
        drive, rest = path[:2], path[2:]
        if drive.lower() != "c:":
            raise WinError(NO_PATH)
        if any(c in rest for c in '<>:"|?*') or any(ord(c) < 32 for c in rest):
            raise WinError(BAD_NAME)
        parts: list[str] = []
        for part in rest.split("\\"):
            if part == "..":
                parts = parts[:-1]
            elif part not in ("", "."):
                parts.append(part.rstrip(" ."))
        return "\\".join(["C:", *parts])

    def get(self, full: str) -> Node | None:
        return self.files.get(full.lower())

    def is_dir(self, full: str) -> bool:
        node = self.get(full)
        return node is not None and node.data is None

    def parent(self, full: str) -> None:
        if not self.is_dir(full.rpartition("\\")[0]):
            raise WinError(NO_PATH)

    def read(self, full: str) -> bytes:
        node = self.get(full)
        if node is None:
            self.parent(full)
            raise WinError(NO_FILE)
        if node.data is None or node.denied:
            # CreateFile does not tell a directory from a file of somebody else.
            raise WinError(DENIED)
        return node.data

    def write(self, full: str, data: bytes) -> None:
        node = self.get(full)
        self.parent(full)
        above = self.get(full.rpartition("\\")[0])
        if (node is not None and (node.data is None or node.denied)) or (above and above.denied):
            raise WinError(DENIED)
        name = node.name if node else full.rpartition("\\")[2]
        self.files[full.lower()] = Node(name, data)

    def mkdir(self, full: str) -> None:
        """With all above it."""
        if self.get(full) is not None:
            raise WinError(f"A subdirectory or file {full} already exists.")
        above = full.rpartition("\\")[0]
        if self.get(above) is None:
            self.mkdir(above)
        node = self.get(above)
        if node is None or node.data is not None:
            raise WinError(NO_PATH)
        if node.denied:
            raise WinError(DENIED)
        self.files[full.lower()] = Node(full.rpartition("\\")[2], None)

    def names(self, full: str) -> list[Node]:
        start = full.lower() + "\\"
        return [
            node
            for key, node in sorted(self.files.items())
            if key.startswith(start) and "\\" not in key[len(start) :]
        ]

    def remove(self, pattern: str, cwd: str) -> int:
        """Files by a name with wildcards; how many there were."""
        folder, _, name = pattern.replace("/", "\\").rpartition("\\")
        where = self.full(folder or ".", cwd)
        found = [
            node.name
            for node in self.names(where)
            if node.data is not None and fnmatch.fnmatch(node.name.lower(), name.lower())
        ]
        for one in found:
            del self.files[f"{where}\\{one}".lower()]
        return len(found)
