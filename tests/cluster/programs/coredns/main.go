// Command coredns is CoreDNS with the few plugins that a cluster's own names need. The full list costs twice the size and
// four times the build, for clouds and stores that no test has.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	// A plugin registers itself when its package is linked in.
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

// chain is the order in which a query passes the plugins; the order in a Corefile means nothing. Observers stand before
// the cache, the cache before those that answer.
var chain = []string{
	"reload", "ready", "health",
	"errors", "log",
	"cache",
	"loop", "kubernetes", "forward",
}

func main() {
	dnsserver.Directives = chain
	coremain.Run()
}
