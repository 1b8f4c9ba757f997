"""Cases of RFC 6455 and RFC 7692, in the categories of Autobahn's test suite, as bytes to send."""
import dataclasses
import random
import struct
import zlib

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
RANDOM = random.Random(6455)


@dataclasses.dataclass
class Case:
    category: str
    name: str
    # What is sent, a write for each.
    writes: list
    # Messages and pongs to wait for before the closing handshake.
    messages: int = 0
    pongs: int = 0
    # Whether the server must close the connection by itself.
    closes: bool = False
    deflate: bool = False


def frame(opcode, payload=b"", fin=True, rsv=0):
    if isinstance(payload, str):
        payload = payload.encode()
    mask = RANDOM.randbytes(4)
    size = len(payload)
    length = bytes([size | 128]) if size < 126 else (
        struct.pack(">BH", 126 | 128, size) if size < 65536 else struct.pack(">BQ", 127 | 128, size))
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    masked = (int.from_bytes(payload, "big") ^ key).to_bytes(size, "big")
    return bytes([(fin << 7) | (rsv << 4) | opcode]) + length + mask + masked


def pieces(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def fragments(opcode, payload, size, between=b""):
    parts = pieces(payload, size) or [b""]
    return [frame(opcode if at == 0 else 0, part, fin=at == len(parts) - 1) + (between if at < len(parts) - 1 else b"")
            for at, part in enumerate(parts)]


def deflated(payload):
    compress = zlib.compressobj(wbits=-15)
    return (compress.compress(payload) + compress.flush(zlib.Z_SYNC_FLUSH))[:-4]


def close(code, reason=b""):
    return frame(CLOSE, struct.pack(">H", code) + reason)


def framing():
    for opcode in (TEXT, BINARY):
        for size in (0, 1, 2, 124, 125, 126, 127, 128, 255, 256, 65534, 65535, 65536, 65537, 100_000):
            data = frame(opcode, b"*" * size)
            yield Case("framing", f"{opcode}, {size} bytes", [data], messages=1)
            if size <= 256:
                yield Case("framing", f"{opcode}, {size} bytes, one at a time", pieces(data, 1), messages=1)
            else:
                yield Case("framing", f"{opcode}, {size} bytes, 997 at a time", pieces(data, 997), messages=1)


def pings():
    for size in (0, 1, 50, 124, 125):
        for opcode, answers in ((PING, 1), (PONG, 0)):
            data = frame(opcode, b"\xfe" * size)
            yield Case("pings", f"{opcode}, {size} bytes", [data], pongs=answers)
            yield Case("pings", f"{opcode}, {size} bytes, one at a time", pieces(data, 1), pongs=answers)
            yield Case("pings", f"{opcode}, {size} bytes before a message", [data, frame(TEXT, "x")], 1, answers)
    yield Case("pings", "126 bytes", [frame(PING, b"x" * 126)], closes=True)
    yield Case("pings", "fragmented", [frame(PING, b"x", fin=False)], closes=True)
    for count in (2, 10, 100):
        yield Case("pings", f"{count} at once", [b"".join(frame(PING, str(n)) for n in range(count))], pongs=count)


def reserved():
    for rsv in range(1, 8):
        for opcode in (TEXT, BINARY, CLOSE, PING, PONG):
            yield Case("reserved bits", f"{rsv} of {opcode}", [frame(opcode, b"", rsv=rsv)], closes=True)
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        yield Case("opcodes", str(opcode), [frame(opcode)], closes=True)
        yield Case("opcodes", f"{opcode} with data, after a message", [frame(TEXT, "x"), frame(opcode, "y")], 1, closes=True)


def fragmentation():
    for opcode in (TEXT, BINARY):
        for size in (1, 2, 3, 7, 64, 100):
            payload = b"fragmented message " * 10
            yield Case("fragments", f"{opcode} by {size}", fragments(opcode, payload, size), messages=1)
            yield Case("fragments", f"{opcode} by {size} in one write", [b"".join(fragments(opcode, payload, size))], 1)
            parts = fragments(opcode, payload, size, frame(PING, "between"))
            yield Case("fragments", f"{opcode} by {size} with pings", parts, 1, len(parts) - 1)
    yield Case("fragments", "empty ones", [
        frame(TEXT, fin=False), frame(0, fin=False), frame(0)], messages=1)
    yield Case("fragments", "continuation of nothing", [frame(0, "x")], closes=True)
    yield Case("fragments", "unfinished continuation of nothing", [frame(0, "x", fin=False)], closes=True)
    yield Case("fragments", "message in a message", [frame(TEXT, "x", fin=False), frame(TEXT, "y")], closes=True)


def utf8():
    valid = ["", "a", "κόσμε", "Hello-µ@ßöäüàá-UTF-8!!", "\U0010ffff", "\ud7ff", "\ue000", "\ufffd", "\x00", "\U00010000"]
    for text in valid:
        data = text.encode()
        yield Case("UTF-8", f"valid {data!r}", [frame(TEXT, data)], messages=1)
        yield Case("UTF-8", f"valid {data!r} by bytes", fragments(TEXT, data, 1), messages=1)
    for data in (b"\xff", b"\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\x80",
                 b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", b"\xe1\x80", b"\xf0\x9f"):
        yield Case("UTF-8", f"invalid {data!r}", [frame(TEXT, data)], closes=True)
        yield Case("UTF-8", f"invalid {data!r} in a reason", [close(1000, data)], closes=True)


def closing():
    yield Case("closing", "without a code", [frame(CLOSE)], closes=True)
    yield Case("closing", "half a code", [frame(CLOSE, b"\x03")], closes=True)
    yield Case("closing", "longest reason", [close(1000, b"r" * 123)], closes=True)
    yield Case("closing", "too long a reason", [close(1000, b"r" * 124)], closes=True)
    yield Case("closing", "twice", [close(1000) + close(1000)], closes=True)
    yield Case("closing", "a ping behind", [close(1000) + frame(PING)], closes=True)
    yield Case("closing", "in a fragmented message", [frame(TEXT, "x", fin=False), close(1000)], closes=True)
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999):
        yield Case("closing", str(code), [close(code, b"reason")], closes=True)
        yield Case("closing", f"{code} by bytes", pieces(close(code, b"reason"), 1), closes=True)
    for code in (0, 999, 1004, 1005, 1006, 1014, 1016, 1100, 2000, 2999, 5000, 65535):
        yield Case("closing", f"invalid {code}", [close(code)], closes=True)


def limits():
    for opcode in (TEXT, BINARY):
        for size in (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24):
            yield Case("limits", f"{opcode}, {size >> 10} KiB", [frame(opcode, b"x" * size)], messages=1)
        for size in (1 << 8, 1 << 12, 1 << 16):
            yield Case("limits", f"{opcode}, 4 MiB by {size}", [b"".join(fragments(opcode, b"x" * (1 << 22), size))], 1)
    for size in (0, 16, 64, 256, 1024):
        yield Case("limits", f"500 of {size} bytes", [frame(BINARY, b"x" * size) * 500], messages=500)


def compression():
    for size in (0, 16, 64, 256, 1024, 4096, 16384, 65536, 1 << 20, 8 << 20):
        for kind, payload in (("text", (b"compressible " * (size // 13 + 1))[:size]), ("random", RANDOM.randbytes(size))):
            data = deflated(payload)
            yield Case("compression", f"{size} bytes of {kind}", [frame(BINARY, data, rsv=4)], 1, deflate=True)
            if data:
                parts = [frame(BINARY if at == 0 else 0, part, fin=at + 1024 >= len(data), rsv=4 if at == 0 else 0)
                         for at, part in zip(range(0, len(data), 1024), pieces(data, 1024))]
                yield Case("compression", f"{size} bytes of {kind} by 1024", [b"".join(parts)], 1, deflate=True)
    yield Case("compression", "an uncompressed message", [frame(TEXT, "x")], 1, deflate=True)
    yield Case("compression", "no deflate data", [frame(TEXT, b"\xff" * 9, rsv=4)], closes=True, deflate=True)


def all_cases():
    for generate in (framing, pings, reserved, fragmentation, utf8, closing, limits, compression):
        yield from generate()
