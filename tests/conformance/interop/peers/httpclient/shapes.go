package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"

	"rouse.dev/interop/check"
)

const mebibyte = 1 << 20

// Shapes for a server with the paths of package nethttp.
func Shapes() []check.Shape {
	return slices.Concat(
		Shape("download", "files", download),
		Shape("HEAD, 204, 304", "caches and health checks: clients that wait for bodies", withoutBody),
		Shape("upload", "uploads", upload),
		Shape("echo while uploading", "bidirectional streams", echo),
		Shape("trailers", "checksums behind bodies, in both directions", trailers),
		Shape("trailers without TE", "checksums behind bodies", trailersWithoutConsent),
		Shape("aborted response", "errors: half a file is taken for a whole one", aborted),
		Shape("early response", "the reason why an upload was refused", early),
		Shape("Expect: 100-continue", "uploads of clients that wait for the app's consent", expectContinue),
		Shape("103 early hints", "preloads", hints),
		Shape("client leaves", "clients that leave: the app goes on for nothing", leaves),
		Shape("200 requests on one client", "reused connections", many),
	)
}

func download(ctx context.Context, c Client) error {
	status, body, err := c.Fetch(ctx, "GET", fmt.Sprint("/bytes/", 8*mebibyte), nil)
	return errors.Join(err, check.Equal("status", status, 200), check.Equal("length", len(body), 8*mebibyte))
}

func withoutBody(ctx context.Context, c Client) error {
	response, err := c.Send(ctx, "HEAD", "/bytes/1000", nil)
	if err != nil {
		return err
	}
	response.Body.Close()
	err = check.Equal("length of HEAD", response.ContentLength, 1000)
	for _, status := range []int{204, 304} {
		got, body, failed := c.Fetch(ctx, "GET", fmt.Sprint("/status/", status), nil)
		err = errors.Join(err, failed, check.Equal("status", got, status), check.Equal("body", body, ""))
	}
	return err
}

func upload(ctx context.Context, c Client) error {
	text := strings.Repeat("x", 8*mebibyte)
	_, known, err := c.Fetch(ctx, "POST", "/count", strings.NewReader(text))
	// Without a length.
	_, unknown, unknownErr := c.Fetch(ctx, "POST", "/count", io.MultiReader(strings.NewReader(text)))
	want := fmt.Sprint(8*mebibyte, " ")
	return errors.Join(err, unknownErr, check.Equal("bytes at the app", known, want),
		check.Equal("bytes without a length", unknown, want))
}

func echo(ctx context.Context, c Client) error {
	read, write := io.Pipe()
	defer write.Close()
	response, err := c.Send(ctx, "POST", "/echo", read)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for word := range 50 {
		text := fmt.Sprintf("word %02d", word)
		if _, err := io.WriteString(write, text); err != nil {
			return err
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(response.Body, got); err != nil {
			return err
		}
		if err := check.Equal("echo", string(got), text); err != nil {
			return err
		}
	}
	write.Close()
	rest, err := io.ReadAll(response.Body)
	return errors.Join(err, check.Equal("rest", string(rest), ""))
}

func trailers(ctx context.Context, c Client) error {
	request, _ := http.NewRequestWithContext(ctx, "GET", "http://"+c.Address+"/trailers", nil)
	request.Header.Set("Te", "trailers")
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	err = errors.Join(err, check.Equal("body", string(body), "body"),
		check.Equal("trailer of the response", response.Trailer.Get("X-Sum"), "4"))

	request, _ = http.NewRequestWithContext(ctx, "POST", "http://"+c.Address+"/count",
		io.MultiReader(strings.NewReader("four")))
	request.Trailer = http.Header{"X-Sum": {"4"}}
	response, sendErr := c.Do(request)
	if sendErr != nil {
		return errors.Join(err, sendErr)
	}
	defer response.Body.Close()
	body, readErr := io.ReadAll(response.Body)
	return errors.Join(err, readErr, check.Equal("bytes and trailer at the app", string(body), "4 4"))
}

func trailersWithoutConsent(ctx context.Context, c Client) error {
	response, err := c.Send(ctx, "GET", "/trailers", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != nil {
		return err
	}
	if len(response.Trailer.Get("X-Sum")) == 0 && !c.versionTwo {
		return check.Refusal{Reason: "clients of HTTP/1.1 get trailers by TE: trailers alone"}
	}
	return check.Equal("trailer of the response", response.Trailer.Get("X-Sum"), "4")
}

func aborted(ctx context.Context, c Client) error {
	status, body, err := c.Fetch(ctx, "GET", "/abort", nil)
	// A reset may arrive before the head has been forwarded.
	if err == nil && status != http.StatusBadGateway {
		return fmt.Errorf("the aborted response %q looks complete", body)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the aborted response does not end: %w", err)
	}
	return nil
}

// early has an upload that is larger than all buffers.
func early(ctx context.Context, c Client) error {
	status, _, err := c.Fetch(ctx, "POST", "/early", strings.NewReader(strings.Repeat("x", 64*mebibyte)))
	return errors.Join(err, check.Equal("status", status, 413))
}

func expectContinue(ctx context.Context, c Client) error {
	continued := false
	trace := &httptrace.ClientTrace{Got100Continue: func() { continued = true }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), "POST",
		"http://"+c.Address+"/count", strings.NewReader("four"))
	if err != nil {
		return err
	}
	request.Header.Set("Expect", "100-continue")
	// The client sends the body all the same after a while, so the trace shows it.
	c.Transport.(*http.Transport).ExpectContinueTimeout = 1 << 62
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return errors.Join(err, check.Equal("bytes at the app", string(body), "4 "), check.Equal("100 Continue", continued, true))
}

func hints(ctx context.Context, c Client) error {
	link := ""
	trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
		link = fmt.Sprint(status, " ", header.Get("Link"))
		return nil
	}}
	status, _, err := c.Fetch(httptrace.WithClientTrace(ctx, trace), "GET", "/hints", nil)
	err = errors.Join(err, check.Equal("status", status, 200))
	if err == nil && link == "" && !c.versionTwo {
		return check.Refusal{Reason: "interim responses over HTTP/1.1 are dropped"}
	}
	return errors.Join(err, check.Equal("hint", link, "103 </style.css>; rel=preload"))
}

func leaves(ctx context.Context, c Client) error {
	_, before, err := c.Fetch(ctx, "GET", "/cancelled", nil)
	if err != nil {
		return err
	}
	short, leave := context.WithCancel(ctx)
	defer leave()
	if _, err := c.Send(short, "GET", "/hang", nil); err != nil {
		return err
	}
	leave()
	return check.Eventually(ctx, func() error {
		_, now, err := c.Fetch(ctx, "GET", "/cancelled", nil)
		if err == nil && now == before {
			err = errors.New("the app does not see that the client left")
		}
		return err
	})
}

func many(ctx context.Context, c Client) error {
	ends := make(chan error)
	for range 8 {
		go func() {
			var all error
			for range 25 {
				status, body, err := c.Fetch(ctx, "GET", "/bytes/100", nil)
				all = errors.Join(all, err, check.Equal("status", status, 200), check.Equal("length", len(body), 100))
			}
			ends <- all
		}()
	}
	var all error
	for range 8 {
		all = errors.Join(all, <-ends)
	}
	return all
}
