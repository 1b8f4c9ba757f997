package command

import (
	"math"
	"strings"
	"testing"
)

func TestDiskThatIsTooFullIsAnError(t *testing.T) {
	if err := requireDisk(t.TempDir(), 0); err != nil {
		t.Error(err)
	}
	err := requireDisk(t.TempDir(), math.MaxUint64)
	if err == nil || !strings.Contains(err.Error(), "free disk") {
		t.Errorf("err = %v", err)
	}
}
