// Package grpcgo has a gRPC server and client of grpc-go, and the shapes of gRPC.
package grpcgo

import "fmt"

// rawCodec passes messages as bytes, so no protobuf compiler is needed.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(message any) ([]byte, error) {
	bytes, ok := message.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("message is %T", message)
	}
	return *bytes, nil
}

func (rawCodec) Unmarshal(data []byte, message any) error {
	bytes, ok := message.(*[]byte)
	if !ok {
		return fmt.Errorf("message is %T", message)
	}
	*bytes = append([]byte(nil), data...)
	return nil
}
