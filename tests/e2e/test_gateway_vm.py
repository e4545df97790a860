"""A VM as the default route of networks: the example of that."""

from __future__ import annotations

from pathlib import Path

from home import Home

EXAMPLE = Path(__file__).parents[2] / "examples" / "router.yaml"


def test_the_example(home: Home) -> None:
    sandbox = home.ok("up", str(EXAMPLE))

    def sh(vm: str, script: str) -> str:
        return home.ok("exec", "--vm", vm, "-u", "root", sandbox, "--", "sh", "-c", script)

    assert "default via 10.90.1.1 " in sh("attacker", "ip route")
    assert "default via 10.90.2.1 " in sh("victim", "ip route")
    address = sh("victim", "ip -4 -o addr show dev eth0").split()[3].split("/")[0]
    assert address == "10.90.2.10"
    sh("router", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    # the router's second card may come up late
    sh("attacker", f"until ping -c 1 -W 5 {address}; do sleep 0.1; done")
    sh("router", "echo 0 >/proc/sys/net/ipv4/ip_forward")
    assert home.run(
        "exec", "--vm", "attacker", sandbox, "--", "ping", "-c", "1", "-W", "3", address
    ).returncode
    home.ok("rm", sandbox)
