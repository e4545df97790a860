"""A CD that boots from BIOS, with nothing on it but what is booted (El Torito, no emulation)."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

SECTOR = 2048


def _descriptor(kind: int, rest: bytes) -> bytes:
    return (bytes([kind]) + b"CD001\x01" + rest).ljust(SECTOR, b"\0")


def _both(value: int, size: int) -> bytes:
    """A number of ISO 9660, in both byte orders."""
    return value.to_bytes(size, "little") + value.to_bytes(size, "big")


def write_iso(path: Path, boot: bytes) -> None:
    """Sectors: 16 what the disc is, 17 where its boot catalog is, 18 the end of these, 19 the
    catalog, 20 the root directory, 21 what is booted."""
    length = 21 + -(-len(boot) // SECTOR)
    entry = b"\x22\0" + _both(20, 4) + _both(SECTOR, 4) + bytes(7) + b"\x02\0\0" + _both(1, 2)
    root = (entry + b"\x01\0").ljust(34, b"\0")
    primary = b"\0" + b" " * 32 + b"INSTALL".ljust(32) + bytes(8) + _both(length, 4) + bytes(32)
    primary += _both(1, 2) + _both(1, 2) + _both(SECTOR, 2) + bytes(8 + 16) + root
    boot_record = b"EL TORITO SPECIFICATION".ljust(64, b"\0") + struct.pack("<I", 19)
    validation = bytearray(b"\x01\0\0\0" + bytes(24) + b"\0\0\x55\xaa")
    total = sum(struct.unpack("<16H", validation)) & 0xFFFF
    validation[28:30] = struct.pack("<H", (0x10000 - total) & 0xFFFF)
    first = struct.pack("<BBHBBHI", 0x88, 0, 0, 0, 0, len(boot) // 512, 21).ljust(32, b"\0")
    parent = bytearray(root)
    parent[33] = 1
    sectors = [
        _descriptor(1, primary),
        _descriptor(0, boot_record),
        _descriptor(255, b""),
        (bytes(validation) + first).ljust(SECTOR, b"\0"),
        (root + bytes(parent)).ljust(SECTOR, b"\0"),
    ]
    path.write_bytes(bytes(16 * SECTOR) + b"".join(sectors) + boot.ljust(SECTOR, b"\0"))


def assemble(source: Path, scratch: Path) -> bytes:
    """What a boot loader of that source is in memory, from 0x7c00 on."""
    made, linked = scratch / "boot.o", scratch / "boot.bin"
    subprocess.run(["as", "--32", "-o", made, source], check=True)
    link = ["ld", "-m", "elf_i386", "-Ttext=0x7c00", "--oformat=binary", "-o", linked, made]
    subprocess.run(link, check=True)
    return linked.read_bytes()
