"""Routes of the web page: one document, and the script that was built for it."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from pellucid.page.html import read_script
from pellucid.serve.problems import Refusal, documented_responses

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

PAGE_ROUTE: dict[str, Any] = {"tags": ["page"], "response_class": Response}


def page_routes() -> APIRouter:
    """Make the routes GET / and GET /pellucid.js."""
    router = APIRouter()

    @router.get("/", responses={200: {"content": {"text/html": {}}}, **documented_responses()}, **PAGE_ROUTE)
    def page() -> Response:
        """Return the page that shows what the model computes."""
        # Refuse here rather than send a page that would stay empty.
        page_script()
        return HTMLResponse(DOCUMENT)

    @router.get(
        "/pellucid.js", responses={200: {"content": {"text/javascript": {}}}, **documented_responses()}, **PAGE_ROUTE
    )
    def javascript() -> Response:
        """Return the script of the page."""
        return Response(page_script(), media_type="text/javascript")

    return router


def page_script() -> str:
    """Return the built script; raise `Refusal` where it was not built."""
    try:
        return read_script()
    except ValueError as error:
        raise Refusal(503, str(error)) from None
