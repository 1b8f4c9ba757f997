// Command hello is a workload for the tests: a server, or with a URL as argument a client.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		client := http.Client{Timeout: 5 * time.Second}
		response, err := client.Get(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(os.Stdout, response.Body)
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	go func() { log.Fatal(http.ListenAndServe(":8080", nil)) }()
	log.Print("serving")
	<-ctx.Done()
}
