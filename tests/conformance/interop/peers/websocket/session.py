"""A session of the library's client:  session.py talk|silent|killed ADDRESS SILENCE

`killed` prints a line when the server may be killed."""
import asyncio
import os
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

SHAPE, ADDRESS, SILENCE = sys.argv[1:]


async def talk(connection):
    for size in (0, 1, 200, 70_000, 8 << 20):
        for message in (os.urandom(size), "ä" * size):
            await connection.send(message)
            assert await connection.recv() == message, size
    await connection.send(["in ", "frag", "ments"])
    assert await connection.recv() == "in fragments"
    await (await connection.ping())
    await connection.close(4001, "bye")
    assert (connection.close_code, connection.close_reason) == (4001, "bye"), connection.close_code


async def silent(connection):
    await connection.send("before")
    assert await connection.recv() == "before"
    await asyncio.sleep(int(SILENCE))
    await connection.send("after")
    assert await connection.recv() == "after"


async def killed(connection):
    await connection.send("hello")
    assert await connection.recv() == "hello"
    print("begun", flush=True)
    try:
        await connection.recv()
    except ConnectionClosedError as error:
        assert error.rcvd is None, error
        return
    raise AssertionError("the connection did not end with an error")


async def main():
    shape = {"talk": talk, "silent": silent, "killed": killed}[SHAPE]
    async with connect("ws://" + ADDRESS, max_size=32 << 20, ping_interval=None, open_timeout=60) as connection:
        await shape(connection)


asyncio.run(main())
