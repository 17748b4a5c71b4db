package warmroute

import (
	"testing"
	"time"
)

// FuzzRetryAfter checks that no header makes a time that is negative.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"5", "", "Sat, 01 Jan 2000 00:00:07 GMT", "-1", "4294967295", "99999999999999999999", "1.5", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(s)
	}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(value, now); d < 0 {
			t.Fatalf("%q: %v", value, d)
		}
	})
}
