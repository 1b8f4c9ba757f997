// Package ext has the two empty types that Traefik embeds in its configuration. Traefik keeps them
// in a module of its own, which no proxy serves.
package ext

type (
	HTTP   struct{}
	Router struct{}
)
