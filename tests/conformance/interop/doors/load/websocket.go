package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const handshake = "GET / HTTP/1.1\r\nHost: door\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// session is an upgraded connection, to an app that sends back each byte.
type session struct {
	net.Conn
	received *bufio.Reader
}

func open(ctx context.Context, address string) (*session, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	connection.SetDeadline(deadline)
	opened := &session{connection, bufio.NewReader(connection)}
	if err := opened.upgrade(); err != nil {
		connection.Close()
		return nil, err
	}
	return opened, nil
}

func (s *session) upgrade() error {
	if _, err := io.WriteString(s, handshake); err != nil {
		return err
	}
	response, err := http.ReadResponse(s.received, nil)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%s instead of an upgrade", response.Status)
	}
	return err
}

// echo sends a masked frame of text, and expects the same bytes.
func (s *session) echo() error {
	frame := "\x81\x84\x00\x00\x00\x00text"
	if _, err := io.WriteString(s, frame); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	got := make([]byte, len(frame))
	if _, err := io.ReadFull(s.received, got); err != nil {
		return fmt.Errorf("receive a frame: %w", err)
	}
	if string(got) != frame {
		return fmt.Errorf("frame %q instead of %q", got, frame)
	}
	return nil
}

// Websocket opens sessions of this length, with a frame each 100 ms.
func Websocket(address string, lasts time.Duration) Client {
	return func(ctx context.Context) error {
		session, err := open(ctx, address)
		if err != nil {
			return err
		}
		defer session.Close()
		opened := time.Now()
		for ; ; time.Sleep(100 * time.Millisecond) {
			if err := session.echo(); err != nil {
				return fmt.Errorf("session of %v: %w", time.Since(opened).Round(time.Millisecond), err)
			}
			if time.Since(opened) >= lasts {
				return nil
			}
		}
	}
}
