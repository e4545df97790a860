"""Text that may hold half characters, for which there is no UTF-8. Pure."""

from __future__ import annotations


def valid_text(text: str) -> str:
    """The text with half characters replaced. Models do produce them, and UTF-8 has none."""
    return (
        text
        if is_valid_text(text)
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def is_valid_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
