#!/usr/bin/env python3
"""embed-page.py OUTPUT DIRECTORY - packs the files of a page into a C file, for meson.

The files are those of the directory and below, but for what no browser asks for. They are
compressed here, always to the same bytes. index.html is "/".
"""

import gzip
import sys
from pathlib import Path

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def c_bytes(data):
    lines = (data[at : at + 24] for at in range(0, len(data), 24))
    return "\n".join("\t" + "".join(f"{byte}," for byte in line) for line in lines)


def main():
    output, directory = Path(sys.argv[1]), Path(sys.argv[2])
    files = sorted(path for path in directory.rglob("*") if path.suffix in TYPES)
    arrays, rows = [], []
    for number, path in enumerate(files):
        name = "/" + str(path.relative_to(directory))
        packed = gzip.compress(path.read_bytes(), 9, mtime=0)
        arrays.append(f"static const uint8_t file{number}[] = {{\n{c_bytes(packed)}\n}};\n")
        where = "/" if name == "/index.html" else name
        rows.append(
            f'\t{{"{where}", "{TYPES[path.suffix]}", {{file{number}, sizeof(file{number})}}}},\n'
        )
    output.write_text(
        '#include "web/page.h"\n\n'
        + "".join(arrays)
        + "const struct page_file page_files[] = {\n"
        + "".join(rows)
        + f"}};\nconst unsigned page_file_count = {len(files)};\n"
    )
    Path(f"{output}.d").write_text(f"{output}: {' '.join(map(str, files))}\n")


if __name__ == "__main__":
    main()
