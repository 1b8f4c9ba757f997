package node

import (
	"errors"
	"io"
	"net"
	"time"
)

// forward forwards connections from the host to the API server.
//
// A socket belongs to the network namespace in which it was created. The inherited listener is on
// the host's loopback interface, and the other side is dialled from this namespace, so no process
// changes namespaces.
func forward(listener net.Listener, address string) error {
	for {
		outer, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // no file descriptors, or a client that closed in the queue
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer outer.Close()
			inner, err := net.DialTimeout("tcp", address, 5*time.Second)
			if err != nil {
				return // the client sees a closed connection, as from an API server that is down
			}
			defer inner.Close()
			join(outer.(*net.TCPConn), inner.(*net.TCPConn))
		}()
	}
}

// join copies in both directions until both have ended. The end of one direction is forwarded at
// once: exec and attach close one direction long before the other.
func join(a, b *net.TCPConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pump(a, b)
	}()
	pump(b, a)
	<-done
}

func pump(from, to *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		// After an error, the other direction is useless.
		from.Close()
		to.Close()
		return
	}
	_ = to.CloseWrite()
}
