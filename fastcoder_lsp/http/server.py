"""A server on a socket, until it is told to end."""

import uvicorn
from starlette.types import ASGIApp

_END_S = 5
"""How long open requests have when the server is to end."""


def serve(app: ASGIApp, host: str, port: int) -> None:
    """Answer until SIGINT or SIGTERM. Nothing of requests is logged: their bodies are somebody's code."""
    uvicorn.run(
        app,
        host=host,
        port=port,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END_S,
    )
