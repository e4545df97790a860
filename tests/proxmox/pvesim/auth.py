"""Who is asking: tickets, tokens, and what they may do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from typing import Any
from urllib.parse import unquote

from .errors import ApiError, unauthorized

TICKET_SECONDS = 7200
DELAY = 3.0


class Auth:
    """Users, their passwords, tokens and privileges."""

    def __init__(self, scale: float) -> None:
        self.key = secrets.token_bytes(32)
        self.scale = scale
        self.passwords: dict[str, str] = {}
        # user!token -> secret, privileges and whether they are apart from the user's.
        self.tokens: dict[str, dict[str, Any]] = {}
        # user or token -> [(path, {privileges})]; root@pam needs none.
        self.grants: dict[str, list[tuple[str, set[str]]]] = {}
        self.second_factor = False
        self.ticket_seconds = TICKET_SECONDS
        # Tickets made before this are no longer good.
        self.not_before = 0.0
        self.logins = 0

    def sign(self, text: str) -> str:
        return (
            base64.b64encode(hmac.new(self.key, text.encode(), hashlib.sha256).digest())
            .decode()
            .rstrip("=")
        )

    def stamp(self) -> str:
        return f"{int(time.time() * 16):08X}"

    def ticket(self, user: str, kind: str = "PVE", more: str = "") -> str:
        text = f"{kind}:{user}:{self.stamp()}"
        return f"{text}::{self.sign(text + more)}"

    def csrf(self, user: str) -> str:
        stamp = self.stamp()
        return f"{stamp}:{self.sign(f'{stamp}:{user}')}"

    def check_ticket(
        self, ticket: str, kind: str = "PVE", more: str = "", seconds: float = 0
    ) -> str:
        """The ticket's user, or an empty string."""
        text, found, mark = ticket.rpartition("::")
        parts = text.split(":")
        if not found or len(parts) != 3 or parts[0] != kind:
            return ""
        if not hmac.compare_digest(mark.encode(), self.sign(text + more).encode()):
            return ""
        made = int(parts[2], 16) / 16
        if made < self.not_before or time.time() - made > (seconds or self.ticket_seconds):
            return ""
        return parts[1]

    def login(self, user: str, password: str) -> dict[str, Any]:
        known = self.passwords.get(user)
        good = known is not None and hmac.compare_digest(known.encode(), password.encode())
        if not good and not (known is not None and self.check_ticket(password) == user):
            raise unauthorized("authentication failure", DELAY * self.scale, empty=False)
        self.logins += 1
        if self.second_factor:  # a ticket of another kind, good for nothing but the second factor
            half = self.ticket(user, "PVE:!tfa!moat")
            return {
                "username": user,
                "ticket": half,
                "CSRFPreventionToken": self.csrf(user),
                "NeedTFA": 1,
            }
        return {
            "username": user,
            "ticket": self.ticket(user),
            "CSRFPreventionToken": self.csrf(user),
            "clustername": "moat-test",
            "cap": {
                "vms": {"VM.Audit": 1},
                "nodes": {},
                "sdn": {},
                "storage": {},
                "access": {},
                "dc": {},
            },
        }

    def identify(self, verb: str, headers: dict[str, str]) -> str:
        """The user of a request, or a 401."""
        given = headers.get("authorization", "")
        if given.startswith("PVEAPIToken="):
            return self.by_token(given.removeprefix("PVEAPIToken="))
        ticket = ""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == "PVEAuthCookie":
                ticket = unquote(value)
        if not ticket:
            raise unauthorized("No ticket", DELAY * self.scale)
        user = self.check_ticket(ticket)
        if not user:
            raise unauthorized("permission denied - invalid PVE ticket", DELAY * self.scale)
        if verb != "GET":
            stamp, _, mark = headers.get("csrfpreventiontoken", "").partition(":")
            if not mark or not hmac.compare_digest(
                mark.encode(), self.sign(f"{stamp}:{user}").encode()
            ):
                raise unauthorized("Permission denied - invalid csrf token", DELAY * self.scale)
        return user

    def by_token(self, text: str) -> str:
        name, _, secret = text.partition("=")
        token = self.tokens.get(name)
        if token is None or not hmac.compare_digest(str(token["secret"]).encode(), secret.encode()):
            raise unauthorized("invalid token value!", DELAY * self.scale)
        return name

    def privileges(self, user: str, path: str) -> set[str] | None:
        """What a user may do with a path; None is everything."""
        token = self.tokens.get(user)
        if token is not None and not token.get("privsep", True):
            user = user.split("!")[0]
        if user == "root@pam":
            return None
        best = ""
        found: set[str] = set()
        for where, privileges in self.grants.get(user, []):
            inside = where == "/" or path == where or path.startswith(where.rstrip("/") + "/")
            if inside and len(where) >= len(best):
                best, found = where, privileges
        return found

    def may(self, user: str, path: str, privilege: str) -> bool:
        allowed = self.privileges(user, path)
        return allowed is None or privilege in allowed

    def require(self, user: str, path: str, *privileges: str, any_of: bool = False) -> None:
        have = [self.may(user, path, privilege) for privilege in privileges]
        if any(have) if any_of else all(have):
            return
        names = ("|" if any_of else ", ").join(privileges)
        raise ApiError(403, f"Permission check failed ({path}, {names})")
