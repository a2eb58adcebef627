"""API keys of a server, which requests carry in LibreTranslate's field or in the Authorization header."""

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer

from pellucid.serve.problems import REALM, STATUS_MEANINGS, Problem, Refusal

SHORTEST_KEY = 16
"""Fewest characters of a key: a shorter one could be guessed by trying."""

MISSING_KEY, WRONG_KEY = "Please contact the server operator to get an API key", "Invalid API key"
"""LibreTranslate's own sentences, by which its clients recognise the problem."""

HOW_TO_SEND_KEY = "send a key as the password, with any user name, or as a bearer token"

BASIC = HTTPBasic(
    realm=REALM, auto_error=False, description="a key of this server as the password; browsers ask for it"
)
BEARER = HTTPBearer(auto_error=False, description="a key of this server")


class ApiKeys:
    """The keys of a server; without any, everybody is answered."""

    def __init__(self, keys: Iterable[str] = ()):
        # Digests only: the keys themselves need not stay in memory.
        self._digests = [digest_key(key) for key in keys]

    @classmethod
    def from_file(cls, path: str) -> "ApiKeys":
        """Read a file with one key a line, and # before comments; raise ValueError for invalid keys."""
        try:
            lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a text file; it should hold API keys, one a line") from None
        keys = {number: line for number, line in enumerate(lines, start=1) if line and not line.startswith("#")}
        # Problems name lines, never keys: what is printed may end in a log.
        problems = [
            f"line {number} has {len(key)} characters, {SHORTEST_KEY} or more are needed"
            if len(key) < SHORTEST_KEY
            else f"line {number} holds a space or a character that is not ASCII"
            for number, key in keys.items()
            if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key
        ]
        if not keys:
            problems = ["it holds none"]
        if problems:
            advice = 'python -c "import secrets; print(secrets.token_urlsafe())" makes one'
            raise ValueError(f"{path} should hold API keys, one a line: {'; '.join(problems[:5])}; {advice}")
        return cls(keys.values())

    def __bool__(self) -> bool:
        return bool(self._digests)

    def has_key(self, key: str) -> bool:
        """Whether this is one of the keys; the time it takes reveals nothing about them."""
        digest = digest_key(key)
        # `sum` compares with every key where `any` would stop at the right one.
        return sum(hmac.compare_digest(digest, own_digest) for own_digest in self._digests) > 0

    def in_body(self) -> dict[str, Any]:
        """Return the options of a route that takes a key in its body or in the header, and calls `check`."""
        return {"dependencies": [Depends(remember_key)]} if self else {}

    def in_header(self) -> dict[str, Any]:
        """Return the options of a route that takes a key in the header only."""
        if not self:
            return {}
        responses = {401: {"model": Problem, "description": STATUS_MEANINGS[401]}}
        return {"dependencies": [Depends(remember_key), Depends(self.check_header)], "responses": responses}

    def check(self, request: Request, field: object) -> None:
        """Raise `Refusal` for a request without a valid key, as LibreTranslate does.

        `field` is what the body has for a key, which may be anything; a text goes before the key of the header.
        """
        if not self:
            return
        key = field if isinstance(field, str) and field else request.state.key
        if not key or not self.has_key(key):
            raise Refusal(403, WRONG_KEY if key else MISSING_KEY)

    async def check_header(self, request: Request) -> None:
        """Raise `Refusal` for a request without a valid key, with the status that makes a browser ask for it."""
        key = request.state.key
        if not key or not self.has_key(key):
            raise Refusal(401, f"{WRONG_KEY if key else MISSING_KEY}; {HOW_TO_SEND_KEY}")


async def remember_key(
    request: Request,
    basic: Annotated[HTTPBasicCredentials | None, Security(BASIC)],
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)],
) -> None:
    """Store the key of the header, if there is one, in the state of the request."""
    # A user may type the key into either field of the browser's dialogue.
    request.state.key = bearer.credentials if bearer else (basic.password or basic.username) if basic else None


def digest_key(key: str) -> bytes:
    """Hash a key; `compare_digest` would reveal the lengths of the keys themselves."""
    # JSON can escape half of a surrogate pair, which strict UTF-8 refuses to encode.
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()
