"""Whole evals: two samples at a time, each with machines and an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from vagrant_home import FILES, TIMEOUT, VagrantHome


def test_an_eval(home: VagrantHome, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "inspect_ai", "eval", "ctf.py", "--model", "mockllm/model"]
    done = subprocess.run(
        [*command, "--display", "plain", "--log-dir", str(tmp_path), "--log-format", "json"],
        cwd=FILES,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * TIMEOUT,
        check=False,
    )
    (file,) = tmp_path.glob("*.json")
    log = json.loads(file.read_text())
    assert log["status"] == "success", done.stdout
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1.0
    home.wait_until_clean()
