"""A window over the whole screen that writes down what reaches it, one JSON list a line.

It runs in the guest, with nothing but libX11. Events: ["key", TEXT, KEYSYM], ["down" or "up",
BUTTON, X, Y], ["at", X, Y] for a movement.
"""

import ctypes
import json
import sys
from ctypes import byref, c_int, c_long, c_uint, c_ulong, c_void_p
from typing import TextIO

KEY, KEY_UP, DOWN, UP, MOTION, EXPOSE = 2, 3, 4, 5, 6, 12
MASK = 1 | 2 | 4 | 8 | 64 | 1 << 15  # keys, buttons, motion, exposure
SQUARE = 80

x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = c_void_p
for name in (
    "XDefaultRootWindow",
    "XCreateSimpleWindow",
    "XCreateGC",
    "XBlackPixel",
    "XWhitePixel",
):
    getattr(x, name).restype = c_void_p if name == "XCreateGC" else c_ulong


class KeyEvent(ctypes.Structure):
    """XKeyEvent; a button's and a movement's are the same but for the last members."""

    _fields_ = [
        ("type", c_int), ("serial", c_ulong), ("send_event", c_int), ("display", c_void_p),
        ("window", c_ulong), ("root", c_ulong), ("subwindow", c_ulong), ("time", c_ulong),
        ("x", c_int), ("y", c_int), ("x_root", c_int), ("y_root", c_int),
        ("state", c_uint), ("code", c_uint), ("same_screen", c_int),
    ]  # fmt: skip


class Event(ctypes.Union):
    _fields_ = [("key", KeyEvent), ("room", c_long * 24)]


def main(out: TextIO) -> None:
    display = c_void_p(x.XOpenDisplay(None))
    if not display:
        sys.exit("no display")
    white, black = c_ulong(x.XWhitePixel(display, 0)), c_ulong(x.XBlackPixel(display, 0))
    width, height = x.XDisplayWidth(display, 0), x.XDisplayHeight(display, 0)
    window = c_ulong(
        x.XCreateSimpleWindow(
            display, c_ulong(x.XDefaultRootWindow(display)), 0, 0, width, height, 0, black, white
        )
    )
    pen = c_void_p(x.XCreateGC(display, window, c_ulong(0), None))
    x.XSetForeground(display, pen, black)
    x.XSelectInput(display, window, c_long(MASK))
    x.XMapWindow(display, window)
    event, text, symbol = Event(), ctypes.create_string_buffer(16), c_ulong()
    shown = False
    while True:
        x.XNextEvent(display, byref(event))
        e = event.key
        if e.type == EXPOSE:
            # Squares, like those of chess.
            for row in range(0, height, SQUARE):
                for column in range(row % (2 * SQUARE), width, 2 * SQUARE):
                    x.XFillRectangle(display, window, pen, column, row, SQUARE, SQUARE)
            x.XSetInputFocus(display, window, 1, c_ulong(0))
            if not shown:
                out.write(json.dumps(["shown", width, height]) + "\n")
            shown = True
        elif e.type == KEY:
            n = x.XLookupString(byref(e), text, 16, byref(symbol), None)
            out.write(json.dumps(["key", text.raw[:n].decode("latin-1"), symbol.value]) + "\n")
        elif e.type in (DOWN, UP):
            out.write(json.dumps(["down" if e.type == DOWN else "up", e.code, e.x, e.y]) + "\n")
        elif e.type == MOTION:
            out.write(json.dumps(["at", e.x, e.y]) + "\n")


with open(sys.argv[1], "a", buffering=1) as log:
    main(log)
