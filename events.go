package warmroute

import (
	"encoding/json"
	"time"

	"github.com/warmroute/warmroute/internal/feed"
)

// What the live page's events cost is bounded by these.
const (
	eventInterval     = time.Second
	maxViewers        = 64
	eventWriteTimeout = 10 * time.Second
	// eventSteps is how many of the latest history steps are in each event, so that
	// a viewer may miss some events and no step.
	eventSteps = 3
)

// Event is the data of each event that [Router.Handler] serves at events.
type Event struct {
	// Seq rises by one with each event; all viewers get the same events.
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Stats Stats     `json:"stats"`
	// History has the last three steps.
	History History `json:"history"`
}

func (r *Router) newFeed() (*feed.Feed, error) {
	return feed.New(feed.Config{
		Snapshot: func(seq uint64) ([]byte, error) {
			return json.Marshal(Event{Seq: seq, Time: time.Now().UTC(), Stats: r.Stats(), History: r.history(eventSteps)})
		},
		Interval: eventInterval, MaxViewers: maxViewers, WriteTimeout: eventWriteTimeout,
	})
}
