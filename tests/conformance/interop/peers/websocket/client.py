"""Sends the cases to a server directly and through a proxy, and compares what it answers:

    client.py PROXY SERVER

Also checks the answers by themselves: messages, pongs and the side that closes."""
import base64
import os
import socket
import struct
import sys
import zlib

import cases

DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover; server_no_context_takeover\r\n"


class Connection:
    def __init__(self, address, deflate):
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((
            f"GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{DEFLATE if deflate else ''}\r\n").encode())
        head = self.until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert (b"permessage-deflate" in head) == deflate, head

    def until(self, end):
        while end not in self.data:
            self.receive()
        head, self.data = self.data.split(end, 1)
        return head

    def receive(self):
        more = self.socket.recv(1 << 20)
        if not more:
            raise EOFError
        self.data += more

    def exactly(self, count):
        parts = bytearray(self.data[:count])
        self.data = self.data[count:]
        while len(parts) < count:
            more = self.socket.recv(min(1 << 20, count - len(parts)))
            if not more:
                raise EOFError
            parts += more
        return bytes(parts)

    def frame(self):
        first, second = self.exactly(2)
        size = second & 127
        if size > 125:
            size = int.from_bytes(self.exactly(2 if size == 126 else 8), "big")
        return first, self.exactly(size)


def answers(address, case):
    """Messages, pongs and the closing frame of the server."""
    connection = Connection(address, case.deflate)
    messages, pongs, closing = [], [], None
    writes = list(case.writes)
    # What ends the connection waits for the answers to what was sent before.
    last = writes.pop() if case.closes else cases.close(1000)
    try:
        for data in writes:
            connection.socket.sendall(data)
        while True:
            if last and (len(messages), len(pongs)) == (case.messages, case.pongs):
                connection.socket.sendall(last)
                last = b""
            first, payload = connection.frame()
            opcode = first & 15
            if opcode == cases.CLOSE:
                closing = struct.unpack(">H", payload[:2])[0] if payload else "without a code"
            elif opcode == cases.PONG:
                pongs.append(payload)
            else:
                if first & 0x40:
                    payload = zlib.decompressobj(wbits=-15).decompress(payload + b"\0\0\xff\xff")
                messages.append((opcode, payload))
    except (EOFError, ConnectionError):
        # The server closes the connection behind its closing frame.
        pass
    finally:
        connection.socket.close()
    return messages, pongs, closing


def main():
    proxy, server = sys.argv[1:]
    failed, count = [], 0
    for case in cases.all_cases():
        count += 1
        want = answers(server, case)
        assert (len(want[0]), len(want[1])) == (case.messages, case.pongs), (case.category, case.name, "directly")
        assert case.closes or want[2] == 1000, (case.category, case.name, want[2])
        try:
            got = answers(proxy, case)
        except OSError as error:
            got = error
        if got != want:
            failed.append(f"{case.category}: {case.name}: {got!r:.300} instead of {want!r:.300}")
    print("\n".join(failed) or f"{count} cases")
    sys.exit(bool(failed))


main()
