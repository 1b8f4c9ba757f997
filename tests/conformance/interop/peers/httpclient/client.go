// Package httpclient tries servers with the HTTP client of Go's standard library, over HTTP/1.1
// and HTTP/2.
package httpclient

import (
	"context"
	"io"
	"net/http"
	"strings"

	"rouse.dev/interop/check"
)

// Client sends requests to one address over one version.
type Client struct {
	http.Client
	// Address of the server.
	Address    string
	versionTwo bool
}

func newClient(address string, versionTwo bool) Client {
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetHTTP1(!versionTwo)
	transport.Protocols.SetUnencryptedHTTP2(versionTwo)
	return Client{http.Client{Transport: transport}, address, versionTwo}
}

// Send sends a request and returns the response with its body unread.
func (c Client) Send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, body)
	if err != nil {
		return nil, err
	}
	return c.Do(request)
}

// Fetch returns the status and the body of a response that ends.
func (c Client) Fetch(ctx context.Context, method, path string, body io.Reader) (int, string, error) {
	response, err := c.Send(ctx, method, path, body)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Shape makes a shape for each version of HTTP.
func Shape(name, breaks string, run func(context.Context, Client) error) []check.Shape {
	var shapes []check.Shape
	for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
		shapes = append(shapes, check.Shape{Name: name + ", " + version, Breaks: breaks,
			Run: func(ctx context.Context, address string, _ check.App) error {
				client := newClient(address, strings.HasSuffix(version, "2"))
				defer client.CloseIdleConnections()
				return run(ctx, client)
			}})
	}
	return shapes
}
