package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// HTTP1 sends requests over kept connections, each with a POST: neither a front door nor this client
// repeats one that may have been sent.
func HTTP1(address, query string) Client {
	return post(transport((*http.Protocols).SetHTTP1), address, query)
}

// HTTP2 sends such requests over one connection of HTTP/2 without TLS.
func HTTP2(address string) Client {
	return post(transport((*http.Protocols).SetUnencryptedHTTP2), address, "")
}

func transport(set func(*http.Protocols, bool)) *http.Transport {
	var protocols http.Protocols
	set(&protocols, true)
	return &http.Transport{Protocols: &protocols, MaxIdleConnsPerHost: 2000}
}

func post(transport *http.Transport, address, query string) Client {
	return func(ctx context.Context) error {
		response, body, err := exchange(ctx, transport, address, query, http.Header{}, []byte("text"))
		if err == nil && !strings.HasPrefix(string(body), "hello from ") {
			err = fmt.Errorf("%s with body %.100q", response.Status, body)
		}
		return err
	}
}

// GRPC calls a method that sends its message back.
func GRPC(address string) Client {
	transport := transport((*http.Protocols).SetUnencryptedHTTP2)
	header := http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	// Not compressed, and its length.
	message := append([]byte{0, 0, 0, 0, 5}, "hello"...)
	return func(ctx context.Context) error {
		response, body, err := exchange(ctx, transport, address, "", header, message)
		if err != nil {
			return err
		}
		if status := response.Trailer.Get("Grpc-Status"); status != "0" || !bytes.Equal(body, message) {
			return fmt.Errorf("grpc-status %q of the trailers, %q of the headers, message %.100q", status,
				response.Header.Get("Grpc-Status"), body)
		}
		return nil
	}
}

func exchange(
	ctx context.Context, transport *http.Transport, address, query string, header http.Header, message []byte,
) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/"+query, bytes.NewReader(message))
	if err != nil {
		return nil, nil, err
	}
	request.Header = header.Clone()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s with body %.100q", response.Status, body)
	}
	return response, body, err
}
