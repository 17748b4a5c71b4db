package report

import (
	"encoding/json"
	"math"
)

// Value is a figure that may be missing. A missing one is NaN in Go, null in
// JSON, "-" in the tables and empty in CSV. An infinite one, as of a ratio
// over nothing, counts as missing.
type Value float64

// Missing returns the Value that is not there.
func Missing() Value { return Value(math.NaN()) }

// Known says whether the value is there.
func (v Value) Known() bool {
	return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
}

// MarshalJSON writes a missing value as null.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// UnmarshalJSON reads null as a missing value.
func (v *Value) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*v = Missing()
		return nil
	}
	return json.Unmarshal(b, (*float64)(v))
}
