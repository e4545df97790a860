"""Files of the net that a configuration names: downloaded once, checked, and kept in the cache.

Processes share the cache. A download has a lock and goes into a file of its own, which gets its
name when it is whole; one that was interrupted is continued.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import tarfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import anyio
import anyio.to_thread

_PIECE = 1 << 20
_SILENCE_SECONDS = 60  # a server that sends nothing for so long is given up
_TRIES = 5
_NAME_MAX = 100


class DownloadError(ValueError):
    """The file cannot be had, or is not what it should be. The text names the URL."""


def cached_path(url: str, sha256: str | None = None, name: str | None = None) -> Path:
    """Where the file of a URL is, or will be. name: what to call it; None: as the URL does.

    Raises:
        ValueError: it is no URL of a file.
    """
    parts = urllib.parse.urlsplit(url)
    name = name or os.path.basename(urllib.parse.unquote(parts.path))
    safe = "".join(c if c.isalnum() or c in "-._" else "_" for c in name)[-_NAME_MAX:].lstrip(".")
    if parts.scheme not in ("http", "https") or not parts.netloc or not safe:
        raise ValueError(f"{url!r} is not http:// or https:// with the name of a file")
    key = hashlib.sha256(f"{url}\n{sha256 or ''}".encode()).hexdigest()[:16]
    return _cache() / "ova" / key / safe


async def download(url: str, sha256: str | None, file: Path) -> None:
    """Get the OVA of that URL, if it is not in the cache. Others that want it wait.

    Args:
        url: `http://` or `https://`.
        sha256: what the file must have, in hex. Without it the file must be as long as the server
            said, and a tar archive.
        file: what `cached_path` says.

    Raises:
        DownloadError: it cannot be had, or is another file.
    """
    if file.exists():
        return
    given_up = threading.Event()
    try:
        # The thread goes on until its next piece; nobody waits for that.
        await anyio.to_thread.run_sync(
            _download_locked, url, sha256, file, given_up, abandon_on_cancel=True
        )
    finally:
        given_up.set()


def _cache() -> Path:
    """moat's cache directory, as docs/configuration.md says."""
    if own := os.environ.get("MOAT_CACHE_DIR"):
        return Path(own)
    if home := os.environ.get("MOAT_HOME"):
        return Path(home) / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moat"


def _download_locked(url: str, sha256: str | None, file: Path, given_up: threading.Event) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file.parent / ".lock", "wb") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if given_up.wait(0.2):
                    return
        if file.exists():
            return
        part = file.with_name(file.name + ".part")
        _fill(url, part, given_up)
        if given_up.is_set():
            return
        _check(url, sha256, part)
        part.rename(file)


def _fill(url: str, part: Path, given_up: threading.Event) -> None:
    """Download the rest of it. What breaks off is continued, as often as there is progress."""
    tries = _TRIES
    while tries and not given_up.is_set():
        before = part.stat().st_size if part.exists() else 0
        try:
            if _fetch_from(url, part, before, given_up):
                return
            why: object = "it broke off"
        except urllib.error.HTTPError as ex:
            if ex.code < 500:
                raise DownloadError(f"{url}: {ex.code} {ex.reason}") from None
            why = f"{ex.code} {ex.reason}"
        except (OSError, http.client.HTTPException) as ex:
            why = ex
        after = part.stat().st_size if part.exists() else 0
        tries = _TRIES if after > before else tries - 1
    if not given_up.is_set():
        raise DownloadError(f"{url}: {why}")


def _fetch_from(url: str, part: Path, start: int, given_up: threading.Event) -> bool:
    """Append what comes from there on. Returns whether that was the end of the file."""
    request = urllib.request.Request(url)
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        answer = urllib.request.urlopen(request, timeout=_SILENCE_SECONDS)
    except urllib.error.HTTPError as ex:
        if ex.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        part.unlink()  # it is another file by now, or had come whole: once more from the start
        return False
    with answer:
        continued = answer.status == http.client.PARTIAL_CONTENT
        length = answer.headers.get("Content-Length")
        come = 0
        with open(part, "ab" if continued else "wb") as out:
            while not given_up.is_set() and (piece := answer.read(_PIECE)):
                out.write(piece)
                come += len(piece)
        return length is None or come == int(length)


def _check(url: str, sha256: str | None, part: Path) -> None:
    """Refuse, and forget, a file that is not the right one."""
    if sha256 is not None:
        found = _sha256_of(part)
        right = found == sha256.lower()
        wrong = f"its SHA-256 is {found}, it should be {sha256.lower()}"
    else:
        right, wrong = tarfile.is_tarfile(part), "it is no OVA (no tar archive)"
    if not right:
        part.unlink()
        raise DownloadError(f"{url}: {wrong}")


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
