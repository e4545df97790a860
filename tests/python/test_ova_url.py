"""OVAs that a configuration for the Proxmox plugin names by URL."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from e2e.mirror import Mirror
from pydantic import ValidationError

from inspect_moat import ProxmoxSandboxEnvironment, _download
from inspect_moat._download import DownloadError, cached_path, download
from inspect_moat._inspect_private import PrerequisiteError
from proxmoxsandbox.schema import ProxmoxSandboxEnvironmentConfig, VmConfig, VmSourceConfig

pytestmark = pytest.mark.anyio
PATH = "lab/victim.ova"


def ova() -> bytes:
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        entry = tarfile.TarInfo("victim.vmdk")
        entry.size = 4 << 20
        tar.addfile(entry, io.BytesIO(bytes(range(256)) * (4 << 12)))
    return text.getvalue()


CONTENT = ova()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("MOAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_download, "_TRIES", 2)
    (tmp_path / "served" / "lab").mkdir(parents=True)
    (tmp_path / "served" / PATH).write_bytes(CONTENT)
    served = Mirror(tmp_path / "served")
    yield served
    served.close()


def config_of(mirror: Mirror, **more: Any) -> ProxmoxSandboxEnvironmentConfig:
    source = VmSourceConfig(ova_url=f"{mirror.url}/{more.pop('path', PATH)}", **more)
    return ProxmoxSandboxEnvironmentConfig(vms_config=(VmConfig(vm_source_config=source),))


def file_of(config: ProxmoxSandboxEnvironmentConfig) -> Path:
    (vm,) = ProxmoxSandboxEnvironment.to_spec(config)["vms"]
    assert list(vm["source"]) == ["ova"]
    return Path(vm["source"]["ova"])


async def get(config: ProxmoxSandboxEnvironmentConfig) -> Path:
    source, file = config.vms_config[0].vm_source_config, file_of(config)
    await download(str(source.ova_url), source.ova_sha256, file)
    return file


async def test_it_is_downloaded_once_and_then_an_ova(mirror: Mirror) -> None:
    config = config_of(mirror, ova_sha256=SHA256.upper())
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(get, config)
    file = await get(config)
    assert (file.name, file.read_bytes()) == ("victim.ova", CONTENT)
    assert mirror.requests == [(PATH, "")]
    assert sorted(path.name for path in file.parent.iterdir()) == [".lock", "victim.ova"]
    (mirror.root / "7f3a").write_bytes(CONTENT)
    named = config_of(mirror, path="7f3a", ova_url_filename="other.ova")
    assert (await get(named)).name == "other.ova"


async def test_what_breaks_off_is_continued(mirror: Mirror) -> None:
    mirror.cut[PATH] = (1 << 20, 2)
    assert (await get(config_of(mirror))).read_bytes() == CONTENT
    assert mirror.ranges(PATH) == ["", f"bytes={1 << 20}-", f"bytes={2 << 20}-"]


async def test_a_server_that_cannot_continue_begins_anew(mirror: Mirror) -> None:
    mirror.cut[PATH] = (1 << 20, 1)
    mirror.no_ranges = True
    assert (await get(config_of(mirror))).read_bytes() == CONTENT


async def test_another_file_is_refused_and_forgotten(mirror: Mirror) -> None:
    config = config_of(mirror, ova_sha256="0" * 64)
    with pytest.raises(DownloadError, match=f"{PATH}: its SHA-256 is {SHA256}, it should be 0000"):
        await get(config)
    (mirror.root / "page.ova").write_text("<html>log in first</html>")
    with pytest.raises(DownloadError, match="it is no OVA"):
        await get(config_of(mirror, path="page.ova"))
    assert not list((mirror.root.parent / "cache").rglob("*.ova*"))
    with pytest.raises(DownloadError, match=r"missing\.ova: 404"):
        await get(config_of(mirror, path="missing.ova"))


async def test_an_eval_says_so_before_its_samples(mirror: Mirror) -> None:
    config = config_of(mirror, path="missing.ova")
    with pytest.raises(PrerequisiteError, match=r"sandbox proxmox: .*missing\.ova: 404"):
        await ProxmoxSandboxEnvironment.task_init("task", config)


async def test_who_gives_up_does_not_wait(mirror: Mirror) -> None:
    mirror.hold = threading.Event()
    mirror.cut[PATH] = (1 << 20, 1)
    config = config_of(mirror)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(get, config)
            await anyio.to_thread.run_sync(mirror.reached.wait, 60)
            group.cancel_scope.cancel()
        assert not file_of(config).exists()
    finally:
        mirror.hold.set()
    mirror.hold = None
    assert (await get(config)).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"ova_url": "ftp://x/y.ova"}, "is not http"),
        ({"ova_url": "http://x/"}, "name of a file"),
        ({"ova_url": "http://x/y.ova", "built_in": "debian13"}, "Exactly one source"),
        ({"ova": "y.ova", "ova_sha256": SHA256}, "are for ova_url"),
        ({"ova_url": "http://x/y.ova", "ova_sha256": "1"}, "ova_sha256"),
    ],
)
async def test_wrong_ones(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        VmSourceConfig(**fields)


async def test_no_name_leads_out_of_the_cache(mirror: Mirror) -> None:
    for name in ("..%2f..%2fx.ova", "%2e%2ea", "a%00b", ".lock"):
        file = cached_path(f"{mirror.url}/{name}")
        assert file.parent.parent == mirror.root.parent / "cache" / "ova"
        assert not file.name.startswith(".")
    with pytest.raises(ValueError, match="name of a file"):
        cached_path(f"{mirror.url}/%2e%2e")
