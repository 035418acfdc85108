"""TLS in front of a Postgres that was built without: what a client of a service sees, by a thread of the test."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.loops import loop_beside

SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextmanager
def tls_before(port: int, certificate: Path, key: Path) -> Iterator[str]:
    """The port of a door that lets nobody in without TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            if await reader.readexactly(8) == SSL_REQUEST:
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(context)
                there = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_pass((reader, there[1])), _pass((there[0], writer)))
        writer.close()

    with loop_beside() as loop:
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(enter, "127.0.0.1", 0), loop).result()
        try:
            yield str(server.sockets[0].getsockname()[1])
        finally:
            loop.call_soon_threadsafe(server.close)


async def _pass(ends: Ends) -> None:
    reader, writer = ends
    with suppress(OSError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
