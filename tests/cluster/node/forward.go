package node

import (
	"errors"
	"io"
	"net"
	"time"
)

// forward carries connections from the host to the API server.
//
// A socket belongs to the network namespace that it was made in, whoever holds it: the listener was made on the host's
// loopback interface and handed in, and the other side is dialled from here. So nobody has to change namespaces.
func forward(listener net.Listener, address string) error {
	for {
		outer, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // out of files, or a client that left in the queue
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer outer.Close()
			inner, err := net.DialTimeout("tcp", address, 5*time.Second)
			if err != nil {
				return // the client sees a closed connection, as it would of an API server that is down
			}
			defer inner.Close()
			join(outer.(*net.TCPConn), inner.(*net.TCPConn))
		}()
	}
}

// join copies both ways until both directions have ended. The end of one is passed on by itself: exec and attach close
// theirs long before the other.
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
		// Broken rather than ended: the other direction has nobody to talk to.
		from.Close()
		to.Close()
		return
	}
	_ = to.CloseWrite()
}
