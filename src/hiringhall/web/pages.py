"""What is not the API: the dashboard, its assets, and the pages that other parts add."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from starlette.types import Scope

ASSETS: Final = Path(__file__).parent / "assets"
_INDEX: Final = ASSETS / "index.html"


class Assets(StaticFiles):
    """The files of the dashboard. A browser asks each time whether its copy is still the latest."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


async def index(request: object) -> Response:
    """The dashboard. It finds out by the path which page it shows."""
    del request
    return FileResponse(_INDEX, media_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"})
