#!/usr/bin/env python3
"""Checks what the compiler does not: includes, sizes, calls, and the files that documents name.

Prints each violation as "file:line: text" and exits with 1 if there is any. --format also runs
clang-format over all C files, without changing them.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 80
DOC_COLUMNS_MAX = 100  # of prose: not of tables and code

FOLDER_FILES_MAX = 26

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
    "pthread_create": "thread_start",
    "pthread_join": "thread_join",
}
# (folder or file, call): why it is right there.
NEVER_EXCEPT = {
    ("src/util/system/guard.c", "fork"): "the guard is a process of its own, with one thread",
    ("src/util/thread/thread.c", "pthread_create"): "thread_start itself",
    ("src/util/thread/thread.c", "pthread_join"): "thread_join itself",
    ("src/moat-guest", "fork"): "the runner has one thread",
    ("src/moat-guest", "vfork"): "the runner has one thread",
    ("src/util/system/confine-root.c", "chdir"): "before the program's first thread",
    ("src/store/tree/enter.c", "chdir"): "the program has no threads",
    ("src/moat-guest", "chdir"): "in the child, before the command",
    ("src/moat-guest", "nanosleep"): "the runner has no op",
    ("src/moat-init", "fork"): "process 1 has one thread",
    ("src/store/tree/mapped.c", "fork"): "moat-disk has one thread",
    ("src/moat-init", "chdir"): "in process 1, before all others, and in the child",
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


class Rooms:
    """The folders of src, and which of them a folder's files may include besides their own, as the
    table in ARCHITECTURE.md says it. "util/*" there is util and its subfolders. The folder "" is
    src itself, which has the programs."""

    def __init__(self, report):
        self.report = report
        self.row_lines = {}
        self.may_include = {}
        self.includes = {}  # folder -> folders that it includes
        for number, line in enumerate((ROOT / "ARCHITECTURE.md").read_text().split("\n"), 1):
            row = re.match(r"\| `src(?:/([\w/-]+))?` \|.*\|([^|]*)\|$", line)
            if row:
                folder = row[1] or ""
                self.row_lines[folder] = number
                self.may_include[folder] = re.findall(r"`([\w/*-]+)`", row[2])

    def check_file(self, name, text):
        folder = name[len("src/") :].rpartition("/")[0]
        if folder not in self.may_include:
            self.report.say(name, 1, f"ARCHITECTURE.md has no row for src/{folder}")
            return
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match:
                self.check_include(name, number, folder, match[1])

    def check_include(self, name, number, folder, header):
        if not (ROOT / "src" / header).is_file():
            self.report.say(name, number, f"no such header: {header} (write it as seen from src)")
            return
        target = header.rpartition("/")[0]
        if target == folder:
            return
        self.includes.setdefault(folder, set()).add(target)
        if not any(covers(room, target) for room in self.may_include[folder]):
            self.report.say(name, number, f"{folder or 'src'} may not include {header}")

    def check_table(self):
        """Every row is needed, and no folder includes itself by way of others."""
        for folder, rooms in self.may_include.items():
            included = self.includes.get(folder, set())
            if not (ROOT / "src" / folder).is_dir():
                self.say(folder, f"there is no src/{folder}")
            for room in rooms:
                if not any(covers(room, target) for target in included):
                    self.say(folder, f"src/{folder} does not use {room}: do not allow it")
            if folder in self.reachable(folder):
                self.say(folder, f"src/{folder} includes itself by way of others")

    def reachable(self, folder):
        found, new = set(), {folder}
        while new:
            new = set().union(*(self.includes.get(one, set()) for one in new)) - found
            found |= new
        return found

    def say(self, folder, text):
        self.report.say("ARCHITECTURE.md", self.row_lines.get(folder, 0), text)


class Threads:
    """The locks and threads of src are those in the tables of ARCHITECTURE.md: the locks with their
    levels, the threads with the names that they are started with."""

    def __init__(self, report):
        self.report = report
        self.locks = {}  # name in the table -> (line, level)
        self.threads = set()
        self.declared = set()
        for number, line in enumerate((ROOT / "ARCHITECTURE.md").read_text().split("\n"), 1):
            row = re.match(r"\| `([\w.]+)` \| (outer|leaf) \|", line)
            if row:
                self.locks[row[1]] = (number, row[2])
            elif line.startswith("| `"):
                self.threads.update(re.findall(r"`([\w-]+)`", line.split("|")[1]))

    def check_file(self, name, text, code):
        if name.startswith("src/util/thread/lock."):
            return
        struct = None
        for number, line in enumerate(code.split("\n"), 1):
            start = re.match(r"(?:static )?struct (\w+) \{", line)
            member = re.match(r"\s+struct lock (\w+);", line)
            alone = re.match(r"(?:static )?struct lock (\w+)\b(?! *\()", line)
            struct = start[1] if start else struct
            if member or alone:
                self.check_declared(name, number, f"{struct}.{member[1]}" if member else alone[1])
            if re.search(r"pthread_(mutex|cond|rwlock|spin)_", line):
                self.report.say(name, number, "locks are those of util/thread/lock.h")
        init = r'(?:lock_init|LOCK_INIT)\([^";{]*"([^"]+)",\s*LOCK_(\w+)\)'
        for match in re.finditer(init, text):
            line = text.count("\n", 0, match.start()) + 1
            self.check_init(name, line, match[1], match[2].lower())
        for match in re.finditer(r'thread_start\([^";{]*"([^"]+)"', text):
            if match[1] not in self.threads:
                line = text.count("\n", 0, match.start()) + 1
                self.report.say(name, line, f"ARCHITECTURE.md has no row for thread {match[1]}")

    def check_declared(self, name, number, lock):
        self.declared.add(lock)
        if lock not in self.locks:
            self.report.say(name, number, f"ARCHITECTURE.md has no row for lock {lock}")

    def check_init(self, name, number, lock, level):
        if lock not in self.locks:
            self.report.say(name, number, f"ARCHITECTURE.md has no row for lock {lock}")
        elif self.locks[lock][1] != level:
            self.report.say(name, number, f"lock {lock} is not {level} in ARCHITECTURE.md")

    def check_table(self):
        for lock, (number, _) in self.locks.items():
            if lock not in self.declared:
                self.report.say("ARCHITECTURE.md", number, f"there is no lock {lock}")


def covers(room, target):
    """Whether a folder is what the table calls `room` or `room/*`."""
    if room.endswith("/*"):
        return target == room[:-2] or target.startswith(room[:-1])
    return target == room


def check_folders(names, report):
    counts = Counter(name.rpartition("/")[0] for name in names if name.startswith("src/"))
    for folder, count in counts.items():
        if count > FOLDER_FILES_MAX:
            report.say(folder, 0, f"folder of {count} files, at most {FOLDER_FILES_MAX}")


class Calls:
    """Calls that are never right, but for the exceptions. An exception that nothing needs is
    reported too."""

    def __init__(self, report):
        self.report = report
        self.needed = set()

    def check_file(self, name, code):
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(NEVER) + r")\s*\(")
        for number, line in enumerate(code.split("\n"), 1):
            for match in pattern.finditer(line):
                call = match.group(1)
                if not self.excepted(name, call):
                    self.report.say(name, number, f"{call}(): {NEVER[call]}")

    def excepted(self, name, call):
        found = {(name, call), ("/".join(name.split("/")[:2]), call)} & NEVER_EXCEPT.keys()
        self.needed |= found
        return bool(found)

    def check_exceptions(self):
        for where, call in NEVER_EXCEPT.keys() - self.needed:
            self.report.say("tools/check-tree.py", 0, f"{where} has no {call}(): do not except it")


def check_size(name, data, report):
    lines = data.count(b"\n")
    if lines > FILE_LINES_MAX:
        report.say(name, lines, f"file of {lines} lines, at most {FILE_LINES_MAX}")


def check_c(name, text, rooms, threads, calls, report):
    code = without_comments_and_strings(text)
    check_functions(name, code, report)
    if name.startswith("src/"):
        rooms.check_file(name, text)
        threads.check_file(name, text, code)
        calls.check_file(name, code)
    if name.endswith(".h") and "#pragma once" not in text:
        report.say(name, 1, "no #pragma once")


class Docs:
    """What *.md and comments say of the tree: the files that they name must be there."""

    # A path in back-ticks is checked if it begins with a folder of the tree or of src, or is of C.
    NAMED_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.*-]*)`")
    LINK = re.compile(r"\]\(([^)#:]*)(#[^):]*)?\)")
    # A row of the table that says where things are: what, in which file, in which function.
    PLACE = re.compile(r"\|[^|]*\| `([\w./-]+)` \| `(\w+)` \|$")
    COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
    FILE_IN_COMMENT = re.compile(r"(?<![\w/.-])([\w-]+(?:/[\w-]+)*\.(?:c|h|md))\b")

    def __init__(self, names, report):
        self.report = report
        self.names = names
        self.tops = {name.partition("/")[0] for name in names if "/" in name}
        self.tops |= {name.split("/")[1] for name in names if name.startswith("src/")}

    def is_there(self, path):
        return any(any(base.glob(path)) for base in (ROOT, ROOT / "src"))

    def check_md(self, name, text):
        code = False
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("```"):
                code = not code
                continue
            if not code and not line.startswith("    "):
                self.check_line(name, number, line)
                if not line.startswith("|") and len(line) > DOC_COLUMNS_MAX:
                    self.report.say(name, number, f"line of {len(line)} characters")

    def check_line(self, name, number, line):
        for path in self.NAMED_PATH.findall(line):
            ours = path.partition("/")[0] in self.tops or path.endswith((".c", ".h"))
            if ours and not self.is_there(path.rstrip("/")):
                self.report.say(name, number, f"there is no {path}")
        for target, anchor in self.LINK.findall(line):
            path = (ROOT / name).parent / target if target else ROOT / name
            if not path.exists():
                self.report.say(name, number, f"there is no {target}")
            elif anchor and anchor[1:] not in anchors_of(path.read_text()):
                self.report.say(name, number, f"no heading for {target}{anchor}")
        place = self.PLACE.match(line)
        file = ROOT / place[1] if place else None
        if file and file.is_file() and not re.search(rf"\b{place[2]}\b", file.read_text()):
            self.report.say(name, number, f"no {place[2]} in {place[1]}")

    def check_comments(self, name, text):
        for comment in self.COMMENT.finditer(text):
            for match in self.FILE_IN_COMMENT.finditer(comment[0]):
                path = match[1]
                known = any(f"/{n}".endswith(f"/{path}") for n in self.names)
                if known or path.startswith("linux/"):
                    continue
                number = text.count("\n", 0, comment.start() + match.start()) + 1
                self.report.say(name, number, f"there is no {path}")


def anchors_of(markdown):
    """The headings, as links name them."""
    headings = re.findall(r"^#+ (.*)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}


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
    rooms = Rooms(report)
    threads = Threads(report)
    calls = Calls(report)
    c_files = []
    names = tracked_files()
    docs = Docs(names, report)
    for name in names:
        data = (ROOT / name).read_bytes()
        if is_text(name, data):
            check_blanks(name, data, report)
        if name.endswith((".c", ".h", ".py", ".sh")):
            check_size(name, data, report)
        if name.endswith((".c", ".h")):
            c_files.append(name)
            check_c(name, data.decode(errors="replace"), rooms, threads, calls, report)
            docs.check_comments(name, data.decode(errors="replace"))
        if name.endswith(".md"):
            docs.check_md(name, data.decode())
    rooms.check_table()
    threads.check_table()
    calls.check_exceptions()
    check_folders(names, report)
    if options.format:
        check_format(c_files, report)
    if report.count:
        print(f"{report.count} violations", file=sys.stderr)
    return 1 if report.count else 0


if __name__ == "__main__":
    sys.exit(main())
