package nginx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"rouse.dev/interop/check"
	"rouse.dev/interop/peers/httpclient"
)

// Shapes of Go's client with static files.
func Shapes() []check.Shape {
	return slices.Concat(
		httpclient.Shape("file", "files", file),
		httpclient.Shape("slow file", "files behind a bound on their rate", slow),
		httpclient.Shape("range", "videos and resumed downloads", ranges),
		httpclient.Shape("304, 204, 302, HEAD", "caches and redirects", withoutBody),
		httpclient.Shape("host", "virtual hosts and absolute links", host),
		httpclient.Shape("413 in an upload", "the reason why an upload was refused", refused),
		httpclient.Shape("more requests than a connection has", "errors where nginx ends a connection", many),
	)
}

func file(ctx context.Context, c httpclient.Client) error { return whole(ctx, c, "/file") }

func slow(ctx context.Context, c httpclient.Client) error { return whole(ctx, c, "/slow") }

func whole(ctx context.Context, c httpclient.Client, path string) error {
	status, body, err := c.Fetch(ctx, "GET", path, nil)
	return errors.Join(err, check.Equal("status", status, 200), isFile(body, 0, Length))
}

// isFile compares a part of the file.
func isFile(body string, start, length int) error {
	for at := range len(body) {
		if body[at] != byte((start+at)%251) {
			return fmt.Errorf("the byte at %d is wrong", start+at)
		}
	}
	return check.Equal("length", len(body), length)
}

func ranges(ctx context.Context, c httpclient.Client) error {
	response, err := get(ctx, c, "/file", "Range", "bytes=1000-1999")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return errors.Join(err, check.Equal("status", response.StatusCode, 206), isFile(string(body), 1000, 1000))
}

func withoutBody(ctx context.Context, c httpclient.Client) error {
	head, err := c.Send(ctx, "HEAD", "/file", nil)
	if err != nil {
		return err
	}
	head.Body.Close()
	unchanged, err := get(ctx, c, "/file", "If-None-Match", head.Header.Get("Etag"))
	if err != nil {
		return err
	}
	unchanged.Body.Close()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	redirect, err := c.Send(ctx, "GET", "/redirect", nil)
	if err != nil {
		return err
	}
	redirect.Body.Close()
	empty, _, err := c.Fetch(ctx, "GET", "/status/204", nil)
	return errors.Join(err, check.Equal("length of HEAD", head.ContentLength, Length),
		check.Equal("status", unchanged.StatusCode, 304), check.Equal("status", empty, 204),
		check.Equal("status", redirect.StatusCode, 302),
		check.Equal("location", redirect.Header.Get("Location"), "/file"))
}

func host(ctx context.Context, c httpclient.Client) error {
	_, body, err := c.Fetch(ctx, "GET", "/host", nil)
	return errors.Join(err, check.Equal("host at the app", body, c.Address))
}

func get(ctx context.Context, c httpclient.Client, path, name, value string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+c.Address+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(name, value)
	return c.Do(request)
}

// refused has an upload that is larger than all buffers.
func refused(ctx context.Context, c httpclient.Client) error {
	status, _, err := c.Fetch(ctx, "POST", "/file", strings.NewReader(strings.Repeat("x", 32<<20)))
	return errors.Join(err, check.Equal("status", status, 413))
}

func many(ctx context.Context, c httpclient.Client) error {
	ends := make(chan error)
	for range 4 {
		go func() {
			var all error
			for range 25 {
				status, _, err := c.Fetch(ctx, "HEAD", "/file", nil)
				all = errors.Join(all, err, check.Equal("status", status, 200))
			}
			ends <- all
		}()
	}
	var all error
	for range 4 {
		all = errors.Join(all, <-ends)
	}
	return all
}
