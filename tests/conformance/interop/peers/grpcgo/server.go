package grpcgo

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"rouse.dev/interop/check"
)

// Start starts a server with the default rule of gRPC about PINGs, written out: a client that
// sends a third one within five minutes without data loses its connection.
func Start(t testing.TB) check.App { return start(t, keepalive.ServerParameters{}) }

// StartShortLived starts one that sends GOAWAY on each connection after two seconds.
func StartShortLived(t testing.TB) check.App {
	return start(t, keepalive.ServerParameters{MaxConnectionAge: 2 * time.Second})
}

func start(t testing.TB, parameters keepalive.ServerParameters) check.App {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ForceServerCodec(rawCodec{}),
		grpc.KeepaliveParams(parameters),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Minute, PermitWithoutStream: false,
		}),
	)
	server.RegisterService(&service, &echo{})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return check.App{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port}
}

// echo counts the calls that were cancelled.
type echo struct{ cancelled atomic.Int64 }

// service is what a compiler would generate for a service of bytes.
var service = grpc.ServiceDesc{
	ServiceName: "interop.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Unary", (*echo).unary), unary("Fail", (*echo).fail), unary("Cancelled", (*echo).cancelledCalls),
	},
	Streams: []grpc.StreamDesc{
		stream("Upload", (*echo).upload), stream("Download", (*echo).download), stream("Talk", (*echo).talk),
		stream("Silent", (*echo).silent), stream("Hang", (*echo).hang),
	},
}

func unary(name string, handle func(*echo, context.Context, []byte) ([]byte, error)) grpc.MethodDesc {
	handler := func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		response, err := handle(server.(*echo), ctx, request)
		return &response, err
	}
	return grpc.MethodDesc{MethodName: name, Handler: handler}
}

func stream(name string, handle func(*echo, grpc.ServerStream) error) grpc.StreamDesc {
	handler := func(server any, stream grpc.ServerStream) error { return handle(server.(*echo), stream) }
	return grpc.StreamDesc{StreamName: name, Handler: handler, ServerStreams: true, ClientStreams: true}
}

func receive(stream grpc.ServerStream) ([]byte, error) {
	var message []byte
	err := stream.RecvMsg(&message)
	return message, err
}

func send(stream grpc.ServerStream, message []byte) error { return stream.SendMsg(&message) }

// unary echoes the message, and metadata as header and as trailer.
func (*echo) unary(ctx context.Context, message []byte) ([]byte, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	grpc.SetHeader(ctx, metadata.Pairs("x-header", strings.Join(sent["x-text"], ",")))
	for _, value := range sent["x-data-bin"] {
		grpc.SetTrailer(ctx, metadata.Pairs("x-trailer-bin", value))
	}
	return message, nil
}

func (*echo) fail(context.Context, []byte) ([]byte, error) {
	return nil, status.Error(codes.FailedPrecondition, "100 % wrong: ä")
}

func (e *echo) cancelledCalls(context.Context, []byte) ([]byte, error) {
	return fmt.Append(nil, e.cancelled.Load()), nil
}

// upload returns the number of bytes.
func (*echo) upload(stream grpc.ServerStream) error {
	for all := 0; ; {
		message, err := receive(stream)
		if err == io.EOF {
			return send(stream, fmt.Append(nil, all))
		}
		if err != nil {
			return err
		}
		all += len(message)
	}
}

// download sends as many messages as the request has bytes, each of 16 KiB.
func (*echo) download(stream grpc.ServerStream) error {
	request, err := receive(stream)
	for range request {
		if err == nil {
			err = send(stream, make([]byte, 16<<10))
		}
	}
	return err
}

func (*echo) talk(stream grpc.ServerStream) error {
	for {
		message, err := receive(stream)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(stream, message); err != nil {
			return err
		}
	}
}

// silent sends a message, nothing for the seconds of the request, and another message.
func (*echo) silent(stream grpc.ServerStream) error {
	request, err := receive(stream)
	if err != nil {
		return err
	}
	seconds, err := time.ParseDuration(string(request) + "s")
	if err != nil {
		return err
	}
	if err := send(stream, []byte("begin")); err != nil {
		return err
	}
	select {
	case <-time.After(seconds):
		return send(stream, []byte("end"))
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// hang sends a message, and waits until the call is cancelled.
func (e *echo) hang(stream grpc.ServerStream) error {
	if err := send(stream, []byte("hangs")); err != nil {
		return err
	}
	<-stream.Context().Done()
	e.cancelled.Add(1)
	return stream.Context().Err()
}
