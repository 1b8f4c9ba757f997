package grpcgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"rouse.dev/interop/check"
)

const mebibyte = 1 << 20

// Shapes of grpc-go's client, for a server of any language.
func Shapes() []check.Shape {
	return []check.Shape{
		shape("unary", "each call", unaryCall),
		shape("large unary", "calls with messages beyond the HTTP/2 windows", largeCall),
		shape("metadata", "tracing and authentication by metadata, details of errors in trailers", metadataBothWays),
		shape("error status", "errors that the app returns", errorStatus),
		shape("client stream", "uploads", upload),
		shape("server stream", "downloads and watches", download),
		shape("bidi stream", "conversations", talk),
		shape("100 calls at once", "services that share one connection", manyCalls),
		shape("deadline", "clients that give up: the app goes on for nothing", deadline),
		shape("cancel", "clients that leave: the app goes on for nothing", cancelled),
		{Name: "silent stream", Breaks: "watches without events, cut as too_many_pings", Long: true,
			// The client's own PINGs end at the proxies.
			FailsDirect: true,
			Run: func(ctx context.Context, address string, _ check.App) error {
				return withClient(address, func(c client) error { return silent(ctx, c) })
			}},
	}
}

// ShortLivedShapes are for servers that send GOAWAY again and again.
func ShortLivedShapes() []check.Shape {
	return []check.Shape{
		shape("calls beyond GOAWAY", "apps with MaxConnectionAge: errors at each new connection", sendOn),
		shape("stream beyond GOAWAY", "apps with MaxConnectionAge: streams cut at that age", talkOn),
	}
}

func shape(name, breaks string, run func(context.Context, client) error) check.Shape {
	return check.Shape{Name: name, Breaks: breaks, Run: func(ctx context.Context, address string, _ check.App) error {
		return withClient(address, func(c client) error { return run(ctx, c) })
	}}
}

func unaryCall(ctx context.Context, c client) error {
	response, err := c.call(ctx, "Unary", []byte("hello"))
	return errors.Join(err, check.Equal("response", string(response), "hello"))
}

func largeCall(ctx context.Context, c client) error {
	message := bytes.Repeat([]byte("large "), mebibyte/2)
	response, err := c.call(ctx, "Unary", message)
	return errors.Join(err, check.Equal("response is the request", bytes.Equal(response, message), true))
}

func metadataBothWays(ctx context.Context, c client) error {
	data := "\x00\xff binary"
	ctx = metadata.AppendToOutgoingContext(ctx, "x-text", "one", "x-text", "two", "x-data-bin", data)
	var header, trailer metadata.MD
	_, err := c.call(ctx, "Unary", nil, grpc.Header(&header), grpc.Trailer(&trailer))
	return errors.Join(err,
		check.Equal("header", fmt.Sprint(header["x-header"]), "[one,two]"),
		check.Equal("trailer", fmt.Sprintf("%q", trailer["x-trailer-bin"]), fmt.Sprintf("%q", []string{data})))
}

func errorStatus(ctx context.Context, c client) error {
	_, err := c.call(ctx, "Fail", nil)
	got := status.Convert(err)
	return errors.Join(check.Equal("code", got.Code(), codes.FailedPrecondition),
		check.Equal("message", got.Message(), "100 % wrong: ä"))
}

func upload(ctx context.Context, c client) error {
	messages := make([][]byte, 64)
	for at := range messages {
		messages[at] = make([]byte, 128<<10)
	}
	stream, err := c.open(ctx, "Upload", messages...)
	if err != nil {
		return err
	}
	return errors.Join(stream.CloseSend(), expect(stream, strconv.Itoa(8*mebibyte)), expectEnd(stream))
}

func download(ctx context.Context, c client) error {
	stream, err := c.open(ctx, "Download", make([]byte, 512))
	if err != nil {
		return err
	}
	for range 512 {
		if err := expect(stream, string(make([]byte, 16<<10))); err != nil {
			return err
		}
	}
	return expectEnd(stream)
}

func talk(ctx context.Context, c client) error {
	stream, err := c.open(ctx, "Talk")
	if err != nil {
		return err
	}
	for word := range 100 {
		message := fmt.Append(nil, "word ", word)
		if err := errors.Join(stream.SendMsg(&message), expect(stream, string(message))); err != nil {
			return err
		}
	}
	return errors.Join(stream.CloseSend(), expectEnd(stream))
}

func manyCalls(ctx context.Context, c client) error {
	ends := make(chan error)
	for range 100 {
		go func() { ends <- unaryCall(ctx, c) }()
	}
	var all error
	for range 100 {
		all = errors.Join(all, <-ends)
	}
	return all
}

func deadline(ctx context.Context, c client) error {
	before, err := cancelledCalls(ctx, c)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, err := c.open(short, "Hang")
	if err != nil {
		return err
	}
	for err == nil {
		_, err = next(stream)
	}
	return errors.Join(check.Equal("code", status.Code(err), codes.DeadlineExceeded), untilCancelled(ctx, c, before+1))
}

func cancelled(ctx context.Context, c client) error {
	before, err := cancelledCalls(ctx, c)
	if err != nil {
		return err
	}
	leaves, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.open(leaves, "Hang")
	if err != nil {
		return err
	}
	if err := expect(stream, "hangs"); err != nil {
		return err
	}
	cancel()
	_, err = next(stream)
	return errors.Join(check.Equal("code", status.Code(err), codes.Canceled), untilCancelled(ctx, c, before+1))
}

func cancelledCalls(ctx context.Context, c client) (int, error) {
	response, err := c.call(ctx, "Cancelled", nil)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(response))
}

func untilCancelled(ctx context.Context, c client, want int) error {
	return check.Eventually(ctx, func() error {
		got, err := cancelledCalls(ctx, c)
		return errors.Join(err, check.Equal("number of cancelled calls at the app", got, want))
	})
}

func silent(ctx context.Context, c client) error {
	stream, err := c.open(ctx, "Silent", fmt.Append(nil, int(check.Silence.Seconds())))
	if err != nil {
		return err
	}
	return errors.Join(stream.CloseSend(), expect(stream, "begin"), expect(stream, "end"), expectEnd(stream))
}

// sendOn calls without pause over some ages of connections.
func sendOn(ctx context.Context, c client) error {
	end := time.Now().Add(7 * time.Second)
	for calls := 0; time.Now().Before(end); calls++ {
		if err := unaryCall(ctx, c); err != nil {
			return fmt.Errorf("after %d calls: %w", calls, err)
		}
	}
	return nil
}

// talkOn has a stream that is older than its connection may be.
func talkOn(ctx context.Context, c client) error {
	stream, err := c.open(ctx, "Talk")
	if err != nil {
		return err
	}
	for word := range 14 {
		message := fmt.Append(nil, "word ", word)
		if err := errors.Join(stream.SendMsg(&message), expect(stream, string(message))); err != nil {
			return fmt.Errorf("at word %d: %w", word, err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	return errors.Join(stream.CloseSend(), expectEnd(stream))
}
