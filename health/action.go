package health

import (
	"fmt"
	"strconv"

	"github.com/warmroute/warmroute/replica"
)

// Action is what a sign means for the replicas on the GPU that shows it.
type Action int

// The actions, in order of their weight.
const (
	// ByDefault is what the sign means by default.
	ByDefault Action = iota
	// Ignore has it mean nothing.
	Ignore
	// Suspect has the replica get new conversations only where no other can take
	// them, until [DCGM.Hold] after the last sign.
	Suspect
	// Drain has its conversations move away and none come, until [DCGM.Hold] after
	// the last sign.
	Drain
	// DrainUntilReset is Drain until the exporter has shown for [DCGM.Hold] that the
	// sign is gone: the value is zero, or the GPU is on the page without it. It stays
	// while the page cannot be read or the GPU is not on it.
	DrainUntilReset
)

const actions = "Ignore, Suspect, Drain or DrainUntilReset"

var actionNames = [...]string{"default", "ignore", "suspect", "drain", "drain-until-reset"}

// String is the action's name, such as "drain-until-reset".
func (a Action) String() string {
	if a < 0 || int(a) >= len(actionNames) {
		return "Action(" + strconv.Itoa(int(a)) + ")"
	}
	return actionNames[a]
}

// MarshalText returns what String does.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a name, so that an Action can be a field of a configuration
// file. The error is a [*replica.ConfigError].
func (a *Action) UnmarshalText(text []byte) error {
	for i, name := range actionNames {
		if name == string(text) {
			*a = Action(i)
			return nil
		}
	}
	return refuse("health action", fmt.Sprintf("%.40s", text), "default, ignore, suspect, drain or drain-until-reset")
}

// state is what the action makes of a replica.
func (a Action) state() replica.State {
	switch a {
	case Suspect:
		return replica.Suspect
	case Drain, DrainUntilReset:
		return replica.Draining
	default:
		return replica.Up
	}
}

// maxXID bounds what is taken for an XID; the catalogue ended at 172 when this was
// written.
const maxXID = 9999

// DefaultXIDs returns what XIDs mean by default: a new map, by code. Codes that are
// not in it mean nothing. It follows the immediate action of NVIDIA's Xid catalogue
// (docs.nvidia.com/deploy/xid-errors, for Ampere and newer, as of 2026), with an
// inference engine in mind:
//
//   - the GPU, or its machine, must be reset (RESET_GPU, RESTART_BM, and the
//     workflows of 48 and 74 that end there): [DrainUntilReset]
//   - 94, a memory error that is contained to its application, which must be
//     restarted: [Drain]
//   - a fault of an application that must be restarted (RESTART_APP) on an engine
//     that inference uses, such as 13 and 31: [Suspect]. The GPU is sound, but it is
//     most likely the inference engine that is about to end
//   - what may but need not be fatal: NVLink 5 (144 to 150, but 149), a high rate of
//     corrected errors (92), halted controllers, a change of recovery action (154)
//     and the like: [Suspect]
//   - 43 and 45, an application that was ended, remapped rows (63), which
//     [Rules.RemappedRows] tells better, video and JPEG engines, and all that the
//     catalogue says to ignore: not in the map
func DefaultXIDs() map[int]Action {
	xids := map[int]Action{94: Drain}
	for action, codes := range map[Action][]int{
		DrainUntilReset: {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 149, 156, 158, 167, 171, 172},
		Suspect: {
			8, 11, 13, 25, 31, 32, 39, 40, 41, 69, 70, 71, 72, 75, 76, 77, 80, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135,
			54, 92, 144, 145, 146, 147, 148, 150, 151, 154, 155, 159, 169,
		},
	} {
		for _, code := range codes {
			xids[code] = action
		}
	}
	return xids
}
