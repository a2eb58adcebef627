"""The keys a server may ask for: in LibreTranslate's field, or in the header with which browsers log in."""

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer

from pellucid.serve.problems import REALM, STATUS_MEANINGS, Problem, Refusal

SHORTEST_KEY = 16
"""Characters of a key: a shorter one could be found by trying."""

MISSING_KEY, WRONG_KEY = "Please contact the server operator to get an API key", "Invalid API key"
"""LibreTranslate's own sentences, by which its clients know what is wrong."""

HOW_TO_SEND_KEY = "send a key as the password, with any user name, or as a bearer token"

BASIC = HTTPBasic(
    realm=REALM, auto_error=False, description="a key of this server as the password; browsers ask for it"
)
BEARER = HTTPBearer(auto_error=False, description="a key of this server")


class ApiKeys:
    """The keys of a server; one without any answers everybody."""

    def __init__(self, keys: Iterable[str] = ()):
        self._digests = [digest_key(key) for key in keys]

    @classmethod
    def read(cls, path: str) -> "ApiKeys":
        """The keys in a file, one a line; lines that begin with # are comments. ValueError names what is no key."""
        try:
            lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a text file; it should hold API keys, one a line") from None
        keys = {number: line for number, line in enumerate(lines, start=1) if line and not line.startswith("#")}
        # The keys themselves are nobody's business: they are not repeated.
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

    def hold(self, key: str) -> bool:
        """Whether this is one of them; how long it takes tells nothing of them."""
        given = digest_key(key)
        return sum(hmac.compare_digest(given, each) for each in self._digests) > 0  # compares with every one

    def in_body(self) -> dict[str, Any]:
        """Options of a route that takes a key in its body or in the header, and calls `check`."""
        return {"dependencies": [Depends(remember_key)]} if self else {}

    def in_header(self) -> dict[str, Any]:
        """Options of a route that takes a key in the header only."""
        if not self:
            return {}
        refused = {401: {"model": Problem, "description": STATUS_MEANINGS[401]}}
        return {"dependencies": [Depends(remember_key), Depends(self.check_header)], "responses": refused}

    def check(self, request: Request, field: str | None) -> None:
        """`Refusal`, as LibreTranslate has it, of a request without a key; `field` goes before the header."""
        if not self:
            return
        given = field or request.state.key
        if not given or not self.hold(given):
            raise Refusal(403, WRONG_KEY if given else MISSING_KEY)

    async def check_header(self, request: Request) -> None:
        """`Refusal` of a request without a key, in the way that makes a browser ask for it."""
        given = request.state.key
        if not given or not self.hold(given):
            raise Refusal(401, f"{WRONG_KEY if given else MISSING_KEY}; {HOW_TO_SEND_KEY}")


async def remember_key(
    request: Request,
    basic: Annotated[HTTPBasicCredentials | None, Security(BASIC)],
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)],
) -> None:
    """Keep the key in the header, if there is one, for whoever checks it."""
    request.state.key = bearer.credentials if bearer else (basic.password or basic.username) if basic else None


def digest_key(key: str) -> bytes:
    """Of the same length for every key."""
    return hashlib.sha256(key.encode()).digest()
