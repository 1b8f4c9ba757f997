package door

import (
	"os/exec"
	"regexp"
)

var number = regexp.MustCompile(`\d+\.\d+\.\d+`)

// version is the version that a program of Debian prints, in any of its outputs.
func version(program, flag string) string {
	output, err := exec.Command("/usr/sbin/"+program, flag).CombinedOutput()
	if err != nil {
		return "without a version"
	}
	return number.FindString(string(output))
}
