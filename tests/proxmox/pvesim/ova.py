"""What the server tells about an uploaded image before it is imported."""

from __future__ import annotations

import re
import tarfile
import xml.etree.ElementTree as ElementTree
from typing import Any

from .errors import fail
from .state import Volume

BUSES = {"5": "ide", "6": "scsi", "20": "sata"}


def local_name(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


def text_of(item: ElementTree.Element, name: str) -> str:
    return next((child.text or "" for child in item if local_name(child.tag) == name), "")


def envelope(volume: Volume) -> ElementTree.Element:
    try:
        if volume.form == "ovf":
            return ElementTree.fromstring(volume.path.read_text())
        with tarfile.open(volume.path) as archive:
            name = next(entry for entry in archive.getnames() if entry.endswith(".ovf"))
            file = archive.extractfile(name)
            assert file is not None
            return ElementTree.fromstring(file.read())
    except (OSError, tarfile.TarError, StopIteration, ElementTree.ParseError) as why:
        raise fail(f"unable to read OVF: {why}") from None


def metadata(volume: Volume) -> dict[str, Any]:
    if volume.content != "import":
        raise fail(f"volume '{volume.volid}' is not an import volume")
    if volume.form not in ("ova", "ovf"):
        raise fail("import metadata is only available for OVA and OVF")
    root = envelope(volume)
    files = {}
    disks: dict[str, str] = {}
    for element in root.iter():
        given = {local_name(key): value for key, value in element.attrib.items()}
        if local_name(element.tag) == "File":
            files[given.get("id", "")] = given.get("href", "")
        elif local_name(element.tag) == "Disk":
            disks[given.get("diskId", "")] = given.get("fileRef", "")
    create: dict[str, Any] = {"name": "imported"}
    drives: dict[str, Any] = {}
    items = [element for element in root.iter() if local_name(element.tag) == "Item"]
    # The bus of a disk is its controller's, SATA if there is none that is known.
    buses = {
        text_of(item, "InstanceID"): BUSES.get(text_of(item, "ResourceType"), "") for item in items
    }
    for item in items:
        kind = text_of(item, "ResourceType")
        if kind == "3":
            create["cores"] = int(text_of(item, "VirtualQuantity") or 1)
        elif kind == "4":
            create["memory"] = int(text_of(item, "VirtualQuantity") or 512)
        elif kind == "17":
            match = re.search(r"disk/(.+)$", text_of(item, "HostResource"))
            file = files.get(disks.get(match.group(1), ""), "") if match else ""
            if file:
                bus = buses.get(text_of(item, "Parent")) or "sata"
                drives[f"{bus}{len(drives)}"] = {"volid": f"{volume.volid}/{file}"}
    for element in root.iter():
        if local_name(element.tag) == "VirtualSystem":
            create["name"] = next(
                (value for key, value in element.attrib.items() if local_name(key) == "id"),
                "imported",
            )
    return {
        "type": "vm",
        "source": "ova" if volume.form == "ova" else "ovf",
        "create-args": create,
        "disks": drives,
        "net": {},
        "warnings": [{"type": "ova-needs-extracting"}] if volume.form == "ova" else [],
    }
