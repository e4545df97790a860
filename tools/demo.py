#!/usr/bin/env python3
"""make demo: runs the examples as Inspect evaluations in VMs of this machine, with the mock model.

tools/demo.py [--logs DIR] [EXAMPLE...]   all examples, or those named; --list names them

The first one shows what Inspect prints; the others run two at a time and get a line each.
$MOAT_BIN is the binary.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INSPECT = Path(sys.executable).parent / "inspect"
TAIL_LINES = 40


@dataclass(frozen=True)
class Example:
    name: str
    shows: str
    image: str = "tiny"


EXAMPLES = [
    Example("hello", "one VM, one command"),
    Example("files_and_setup", "files and a setup script for each sample"),
    Example("snapshots", "tools that save the machine and bring it back"),
    Example("ctf", "an attacker and a victim on a network of their own"),
    Example("compose_ctf", "a compose file: three services, two networks", "container"),
    Example("tools", "bash, python and text_editor", "debian12"),
    Example("bash_session", "a shell that keeps its state", "debian12"),
    Example("human", "a human at the keyboard, played by a script", "debian12"),
]


def run_eval(example: Example, logs: Path, show: bool) -> tuple[str, str]:
    """Whether it went well ("right" or "wrong"), and what was printed."""
    command = [
        str(INSPECT), "eval", f"{example.name}.py",
        "--model", "mockllm/model", "--display", "plain",
        "--log-dir", str(logs / example.name), "--log-format", "json",
    ]  # fmt: skip
    started = time.time()
    done = subprocess.run(
        command,
        cwd=ROOT / "examples",
        stdin=subprocess.DEVNULL,
        stdout=None if show else subprocess.PIPE,
        stderr=None if show else subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = done.stdout or ""
    new = [log for log in (logs / example.name).glob("*.json") if log.stat().st_mtime >= started]
    log = new[0].read_text() if new else ""
    right = log and done.returncode == 0 and is_right(json.loads(log))
    return "right" if right else "wrong", printed


def is_right(log: dict[str, Any]) -> bool:
    if log["status"] != "success":
        return False
    scores = log["results"]["scores"]
    return bool(scores) and scores[0]["metrics"]["accuracy"]["value"] == 1.0


def show(example: Example, logs: Path, all_of_it: bool = False) -> bool:
    """Run an example and print the line about it. False if it failed."""
    begun = time.monotonic()
    verdict, printed = run_eval(example, logs, all_of_it)
    seconds = time.monotonic() - begun
    line = f"{example.name:16} {verdict:6} {seconds:4.0f} s   {example.shows}"
    if verdict == "wrong":
        line = "\n".join([line, *printed.splitlines()[-TAIL_LINES:]])
    print(line, flush=True)
    return verdict != "wrong"


def build_image(name: str) -> None:
    subprocess.run([os.environ["MOAT_BIN"], "image", "build", name], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the examples.")
    parser.add_argument("--list", action="store_true", help="name the examples")
    parser.add_argument("--logs", type=Path, default=ROOT / "build" / "demo-logs")
    parser.add_argument("names", nargs="*", metavar="EXAMPLE")
    options = parser.parse_args()
    known = {example.name: example for example in EXAMPLES}
    if options.list:
        print("\n".join(known))
        return 0
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = [known[name] for name in options.names] or EXAMPLES
    build_image(wanted[0].image)
    failed = not show(wanted[0], options.logs, all_of_it=True)
    for image in sorted({example.image for example in wanted[1:]} - {wanted[0].image}):
        build_image(image)
    with ThreadPoolExecutor(max_workers=2) as pool:
        shown = list(pool.map(lambda example: show(example, options.logs), wanted[1:]))
    print(
        f"\nThese were Inspect evaluations in VMs of this machine. Look at them:\n"
        f"  {INSPECT} view --log-dir {options.logs}\n"
        f"Now try it by hand:\n"
        f"  {os.environ['MOAT_BIN']} up tiny\n"
        f"  {os.environ['MOAT_BIN']} ls"
    )
    return 1 if failed or not all(shown) else 0


if __name__ == "__main__":
    sys.exit(main())
