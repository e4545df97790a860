"""The page of the web console in a real browser, with real VMs.

Only what needs hundreds of sandboxes has a daemon of its own.
"""

from __future__ import annotations

import http.server
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from console import Console, console
from home import TINY, Home
from many_sandboxes import ManySandboxes
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tools import in_guest, listed, until

# Without the latter ones it looks for hosts that are not there.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000
LONG_NAME = "victim-with-a-rather-long-name"
LAB = {
    "vms": [
        {
            "name": "attacker",
            "source": "tiny",
            "ram_mb": 192,
            "vcpus": 1,
            "vga": "std",
            "nics": [{"vnet": "lan"}, {"vnet": "internet"}],
        },
        {
            "name": LONG_NAME,
            "source": "tiny",
            "ram_mb": 192,
            "vcpus": 1,
            "nics": [{"vnet": "lan"}],
        },
    ],
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "subnets": [
                    {
                        "cidr": "10.77.0.0/24",
                        "dhcp_ranges": [{"start": "10.77.0.10", "end": "10.77.0.90"}],
                    }
                ],
            },
            {
                "alias": "internet",
                "egress": {"allow": {"domains": ["pypi.example", "*.forge.example"]}},
                "subnets": [
                    {
                        "cidr": "10.78.0.0/24",
                        "gateway": "10.78.0.1",
                        "snat": True,
                        "dhcp_ranges": [{"start": "10.78.0.10", "end": "10.78.0.90"}],
                    }
                ],
            },
        ]
    },
}
# Where the pictures of docs/web.md go.
PICTURES = os.environ.get("MOAT_PICTURES", "")

pytestmark = pytest.mark.needs_root("it makes networks")

NewPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Makes pages; what goes wrong in one fails the test."""
    wrong: list[str] = []
    contexts = []

    def make(url: str, **how: Any) -> Page:
        how.setdefault("viewport", {"width": 1280, "height": 860})
        context = browser.new_context(**how)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(url)
        return page

    yield make
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture(scope="module")
def lab() -> Iterator[Home]:
    """A home with one sandbox of two VMs."""
    home = Home()
    labels = ("-l", "task=ctf/pwn-the-lan", "-l", "sample=sql-injection-12", "-l", "epoch=1")
    home.sandbox = home.up(LAB, "-n", "lab", *labels)  # type: ignore[attr-defined]
    yield home
    home.close()


@pytest.fixture(scope="module")
def served(lab: Home) -> Iterator[Console]:
    with console(lab) as made:
        yield made


def allow_changes(page: Page) -> None:
    page.locator(".switch").click()
    expect(page.locator(".switch")).to_contain_text("Changes allowed")


def tab(page: Page, name: str) -> None:
    page.locator(".tabs a", has_text=name).click()


def is_shown(page: Page) -> None:
    """The screen has come. The page forbids what playwright would wait by."""
    shot = "(document.querySelector('img.shot')?.naturalWidth || 0) > 100"
    until(lambda: page.evaluate(shot), "there is a picture of the screen", 60)


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=f"{PICTURES}/web-{name}.png")


def in_lab(home: Home, view: str = "overview", vm: str = "attacker") -> str:
    return f"/sandbox/{home.sandbox}/{view}/{vm}"  # type: ignore[attr-defined]


expect.set_options(timeout=PATIENCE_MS)


def test_the_token_stays_out_of_sight(served: Console, new_page: NewPage) -> None:
    page = new_page(served.url)
    expect(page.locator("a.row")).to_have_count(1)
    assert page.url == f"http://127.0.0.1:{served.port}/"
    assert page.evaluate("history.length") <= 2
    page.reload()  # this tab keeps it
    expect(page.locator("a.row")).to_have_count(1)
    stranger = new_page(f"http://127.0.0.1:{served.port}/")
    expect(stranger.locator("h1")).to_have_text("Which console?")
    late = new_page(f"http://127.0.0.1:{served.port}/#{'0' * 32}")
    expect(late.locator("h1")).to_have_text("Which console?")


def test_the_list_follows_by_itself(lab: Home, served: Console, new_page: NewPage) -> None:
    page, other = new_page(served.page()), new_page(served.page())
    for one in (page, other):
        expect(one.locator("a.row")).to_have_text(["lab"])
    page.evaluate("window.same = true")
    box = lab.up(TINY, "-l", "task=ctf/pwn-the-lan", "-l", "sample=7")
    for one in (page, other):
        expect(one.locator("a.row")).to_have_text([box, "lab"])
        expect(one.locator(f"tr[data-id='{box}'] .badge")).to_have_text("running")
    # What it uses is told, too.
    expect(page.locator(f"tr[data-id='{box}'] td").nth(5)).to_contain_text("MiB")
    picture(page, "list")
    page.get_by_label("Filter").fill("sql-inj")
    expect(page.locator("a.row")).to_have_text(["lab"])
    page.get_by_label("Filter").fill("")
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("lab")
    page.keyboard.press("Escape")
    lab.ok("rm", box)
    for one in (page, other):
        expect(one.locator("a.row")).to_have_text(["lab"])
    assert page.evaluate("window.same")


def test_a_sandbox_is_shown(lab: Home, served: Console, new_page: NewPage) -> None:
    in_guest(lab, "lab", "nslookup evil.example 10.78.0.1 || true")
    lab.ok("forward", "lab", "22")
    page = new_page(served.page(in_lab(lab)))
    drawing = page.locator("svg.topology")
    expect(drawing).to_contain_text("10.77.0.10")
    for text in ("10.78.0.0/24", "nothing gets out", "*.forge.example", "refused", "→22"):
        expect(drawing).to_contain_text(text)
    assert_nothing_overlaps(page)
    # The one VM that has a display is shown live, the other is left alone.
    shot = page.locator(".vmcard img.shot")
    expect(shot).to_have_count(1)
    is_shown(page)
    expect(page.locator(".noshot")).to_have_count(1)
    # That the page looks does not change what places others count in.
    lab.ok("screenshot", "--vm", "attacker", "--size", "300x200", "lab", f"{lab.dir}/small.png")
    taken = "document.querySelector('img.shot').src"
    before = page.evaluate(taken)
    until(lambda: page.evaluate(taken) != before, "the page has taken another picture", 60)
    said = lab.fails("input", "--vm", "attacker", "lab", "click", "300", "1")
    assert "outside the picture, which has 300x200 pixels" in said
    expect(page.locator(".vmcard").first).to_contain_text("tiny")
    picture(page, "sandbox")
    tab(page, "Network")
    expect(page.locator("table.refused")).to_contain_text("evil.example")
    picture(page, "network")
    tab(page, "Console log")
    expect(page.locator(".shellview.log .xterm-rows")).to_be_visible()
    in_guest(lab, "lab", "echo a line of $((6 * 7)) words >/dev/ttyS0")
    expect(page.locator(".xterm-rows")).to_contain_text("a line of 42 words")
    for width in (1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        tab(page, "Overview")
        expect(drawing).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def assert_nothing_overlaps(page: Page) -> None:
    """No line of the drawing meets a label, and no label leaves its box."""
    said = page.evaluate(
        """() => {
      const box = (e) => e.getBoundingClientRect();
      const within = (a, b, from, to) => a[from] < b[to] && b[from] < a[to];
      const meets = (a, b) => within(a, b, 'left', 'right') && within(a, b, 'top', 'bottom');
      const all = (what) => [...document.querySelectorAll('svg.topology ' + what)];
      const wrong = [];
      const texts = all('text');
      for (const line of all('line')) for (const text of texts)
        if (meets(box(line), box(text))) wrong.push('a line through ' + text.textContent);
      texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => {
        if (meets(box(a), box(b))) wrong.push(a.textContent + ' on ' + b.textContent);
      }));
      for (const vm of all('g.vm')) for (const text of vm.querySelectorAll('text'))
        if (box(text).right > box(vm.querySelector('rect')).right)
          wrong.push('too long: ' + text.textContent);
      return wrong;
    }"""
    )
    assert said == []


def test_a_terminal(lab: Home, served: Console, new_page: NewPage) -> None:
    page = new_page(served.page(in_lab(lab, "terminal")))
    expect(page.get_by_text("The console only looks")).to_be_visible()
    assert page.get_by_role("button", name="Open a shell").is_disabled()
    assert "touched" not in listed(lab)[0]
    allow_changes(page)
    page.get_by_role("button", name="Open a shell").click()
    rows = page.locator(".xterm-rows")
    expect(rows).to_contain_text("attacker")
    page.keyboard.type("echo $((6 * 7))-$(hostname)\n")
    expect(rows).to_contain_text("42-attacker")
    page.keyboard.type("while sleep 1; do clear; stty size; done\n")

    def size() -> tuple[int, int]:
        found = re.fullmatch(r"\s*(\d+) (\d+)\s*", rows.inner_text())
        return (int(found[1]), int(found[2])) if found else (0, 0)

    height, width = until(lambda: (now := size())[0] and now, "its size is told", 60)
    page.set_viewport_size({"width": 1600, "height": 700})
    until(lambda: 0 < size()[0] < height and size()[1] > width, "it has another size", 60)
    page.set_viewport_size({"width": 1280, "height": 860})
    until(lambda: size() == (height, width), "it has its size again", 60)
    page.keyboard.press("Control+c")
    page.keyboard.type("clear; ls -l /\n")
    expect(rows).to_contain_text("tmp")
    picture(page, "terminal")
    # It stays while one looks at something else.
    page.keyboard.type("echo still-$((1 + 1))\n")
    tab(page, "Network")
    tab(page, "Terminal")
    expect(rows).to_contain_text("still-2")
    # Who may change nothing any more types nothing.
    page.locator(".switch").click()
    expect(page.locator(".shellview .bar")).to_contain_text("looking only")
    page.locator(".xterm").click()
    page.keyboard.type("echo never-$((1 + 1))\n")
    allow_changes(page)
    page.locator(".xterm").click()
    page.keyboard.type("echo again-$((1 + 1))\n")
    expect(rows).to_contain_text("again-2")
    assert "never" not in rows.inner_text()
    # That a person has typed there is known everywhere.
    expect(page.locator(".notice.hand")).to_contain_text("typed once")
    (touched,) = listed(lab)[0]["touched"]
    assert (touched["what"], touched["by"]) == ("typed", "web console")
    assert "typed" in lab.ok("ls")
    page.keyboard.type("exit\n")
    expect(page.get_by_role("button", name="Open another shell")).to_be_visible()


def test_what_a_guest_writes_is_shown_and_no_more(
    lab: Home, served: Console, new_page: NewPage
) -> None:
    evil = "<img src=x onerror=window.struck=1>"
    in_guest(
        lab, "lab", f"mkdir -p /evil; touch '/evil/{evil}' \"$(printf '/evil/a\\342\\200\\256b')\""
    )
    page = new_page(served.page(in_lab(lab, "files")))
    page.get_by_label("Directory").fill("/evil")
    page.keyboard.press("Enter")
    expect(page.locator("table.listing")).to_contain_text(evil)
    expect(page.locator("table.listing")).to_contain_text("a\\u202eb")
    allow_changes(page)
    tab(page, "Terminal")
    page.get_by_role("button", name="Open a shell").click()
    expect(page.locator(".xterm-rows")).to_contain_text("attacker")
    page.context.grant_permissions(["clipboard-read"])
    title = page.title()
    tricks = (
        r"\033]0;struck\007\033]2;struck\007\033]52;c;c3RydWNr\007"
        r"\033]8;;http://evil.example/\007link\033]8;;\007"
        r"\033]1337;File=inline=1:AAAA\007\033[8;10;10t<b>fat</b>"
    )
    page.keyboard.type(f"printf '{tricks}'; echo; echo over-$((1 + 1))\n")
    expect(page.locator(".xterm-rows")).to_contain_text("over-2")
    place = page.locator(".xterm-rows").get_by_text("link").last.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + 5, place["y"] + 5)
    assert page.title() == title
    assert len(page.context.pages) == 1
    assert page.evaluate("document.querySelector('b')?.textContent") != "fat"
    assert "struck" not in page.evaluate("navigator.clipboard.readText()")
    assert page.evaluate("window.struck") is None


def test_files_go_in_and_out(lab: Home, served: Console, new_page: NewPage, tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "data.bin").write_bytes(content)
    page = new_page(served.page(in_lab(lab, "files")))
    allow_changes(page)
    page.get_by_label("Directory").fill("/tmp")
    page.keyboard.press("Enter")
    page.locator("input[type=file]").set_input_files(tmp_path / "data.bin")
    row = page.locator("table.listing button", has_text="data.bin")
    expect(row).to_be_visible()
    with page.expect_download() as download:
        row.click()
    assert Path(download.value.path()).read_bytes() == content


def viewers(home: Home) -> Any:
    return listed(home)[0]["vms"][0].get("screen")


def test_a_live_screen(lab: Home, served: Console, new_page: NewPage) -> None:
    page, other = (new_page(served.page(in_lab(lab, "screen"))) for _ in range(2))
    drawn = """[...document.querySelectorAll('.shellscreen canvas')].some((canvas) => {
      const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      return pixels.some((value, i) => i % 4 !== 3 && value > 100);
    })"""
    for one in (page, other):  # both see it
        expect(one.locator(".screenview .bar")).to_contain_text(re.compile(r"\d{3,} \S \d{3,}"))
        until(lambda one=one: one.evaluate(drawn), "the screen shows something", 60)
    until(lambda: viewers(lab) == {"viewers": 2, "controllers": 0}, "two look", 60)
    expect(page.locator(".screenview .bar")).to_contain_text("1 other viewer")
    allow_changes(page)
    page.get_by_role("button", name="Take control").click()
    expect(page.get_by_role("button", name="Give control back")).to_be_visible()
    until(lambda: viewers(lab) == {"viewers": 2, "controllers": 1}, "one has control", 60)
    assert "controlled" in {one["what"] for one in listed(lab)[0]["touched"]}
    page.locator(".screenview canvas").click()
    page.keyboard.press("Enter")
    page.evaluate(
        """() => {
      const send = WebSocket.prototype.send;
      window.sent = '';
      WebSocket.prototype.send = function (data) {
        for (const byte of new Uint8Array(data)) window.sent += byte.toString(16).padStart(2, '0');
        return send.call(this, data);
      };
    }"""
    )
    page.get_by_label("Keys").select_option("Alt+Tab")
    # Alt goes down, as RFB says it, and at the end up.
    until(lambda: "040100000000ffe9" in page.evaluate("window.sent"), "Alt is pressed", 60)
    until(lambda: "040000000000ffe9" in page.evaluate("window.sent"), "Alt is let go", 60)
    picture(page, "screen")
    # Who may change nothing any more has no control.
    page.locator(".switch").click()
    until(lambda: viewers(lab) == {"viewers": 2, "controllers": 0}, "control is given back", 60)
    tab(page, "Overview")
    other.close()
    until(lambda: not (viewers(lab) or {}).get("viewers"), "nobody looks", 60)
    page.goto(served.page(in_lab(lab, "screen", LONG_NAME)))
    expect(page.locator(".empty")).to_contain_text("No display")


def test_snapshots_and_forks(lab: Home, served: Console, new_page: NewPage) -> None:
    in_guest(lab, "lab", "echo before > /tmp/state")
    page = new_page(served.page(in_lab(lab, "snapshots")))
    allow_changes(page)
    page.get_by_placeholder("Name of a new snapshot").fill("start")
    page.get_by_role("button", name="Save now").click()
    expect(page.locator("tbody tr")).to_contain_text("start")
    picture(page, "snapshots")
    in_guest(lab, "lab", "echo after > /tmp/state")
    page.get_by_role("button", name="Restore").click()
    expect(page.locator(".note.good").last).to_contain_text("Back at start")
    assert in_guest(lab, "lab", "cat /tmp/state") == "before"
    page.get_by_role("button", name="Delete").click()
    expect(page.locator(".empty")).to_contain_text("No snapshots")
    page.get_by_role("button", name="Fork").click()
    expect(page.locator("h1")).to_contain_text("lab-1")
    assert in_guest(lab, "lab-1", "cat /tmp/state") == "before"
    # It stays without the page, until it is removed.
    fork = next(one for one in listed(lab) if one["name"] == "lab-1")
    assert fork["detached"]
    assert {"saved", "restored", "forked"} <= {one["what"] for one in fork["touched"]}
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("a.row")).to_have_text(["lab"])


def test_a_recording(lab: Home, served: Console, new_page: NewPage) -> None:
    page = new_page(served.page(in_lab(lab, "network")))
    page.get_by_role("button", name="Record").click()
    flows = page.locator("table.flows")

    def seen() -> bool:
        in_guest(lab, "lab", "ping -c1 -W2 10.77.0.11")
        return flows.count() > 0 and "10.77.0.11" in flows.inner_text()

    until(seen, "the ping is seen", 60)
    expect(flows).to_contain_text("ICMP")
    page.get_by_role("button", name="Stop").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    recording = Path(download.value.path()).read_bytes()
    assert recording[:4] == b"\x4d\x3c\xb2\xa1"
    assert bytes([10, 77, 0, 11]) in recording


def test_the_other_views(served: Console, new_page: NewPage) -> None:
    page = new_page(served.page("/images"), color_scheme="dark")
    expect(page.locator("table").first).to_contain_text("tiny")
    picture(page, "images-dark")
    page.goto(served.page("/host"))
    expect(page.locator(".doctor")).to_contain_text("qemu")
    expect(page.locator("dl.wide")).to_contain_text("Sandboxes")
    page.goto(served.page("/servers"))
    expect(page.locator(".empty, .notice")).to_be_visible()
    page.goto(served.page("/sandbox/%/overview"))  # cut off in the middle
    expect(page.locator(".empty")).to_contain_text("No such sandbox")


def test_a_daemon_that_is_started_again(new_page: NewPage) -> None:
    home = Home()
    try:
        with console(home) as one:
            page = new_page(one.url)
            expect(page.locator(".conn.ok")).to_be_visible()
            home.ok("serve", "--stop")
            expect(page.locator(".conn")).to_contain_text("no daemon is running")
            home.ok("ls")
            expect(page.locator(".conn.ok")).to_be_visible()
    finally:
        home.close()


def test_a_page_of_another_site(served: Console, browser: Browser, new_page: NewPage) -> None:
    """What a page that somebody was lured to can do."""

    class Evil(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>evil</h1>")

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for name in ("127.0.0.1", "localhost"):
            page = new_page(f"http://{name}:{server.server_port}/")
            said = page.evaluate(
                """async (at) => {
              const said = [];
              await new Promise((end) => {
                const socket = new WebSocket(`ws://${at}/socket`);
                socket.onopen = () => said.push('opened');
                socket.onclose = end;
              });
              await fetch(`http://${at}/`).then(() => said.push('read'), () => {});
              await new Promise((end) => {
                const frame = document.createElement('iframe');
                frame.src = `http://${at}/`;
                frame.onload = end;
                document.body.append(frame);
              });
              try {
                const framed = document.querySelector('iframe').contentDocument;
                if (framed.body.innerText) said.push('framed');
              } catch { /* as it should be */ }
              return said;
            }""",
                f"127.0.0.1:{served.port}",
            )
            assert said == []
    finally:
        server.shutdown()
        server.server_close()


def test_two_hundred_sandboxes(new_page: NewPage) -> None:
    home = Home()
    try:
        with ManySandboxes(home, 200) as daemon, console(home) as one:
            page = new_page(one.url)
            expect(page.locator("a.row")).to_have_count(200)
            expect(page.locator(".group")).to_have_count(3)
            assert page.evaluate("window.struck") is None
            expect(page.locator(".group h2", has_text="<img src=x onerror=")).to_have_count(1)
            expect(page.locator("a.row", has_text="u202e")).to_have_count(1)
            # One that changes costs one row, and the others stay as they are.
            page.evaluate(
                """() => {
              window.drawn = new Set();
              new MutationObserver((changes) => {
                for (const { target } of changes) {
                  const node = target.nodeType === 1 ? target : target.parentElement;
                  const row = node?.closest('tr[data-id]');
                  if (row && !node.closest('td.num')) window.drawn.add(row.dataset.id);
                }
              }).observe(document.body,
                {subtree: true, childList: true, characterData: true, attributes: true});
            }"""
            )
            changed = daemon.change(7)
            expect(page.locator(f"tr[data-id='{changed}'] .badge")).to_have_text("dead")
            assert page.evaluate("[...window.drawn]") == [changed]
            page.get_by_label("Filter").fill("sample-19")
            expect(page.locator("a.row")).to_have_count(11)
    finally:
        home.close()
