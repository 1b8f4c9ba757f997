// Package nethttp is an HTTP/1.1 and HTTP/2 server of Go's standard library. Its paths are those
// that package httpclient tries, of servers of any language.
package nethttp

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"rouse.dev/interop/check"
)

// Start starts a server.
func Start(t testing.TB) check.App {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler(), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return check.App{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port}
}

func handler() http.Handler {
	var cancelled atomic.Int64
	paths := http.NewServeMux()
	paths.HandleFunc("/bytes/{length}", func(w http.ResponseWriter, r *http.Request) {
		length, _ := strconv.Atoi(r.PathValue("length"))
		w.Header().Set("Content-Length", strconv.Itoa(length))
		if r.Method != http.MethodHead {
			w.Write(make([]byte, length))
		}
	})
	// Without a length: in chunks, and at once what has arrived.
	paths.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		http.NewResponseController(w).Flush()
		buffer := make([]byte, 64<<10)
		for {
			read, err := r.Body.Read(buffer)
			w.Write(buffer[:read])
			http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	})
	paths.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		read, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %s", read, r.Trailer.Get("X-Sum"))
	})
	paths.HandleFunc("/trailers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "4")
	})
	paths.HandleFunc("/abort", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	paths.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	paths.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	paths.HandleFunc("/status/{status}", func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.PathValue("status"))
		w.WriteHeader(status)
	})
	paths.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		cancelled.Add(1)
	})
	paths.HandleFunc("/cancelled", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, cancelled.Load())
	})
	return paths
}
