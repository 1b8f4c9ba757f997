package image

import "time"

// Labels returns the labels of OCI's specification. Source and URL are absent, because a release
// does not depend on the place of its repository.
func Labels(title, version, revision string, created time.Time) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.revision": revision,
		"org.opencontainers.image.created":  created.UTC().Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}
