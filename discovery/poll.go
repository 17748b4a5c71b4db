package discovery

import (
	"context"
	"slices"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// maxRetry bounds the pause after a failure, which begins with firstRetry and
// doubles, where the interval is longer.
const (
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)

// poll asks at an interval, and sooner after a failure. The first answer is
// reported, then those that differ, then the first after a failure; each failure
// is. find returns an error for what may be mended by itself.
func poll(ctx context.Context, interval time.Duration, report Report, find func(context.Context) ([]replica.Target, error)) error {
	var last []replica.Target
	known, retry := false, firstRetry
	for {
		found, err := find(ctx)
		if ctx.Err() != nil {
			return nil
		}
		pause := interval
		if err != nil {
			report(nil, err)
			pause, retry = min(interval, retry), min(2*retry, maxRetry)
			known = false
		} else {
			if !known || !slices.Equal(found, last) {
				last, known = found, true
				report(slices.Clone(found), nil)
			}
			retry = firstRetry
		}
		if !sleep(ctx, pause) {
			return nil
		}
	}
}
