package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// Session is a client that keeps its cookies.
type Session struct {
	address   string
	transport *http.Transport
	cookies   *cookiejar.Jar
}

// NewSession is a client of this address. New connections are for front doors that select an
// endpoint for each of them.
func NewSession(address string, newConnections bool) (*Session, error) {
	cookies, err := cookiejar.New(nil)
	transport := transport((*http.Protocols).SetHTTP1)
	transport.DisableKeepAlives = newConnections
	return &Session{address, transport, cookies}, err
}

// Send sends a request, and returns the pod of its response. The pod works on it for so many
// milliseconds.
func (s *Session) Send(ctx context.Context, work int) (string, error) {
	origin := &url.URL{Scheme: "http", Host: s.address, Path: "/"}
	header := http.Header{}
	for _, cookie := range s.cookies.Cookies(origin) {
		header.Add("Cookie", cookie.String())
	}
	response, body, err := exchange(ctx, s.transport, s.address, fmt.Sprintf("?work=%d", work), header, []byte("text"))
	if err != nil {
		return "", err
	}
	s.cookies.SetCookies(origin, response.Cookies())
	pod, isFromApp := strings.CutPrefix(string(body), "hello from ")
	if !isFromApp {
		return "", fmt.Errorf("body %.100q", body)
	}
	return pod, nil
}

// ErrMoved is for requests of a session that went to several pods.
var ErrMoved = errors.New("a session moved")

// Stays fails unless this many requests, one after another, go to the same pod.
func (s *Session) Stays(ctx context.Context, count int) error {
	first, err := s.Send(ctx, 0)
	for range count - 1 {
		if err != nil {
			return err
		}
		var pod string
		if pod, err = s.Send(ctx, 0); err == nil && pod != first {
			err = fmt.Errorf("%w from %q to %q", ErrMoved, first, pod)
		}
	}
	return err
}
