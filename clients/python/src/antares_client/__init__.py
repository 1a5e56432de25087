"""A client of Antares: runs CKB-VM scripts and verifies CKB transactions on a server."""

from ._asyncio import AsyncClient
from ._shared import MESSAGE_BYTES_MAX, Refused
from ._threads import Client

__all__ = ["MESSAGE_BYTES_MAX", "AsyncClient", "Client", "Refused"]
