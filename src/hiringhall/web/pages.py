"""What is not the API: the dashboard, its assets, and the pages that other parts add."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.responses import FileResponse, Response

ASSETS: Final = Path(__file__).parent / "assets"
_INDEX: Final = ASSETS / "index.html"


async def index(request: object) -> Response:
    """The dashboard. It finds out by the path which page it shows."""
    del request
    return FileResponse(_INDEX, media_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"})


async def healthz(request: object) -> Response:
    """The web process lives."""
    del request
    return Response("ok\n", media_type="text/plain")
