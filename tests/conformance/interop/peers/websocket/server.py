"""An echo server of the library websockets with permessage-deflate. Prints its port."""
import asyncio
import logging

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


async def echo(connection):
    try:
        async for message in connection:
            await connection.send(message)
    except ConnectionClosed:
        pass


async def main():
    # A readiness probe connects and sends nothing, which the library takes for an error.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    async with serve(echo, "127.0.0.1", 0, max_size=32 << 20, ping_interval=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


asyncio.run(main())
