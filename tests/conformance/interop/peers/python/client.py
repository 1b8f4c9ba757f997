"""One shape of gRPC with grpcio's client (C-core):  client.py ADDRESS SHAPE SILENCE

Fails with an exception. The service is that of server.py."""
import sys
import time

import grpc

# The shortest period of PINGs; they end at the proxy.
OPTIONS = [("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 10_000),
           ("grpc.http2.max_pings_without_data", 0), ("grpc.keepalive_permit_without_calls", 1)]
ADDRESS, SHAPE, SILENCE = sys.argv[1:]
CHANNEL = grpc.insecure_channel(ADDRESS, OPTIONS)


def unary(name):
    return CHANNEL.unary_unary("/interop.Echo/" + name)


def stream(name):
    return CHANNEL.stream_stream("/interop.Echo/" + name)


def expect(got, want):
    assert got == want, f"{got!r:.200} instead of {want!r:.200}"


def fails(code, do):
    try:
        do()
    except grpc.RpcError as error:
        expect(error.code(), code)
        return error
    raise AssertionError(f"no error, instead of {code}")


def call():
    expect(unary("Unary")(b"hello"), b"hello")


def large():
    message = b"large " * (1 << 19)
    expect(unary("Unary")(message) == message, True)


def metadata():
    sent = [("x-text", "one"), ("x-text", "two"), ("x-data-bin", b"\0\xff binary")]
    _, call = unary("Unary").with_call(b"", metadata=sent)
    expect(dict(call.initial_metadata())["x-header"], "one,two")
    expect(dict(call.trailing_metadata())["x-trailer-bin"], b"\0\xff binary")


def error_status():
    error = fails(grpc.StatusCode.FAILED_PRECONDITION, lambda: unary("Fail")(b""))
    expect(error.details(), "100 % wrong: ä")


def upload():
    expect(list(stream("Upload")(bytes(128 << 10) for _ in range(64))), [str(8 << 20).encode()])


def download():
    messages = list(stream("Download")(iter([bytes(512)])))
    expect((len(messages), {len(message) for message in messages}), (512, {16 << 10}))


def talk():
    words = [f"word {number}".encode() for number in range(100)]
    expect(list(stream("Talk")(iter(words))), words)


def many_calls():
    calls = [unary("Unary").future(b"hello") for _ in range(100)]
    expect({call.result() for call in calls}, {b"hello"})


def until_cancelled(count):
    end = time.monotonic() + 30
    while int(unary("Cancelled")(b"")) < count:
        assert time.monotonic() < end, "the app does not see that the call ended"
        time.sleep(0.02)


def deadline():
    before = int(unary("Cancelled")(b""))
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: list(stream("Hang")(iter([]), timeout=1)))
    until_cancelled(before + 1)


def cancel():
    before = int(unary("Cancelled")(b""))
    call = stream("Hang")(iter([]))
    expect(next(call), b"hangs")
    call.cancel()
    fails(grpc.StatusCode.CANCELLED, lambda: next(call))
    until_cancelled(before + 1)


def silent():
    expect(list(stream("Silent")(iter([SILENCE.encode()]))), [b"begin", b"end"])


def calls_beyond_goaway():
    end = time.monotonic() + 7
    while time.monotonic() < end:
        call()


{"unary": call, "large unary": large, "metadata": metadata, "error status": error_status,
 "client stream": upload, "server stream": download, "bidi stream": talk, "100 calls at once": many_calls,
 "deadline": deadline, "cancel": cancel, "silent stream": silent,
 "calls beyond GOAWAY": calls_beyond_goaway}[SHAPE]()
