"""A gRPC server of grpcio (C-core) with the default rule for PINGs, written out. Prints its port.

The service has messages of plain bytes; ../grpcgo/server.go describes its methods."""
import sys
import threading
import time
from concurrent import futures

import grpc

SERVICE = "interop.Echo"
OPTIONS = [
    ("grpc.http2.min_ping_interval_without_data_ms", 300_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 300_000),
    ("grpc.http2.max_ping_strikes", 2),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.max_receive_message_length", -1),
]


class Echo:
    def __init__(self):
        self.cancelled = 0

    def unary(self, message, context):
        sent = context.invocation_metadata()
        text = ",".join(value for key, value in sent if key == "x-text")
        context.send_initial_metadata([("x-header", text)])
        context.set_trailing_metadata([("x-trailer-bin", v) for k, v in sent if k == "x-data-bin"])
        return message

    def fail(self, _, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "100 % wrong: ä")

    def count_cancelled(self, *_):
        return str(self.cancelled).encode()

    def upload(self, messages, _):
        yield str(sum(len(message) for message in messages)).encode()

    def download(self, messages, _):
        for _ in next(messages):
            yield bytes(16 << 10)

    def talk(self, messages, _):
        yield from messages

    def silent(self, messages, _):
        seconds = int(next(messages))
        yield b"begin"
        time.sleep(seconds)
        yield b"end"

    def hang(self, _, context):
        # The generator is not resumed if the call ends while it has yielded.
        def count():
            self.cancelled += 1
            ended.set()

        ended = threading.Event()
        context.add_callback(count)
        yield b"hangs"
        ended.wait()


def main():
    echo = Echo()
    methods = {
        name: grpc.unary_unary_rpc_method_handler(method)
        for name, method in [("Unary", echo.unary), ("Fail", echo.fail), ("Cancelled", echo.count_cancelled)]
    } | {
        name: grpc.stream_stream_rpc_method_handler(method)
        for name, method in [("Upload", echo.upload), ("Download", echo.download), ("Talk", echo.talk),
                             ("Silent", echo.silent), ("Hang", echo.hang)]
    }
    server = grpc.server(futures.ThreadPoolExecutor(32), options=OPTIONS + [
        (name, int(value)) for name, value in (option.split("=") for option in sys.argv[1:])])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


main()
