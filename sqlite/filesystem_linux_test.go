package sqlite

import (
	"strings"
	"testing"
)

func TestNetworkFileSystem(t *testing.T) {
	t.Parallel()
	for magic, name := range networkFileSystems {
		if err := refuseNetwork("/data", magic); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want it refused by name", name, err)
		}
	}
	for name, magic := range map[string]uint32{"ext4": 0xEF53, "xfs": 0x58465342, "btrfs": 0x9123683E, "tmpfs": 0x01021994, "overlay": 0x794c7630} {
		if err := refuseNetwork("/data", magic); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
}
