package networkpolicy

import (
	"context"
	"fmt"
	"log"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Enforcer keeps the rules of this network namespace equal to the NetworkPolicies of an API server.
type Enforcer struct {
	client *http.Client
	server string

	mu         sync.Mutex
	policies   map[string]Policy
	pods       map[string]Pod
	namespaces map[string]Namespace
	// changed has a value if the objects changed since the last look at them.
	changed chan struct{}
}

// NewEnforcer returns an Enforcer for an API server, as "https://HOST:PORT".
func NewEnforcer(client *http.Client, server string) *Enforcer {
	return &Enforcer{client: client, server: server, changed: make(chan struct{}, 1)}
}

// Run enforces until the context is done.
func (e *Enforcer) Run(ctx context.Context) {
	report := func(err error) { log.Print(err) }
	networking := e.server + "/apis/networking.k8s.io/v1/networkpolicies"
	policies := watch[Policy]{e.client, networking, func(p Policy) Meta { return p.Metadata }, keep(e, &e.policies)}
	pods := watch[Pod]{e.client, e.server + "/api/v1/pods", func(p Pod) Meta { return p.Metadata }, keep(e, &e.pods)}
	namespaces := watch[Namespace]{e.client, e.server + "/api/v1/namespaces", func(n Namespace) Meta { return n.Metadata }, keep(e, &e.namespaces)}
	go policies.run(ctx, report)
	go pods.run(ctx, report)
	go namespaces.run(ctx, report)
	e.apply(ctx)
}

// keep returns a function that stores a copy of objects and reports the change.
func keep[T any](e *Enforcer, to *map[string]T) func(map[string]T) {
	return func(objects map[string]T) {
		e.mu.Lock()
		*to = maps.Clone(objects)
		e.mu.Unlock()
		e.wake()
	}
}

func (e *Enforcer) wake() {
	select {
	case e.changed <- struct{}{}:
	default: // a change is already pending
	}
}

// apply loads the rules after each change of them. Changes during a load are loaded together.
func (e *Enforcer) apply(ctx context.Context) {
	var loaded string
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.changed:
		}
		cluster, complete := e.cluster()
		if !complete {
			continue
		}
		rules := cluster.Ruleset()
		if rules == loaded {
			continue
		}
		start := time.Now()
		if err := Load(ctx, rules); err != nil {
			log.Print(err)
			time.AfterFunc(retryDelay, e.wake)
			continue
		}
		loaded = rules
		log.Printf("rules loaded in %d ms: %d policies, %d pods", time.Since(start).Milliseconds(), len(cluster.Policies), len(cluster.Pods))
	}
}

// cluster returns the current objects, and whether all kinds were listed.
func (e *Enforcer) cluster() (Cluster, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	complete := e.policies != nil && e.pods != nil && e.namespaces != nil
	return Cluster{Policies: sorted(e.policies), Pods: sorted(e.pods), Namespaces: sorted(e.namespaces)}, complete
}

// sorted returns objects in the order of their keys, so that equal objects yield equal rules.
func sorted[T any](objects map[string]T) []T {
	var all []T
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[key])
	}
	return all
}

// Load replaces the rules of this network namespace, in one transaction.
func Load(ctx context.Context, rules string) error {
	nft := exec.CommandContext(ctx, "nft", "--file", "-")
	nft.Stdin = strings.NewReader(rules)
	if output, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("load rules: %w: %s", err, output)
	}
	return nil
}
