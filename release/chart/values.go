package chart

import (
	"fmt"
	"regexp"
)

// imageOf matches the reference of an image in the chart's values.
var imageOf = regexp.MustCompile(`(?m)^( *)repository: (\S+)\n *tag: ""\n *digest: ""$`)

// anyDigest matches each line with a digest.
var anyDigest = regexp.MustCompile(`(?m)^ *digest:`)

// pin sets the digest of every image in the chart's values, by its repository. It edits the text,
// so that comments remain.
func pin(values string, digests map[string]string) (string, error) {
	found := imageOf.FindAllStringSubmatch(values, -1)
	if all := len(anyDigest.FindAllString(values, -1)); len(found) != all || all == 0 {
		return "", fmt.Errorf("values.yaml has %d images, of which %d have an empty tag and digest below the repository", all, len(found))
	}
	for _, match := range found {
		if digests[match[2]] == "" {
			return "", fmt.Errorf("values.yaml names %s, which the release does not have", match[2])
		}
	}
	return imageOf.ReplaceAllStringFunc(values, func(text string) string {
		match := imageOf.FindStringSubmatch(text)
		indent, repository := match[1], match[2]
		return fmt.Sprintf("%[1]srepository: %[2]s\n%[1]stag: \"\"\n%[1]sdigest: %[3]s", indent, repository, digests[repository])
	}), nil
}
