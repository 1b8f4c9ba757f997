package grpcgo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

var anyStream = grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// client is a connection as users make it, but for the codec.
type client struct{ *grpc.ClientConn }

func connect(address string) (client, error) {
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The shortest period that grpc-go allows.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true,
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	return client{connection}, err
}

// withClient does what needs a connection.
func withClient(address string, do func(client) error) error {
	client, err := connect(address)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

func (c client) call(ctx context.Context, method string, message []byte, options ...grpc.CallOption) ([]byte, error) {
	var response []byte
	err := c.Invoke(ctx, "/interop.Echo/"+method, &message, &response, options...)
	return response, err
}

// open opens a stream and sends the messages.
func (c client) open(ctx context.Context, method string, messages ...[]byte) (grpc.ClientStream, error) {
	stream, err := c.NewStream(ctx, &anyStream, "/interop.Echo/"+method)
	for _, message := range messages {
		if err == nil {
			err = stream.SendMsg(&message)
		}
	}
	return stream, err
}

func next(stream grpc.ClientStream) ([]byte, error) {
	var message []byte
	err := stream.RecvMsg(&message)
	return message, err
}

func expect(stream grpc.ClientStream, want string) error {
	got, err := next(stream)
	if err != nil {
		return fmt.Errorf("no message %.20q: %w", want, err)
	}
	if !bytes.Equal(got, []byte(want)) {
		return fmt.Errorf("message %.20q instead of %.20q", got, want)
	}
	return nil
}

// expectEnd expects the status OK.
func expectEnd(stream grpc.ClientStream) error {
	if message, err := next(stream); err != io.EOF {
		return fmt.Errorf("message %.20q or error %w instead of the end", message, err)
	}
	return nil
}
