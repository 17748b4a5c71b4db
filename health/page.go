package health

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/metrics"
)

// GPU is who a GPU on an exporter's page is. What the page does not say is empty.
type GPU struct {
	Exporter string // the URL of the page
	Index    string // label gpu, such as "3"
	UUID     string // label UUID, such as "GPU-a8394b51-c086-568a-9f1a-c1e1c934c44c"
	Device   string // label device, such as "nvidia3"
	PCIBusID string // label pci_bus_id
	Hostname string // label Hostname
}

// String is "GPU 3", or with the UUID if there is no index.
func (g GPU) String() string { return "GPU " + cmp.Or(g.Index, g.UUID, g.Device) }

// Is reports whether name is the GPU's index, UUID, device or PCI bus id; letters
// of both cases are the same.
func (g GPU) Is(name string) bool {
	return name != "" && (name == g.Index || strings.EqualFold(name, g.UUID) ||
		strings.EqualFold(name, g.Device) || strings.EqualFold(name, g.PCIBusID))
}

// Reading is what a page says of one GPU. The instances of a GPU that is
// partitioned (MIG) are read as one.
type Reading struct {
	GPU GPU
	// XIDs are the codes that the GPU had last, in order and without zero; XIDKnown
	// says that the page has the series at all. RecentXIDs are those of
	// DCGM_EXP_XID_ERRORS_COUNT, within the exporter's window.
	XIDs, RecentXIDs []int
	XIDKnown         bool
	// DoubleBitVolatile counts since the driver was loaded, DoubleBitAggregate over
	// the GPU's life.
	DoubleBitVolatile, DoubleBitAggregate metrics.Number
	RowRemapFailure                       metrics.Number
	RemappedRows                          metrics.Number // for uncorrectable errors
	ThrottleReasons                       metrics.Number // a mask
	ThermalViolation, PowerViolation      metrics.Number // in nanoseconds
	Temperature                           metrics.Number // in degrees Celsius
}

// maxGPUs bounds what is kept of one page. A machine has 16 GPUs at the most by
// now.
const maxGPUs = 256

// maxLabel bounds a label that is kept.
const maxLabel = 128

// ErrTooManyGPUs is wrapped by the error about a page with more than 256 GPUs; the
// further ones are left out.
var ErrTooManyGPUs = errors.New("too many GPUs")

// What is read of a page: DCGM's field names, documented at
// docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html.
const (
	seriesXID           = "DCGM_FI_DEV_XID_ERRORS"
	seriesXIDCount      = "DCGM_EXP_XID_ERRORS_COUNT"
	seriesDBEVolatile   = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
	seriesDBEAggregate  = "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"
	seriesRemapFailure  = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
	seriesRemappedRows  = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
	seriesClocksEvent   = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
	seriesClockThrottle = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
	seriesThermal       = "DCGM_FI_DEV_THERMAL_VIOLATION"
	seriesPower         = "DCGM_FI_DEV_POWER_VIOLATION"
	seriesTemperature   = "DCGM_FI_DEV_GPU_TEMP"
)

func seriesNames() []string {
	return []string{
		seriesXID, seriesXIDCount, seriesDBEVolatile, seriesDBEAggregate, seriesRemapFailure, seriesRemappedRows,
		seriesClocksEvent, seriesClockThrottle, seriesThermal, seriesPower, seriesTemperature,
	}
}

// ParsePage reads a dcgm-exporter's page (2.x to 4.x): the GPUs on it in order of
// their appearance, without Exporter. Values that DCGM has for "blank" and "not
// supported" are missing. The error is about what could not be read, and wraps
// [ErrTooManyGPUs] where it is that; the rest is returned all the same.
func ParsePage(page []byte) ([]Reading, error) {
	var all []Reading
	index := map[GPU]int{}
	var nameless, left int
	err := metrics.ReadSamples(page, seriesNames(), func(s metrics.Sample) {
		g := GPU{
			Index: s.Label("gpu"), UUID: cmp.Or(s.Label("UUID"), s.Label("uuid")), Device: s.Label("device"),
			PCIBusID: s.Label("pci_bus_id"), Hostname: cmp.Or(s.Label("Hostname"), s.Label("hostname")),
		}
		if !g.named() {
			nameless++
			return
		}
		i, ok := index[g.key()]
		if !ok {
			if len(all) == maxGPUs {
				left++
				return
			}
			i = len(all)
			index[g.key()] = i
			all = append(all, Reading{GPU: g})
		}
		all[i].take(s)
	})
	if nameless > 0 {
		err = errors.Join(err, fmt.Errorf("health: %d samples name no GPU", nameless))
	}
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("health: %w: more than %d", ErrTooManyGPUs, maxGPUs))
	}
	for i := range all {
		all[i].XIDs, all[i].RecentXIDs = sorted(all[i].XIDs), sorted(all[i].RecentXIDs)
	}
	return all, err
}

// key is what a GPU is known by from page to page.
func (g GPU) key() GPU {
	if g.UUID != "" {
		return GPU{UUID: g.UUID}
	}
	return GPU{Index: g.Index, Device: g.Device, Hostname: g.Hostname}
}

// named reports whether it can be told from others, and by labels that may be
// shown to people.
func (g GPU) named() bool {
	for _, label := range [...]string{g.Index, g.UUID, g.Device, g.PCIBusID, g.Hostname} {
		if len(label) > maxLabel {
			return false
		}
		for i := range len(label) {
			if label[i] < ' ' || label[i] > '~' {
				return false
			}
		}
	}
	return cmp.Or(g.Index, g.UUID, g.Device) != ""
}

func (r *Reading) take(s metrics.Sample) {
	n := told(s.Value)
	switch s.Name {
	case seriesXID:
		r.XIDs, r.XIDKnown = appendXID(r.XIDs, n), r.XIDKnown || n.OK
	case seriesXIDCount:
		code, err := strconv.Atoi(s.Label("xid"))
		if err == nil && n.Value > 0 {
			r.RecentXIDs = appendXID(r.RecentXIDs, told(float64(code)))
		}
	case seriesDBEVolatile:
		most(&r.DoubleBitVolatile, n)
	case seriesDBEAggregate:
		most(&r.DoubleBitAggregate, n)
	case seriesRemapFailure:
		most(&r.RowRemapFailure, n)
	case seriesRemappedRows:
		most(&r.RemappedRows, n)
	case seriesClocksEvent, seriesClockThrottle:
		if n.OK {
			r.ThrottleReasons = metrics.Number{Value: float64(uint64(r.ThrottleReasons.Value) | uint64(n.Value)), OK: true}
		}
	case seriesThermal:
		most(&r.ThermalViolation, n)
	case seriesPower:
		most(&r.PowerViolation, n)
	case seriesTemperature:
		most(&r.Temperature, n)
	}
}

// Blank values of DCGM (dcgm_structs.h): the 16 from each of these on stand for
// "blank", "not found", "not supported" and "not permissioned". The exporter
// leaves most of them out itself.
const (
	blank32 = 0x7ffffff0
	blank64 = 0x7ffffffffffffff0
)

// told takes a value that makes no sense, or that DCGM has for none, for missing.
func told(v float64) metrics.Number {
	if math.IsNaN(v) || v < 0 || v >= blank64 || v >= blank32 && v < blank32+16 {
		return metrics.Number{}
	}
	return metrics.Number{Value: v, OK: true}
}

func most(old *metrics.Number, n metrics.Number) {
	if n.OK && (!old.OK || n.Value > old.Value) {
		*old = n
	}
}

func appendXID(codes []int, n metrics.Number) []int {
	if code := int(n.Value); n.OK && code >= 1 && code <= maxXID {
		return append(codes, code)
	}
	return codes
}

func sorted(codes []int) []int {
	slices.Sort(codes)
	return slices.Compact(codes)
}
