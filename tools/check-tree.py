#!/usr/bin/env python3
"""Checks what the compiler does not: who includes whom, how large things get, what is called.

Prints each violation as "file:line: text" and exits with 1 if there is any. --format also runs
clang-format over all C files, without changing them.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 80

# Which folders of src a folder's files may include, besides its own.
MAY_INCLUDE = {
    "util": set(),
    "proto": {"util"},
    "journal": {"util"},
    "spec": {"util"},
    "store": {"util"},
    "net": {"util", "spec"},
    "pve": {"util"},
    "ssh": {"util"},
    "guest": {"util", "proto", "pve"},
    "driver": {"util", "proto", "journal", "spec", "store", "net", "guest", "pve"},
    "daemon": {"util", "proto", "journal", "spec", "store", "net", "guest", "driver", "pve"},
    "cli": {"util", "proto", "spec"},
    "runner": set(),
}
# Single headers besides.
MAY_INCLUDE_FILES = {
    # The daemon's end of what moat-ssh is told, and the runner that this starts.
    "guest": {"ssh/ssh.h"},
    "ssh": {"guest/wire.h"},
    # Built with musl for the guest, without the util library.
    "runner": {
        "guest/armour.h",
        "guest/wire.h",
        "proto/frame.h",
        "util/auto.h",
        "util/base64-raw.h",
        "util/iso.h",
        "util/sha256.h",
        "util/tree.h",
    },
}
# src/main.c, serve.c, helper.c, ssh.c: the programs, where parts meet that do not know each other.
MAIN_MAY_INCLUDE = {"cli", "daemon", "net", "ssh", "util"}

NEVER = {
    "system": "no shell: proc_run",
    "popen": "no shell: proc_run",
    "fork": "threads run: proc_start",
    "vfork": "threads run: proc_start",
    "strcpy": "not bounded",
    "strcat": "not bounded",
    "sprintf": "not bounded: snprintf",
    "vsprintf": "not bounded: vsnprintf",
    "gets": "not bounded",
    "sleep": "cannot be cancelled: op_pause",
    "usleep": "cannot be cancelled: op_pause",
    "nanosleep": "cannot be cancelled: op_pause",
    "dup": "leaks into children: F_DUPFD_CLOEXEC",
    "pipe": "leaks into children: pipe2",
    "accept": "leaks into children: accept4",
    "setenv": "threads run",
    "putenv": "threads run",
    "chdir": "threads run",
}
# (folder or file, call): why it is right there.
NEVER_EXCEPT = {
    ("src/util/guard.c", "fork"): "the guard is a process of its own, with one thread",
    ("src/runner", "fork"): "the runner has one thread",
    ("src/runner", "vfork"): "the runner has one thread",
    ("src/runner", "chdir"): "in the child, before the command",
    ("src/runner", "setenv"): "the runner has one thread",
    ("src/runner", "nanosleep"): "the runner has no op",
    ("src/runner/users.c", "strcpy"): "short literals into large arrays",
}

TEXT_SUFFIXES = {
    ".c",
    ".h",
    ".py",
    ".sh",
    ".md",
    ".build",
    ".txt",
    ".toml",
    ".yaml",
    ".yml",
    ".json",
    ".args",
}
TEXT_NAMES = {"Makefile", "LICENSE", "NOTICE", ".clang-format", ".gitignore"}
# A program's output or input, kept as it is.
VERBATIM = ("tests/golden/", "tests/fuzz/corpus/")


class Report:
    def __init__(self):
        self.count = 0

    def say(self, path, line, text):
        self.count += 1
        print(f"{path}:{line}: {text}")


def tracked_files():
    """What git knows or would add, so that a new file is checked before it is committed."""
    out = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout
    names = sorted(name for name in out.decode().split("\0") if name)
    return [name for name in names if (ROOT / name).is_file()]


def is_text(name, data):
    path = Path(name)
    if name.startswith(VERBATIM):
        return False
    return path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES or data.startswith(b"#!")


def check_blanks(name, data, report):
    if data and not data.endswith(b"\n"):
        report.say(name, data.count(b"\n") + 1, "no newline at the end of the file")
    if data.endswith(b"\n\n"):
        report.say(name, data.count(b"\n"), "blank line at the end of the file")
    for number, line in enumerate(data.split(b"\n"), 1):
        if line != line.rstrip():
            report.say(name, number, "blanks at the end of the line")


def without_comments_and_strings(text):
    """The same lines with comments, strings and characters emptied: only code is left."""
    pattern = re.compile(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
    )

    def blank(match):
        found = match.group(0)
        return '""' if found[0] == '"' else "0" if found[0] == "'" else "\n" * found.count("\n")

    return pattern.sub(blank, text)


def check_functions(name, code, report):
    """A function's body is between a "{" and a "}" that stand alone in the first column."""
    lines = code.split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start - 1 > FUNCTION_LINES_MAX:
                report.say(
                    name,
                    start,
                    f"function of {number - start - 1} lines, at most {FUNCTION_LINES_MAX}",
                )
            start = None


def check_includes(name, text, report):
    parts = name.split("/")
    folder = parts[1] if len(parts) > 2 else None
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        header = match.group(1)
        if not (ROOT / "src" / header).is_file():
            report.say(
                name, number, f'no such header in src: {header} (write it as "folder/name.h")'
            )
            continue
        target = header.split("/")[0]
        if folder is None:
            allowed = target in MAIN_MAY_INCLUDE
        elif folder not in MAY_INCLUDE:
            report.say(name, number, f"folder {folder} has no rule in tools/check-tree.py")
            return
        else:
            allowed = (
                target == folder
                or target in MAY_INCLUDE[folder]
                or header in MAY_INCLUDE_FILES.get(folder, ())
            )
        if not allowed:
            report.say(name, number, f"{folder or 'main'} may not include {header}")


def excepted(name, call):
    return (name, call) in NEVER_EXCEPT or ("/".join(name.split("/")[:2]), call) in NEVER_EXCEPT


def check_calls(name, code, report):
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(NEVER) + r")\s*\(")
    for number, line in enumerate(code.split("\n"), 1):
        for match in pattern.finditer(line):
            call = match.group(1)
            if not excepted(name, call):
                report.say(name, number, f"{call}(): {NEVER[call]}")


def check_size(name, data, report):
    lines = data.count(b"\n")
    if lines > FILE_LINES_MAX:
        report.say(name, lines, f"file of {lines} lines, at most {FILE_LINES_MAX}")


def check_c(name, text, report):
    code = without_comments_and_strings(text)
    check_functions(name, code, report)
    if name.startswith("src/"):
        check_includes(name, text, report)
        check_calls(name, code, report)
    if name.endswith(".h") and "#pragma once" not in text:
        report.say(name, 1, "no #pragma once")


def check_format(names, report):
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", *names], cwd=ROOT, capture_output=True, text=True
    )
    for line in result.stderr.split("\n"):
        match = re.match(r"(.*?):(\d+):\d+: error: ", line)
        if match:
            report.say(match.group(1), match.group(2), "not as clang-format writes it")
    if result.returncode and not report.count:
        report.say("clang-format", 0, result.stderr.strip() or "failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--format", action="store_true", help="also check the format of all C files"
    )
    options = parser.parse_args()
    report = Report()
    c_files = []
    for name in tracked_files():
        data = (ROOT / name).read_bytes()
        if is_text(name, data):
            check_blanks(name, data, report)
        if name.endswith((".c", ".h", ".py", ".sh")):
            check_size(name, data, report)
        if name.endswith((".c", ".h")):
            c_files.append(name)
            check_c(name, data.decode(errors="replace"), report)
    if options.format:
        check_format(c_files, report)
    if report.count:
        print(f"{report.count} violations", file=sys.stderr)
    return 1 if report.count else 0


if __name__ == "__main__":
    sys.exit(main())
