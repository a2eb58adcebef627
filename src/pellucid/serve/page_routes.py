"""The page itself: one document, and the script that was built for it."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from pellucid.page.assets import bundle
from pellucid.serve.problems import Refusal, documented

DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Pellucid</title>
</head>
<body>
<div id="pellucid" data-host="page"></div>
<noscript>This page draws what the model computes, and needs JavaScript for it.</noscript>
<script type="module" src="pellucid.js"></script>
</body>
</html>
"""

PAGE: dict[str, Any] = {"tags": ["page"], "response_class": Response}


def routes() -> APIRouter:
    """GET / and what it asks for."""
    router = APIRouter()

    @router.get("/", responses={200: {"content": {"text/html": {}}}, **documented()}, **PAGE)
    def page() -> Response:
        """The page that shows what the model computes."""
        script()
        return HTMLResponse(DOCUMENT)

    @router.get("/pellucid.js", responses={200: {"content": {"text/javascript": {}}}, **documented()}, **PAGE)
    def javascript() -> Response:
        """Its script."""
        return Response(script(), media_type="text/javascript")

    return router


def script() -> str:
    """The built script; `Refusal` where it was not built."""
    try:
        return bundle()
    except ValueError as error:
        raise Refusal(503, str(error)) from None
