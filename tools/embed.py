#!/usr/bin/env python3
"""embed.py PREFIX OUTPUT SCRIPT... - makes C strings of scripts, for meson.

find-runner.sh becomes `const char PREFIXfind_runner[]`. Scripts are files of their own so that
linters see them. Shell scripts are sent into guests, so what only helps their readers stays behind:
whole lines of comment and empty ones. A line `. ./FILE`, as seen from the script, becomes what FILE
has, and a script whose name ends in .line.sh becomes one line, for a login shell that takes no
more: its commands end in ";" and it has no single quotes. Other scripts are embedded as they are.
"""

import re
import sys
from pathlib import Path


def shell_lines(path, read):
    read.append(path)
    for line in path.read_text().splitlines():
        included = re.fullmatch(r"\. (\.{1,2}/[\w./-]+)", line)
        if included:
            yield from shell_lines(path.parent / included[1], read)
        elif line and not line.lstrip().startswith("#"):
            yield line


def text_of(path, read):
    if path.suffix != ".sh":
        read.append(path)
        return path.read_text()
    lines = shell_lines(path, read)
    if not path.name.endswith(".line.sh"):
        return "".join(line + "\n" for line in lines)
    text = " ".join(line.strip() for line in lines)
    if "'" in text:
        sys.exit(f"{path}: a single quote")
    return text


def c_string(text):
    escaped = text
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\t", "\\t"), ("?", "\\?")):
        escaped = escaped.replace(plain, written)
    return "\n".join(f'\t"{line}\\n"' for line in escaped.split("\n")).removesuffix('\\n"') + '"'


def main():
    prefix, output, *scripts = sys.argv[1:]
    read = []
    with open(output, "w") as out:
        for path in map(Path, scripts):
            name = prefix + path.name.split(".")[0].replace("-", "_")
            out.write(f"extern const char {name}[];\n")
            out.write(f"const char {name}[] =\n{c_string(text_of(path, read))};\n")
    Path(output + ".d").write_text(f"{output}: {' '.join(map(str, read))}\n")


if __name__ == "__main__":
    main()
