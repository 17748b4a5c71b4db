package affinity_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

func TestResponses(t *testing.T) {
	start := time.Now()
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	home := affinity.NewTable[string](affinity.Config{}).NewHome("a")
	r := affinity.NewResponses[string](time.Hour, 3)
	put := func(id, session string, minutes int) {
		r.Put(id, affinity.Origin[string]{Session: session, Home: home, At: at(minutes)})
	}
	session := func(id string, minutes int) string {
		o, ok := r.Get(id, at(minutes))
		assert.Equal(t, ok, o.Home != nil)
		return o.Session
	}

	put("1", "s", 0)
	put("2", "s", 10)
	assert.Equal(t, "s", session("1", 59))
	assert.Empty(t, session("1", 60), "its TTL is over")
	assert.Equal(t, "s", session("2", 60))
	assert.Empty(t, session("3", 0))

	put("1", "t", 20) // anew
	put("3", "t", 30)
	assert.Equal(t, "t", session("1", 79), "the first time it was put is forgotten without it")
	assert.Equal(t, "s", session("2", 30))
	put("4", "t", 40)
	assert.Empty(t, session("2", 40), "the oldest of four")
	assert.Equal(t, 3, r.Len())

	r.Sweep(at(85))
	assert.Equal(t, 2, r.Len())
	r.Sweep(at(1000))
	assert.Zero(t, r.Len())

	put("", "s", 1000)
	put(strings.Repeat("x", affinity.MaxResponseID+1), "s", 1000)
	assert.Zero(t, r.Len())
	put(strings.Repeat("x", affinity.MaxResponseID), "s", 1000)
	assert.Equal(t, 1, r.Len())
}

func TestResponsesDefaults(t *testing.T) {
	now := time.Now()
	r := affinity.NewResponses[int](0, 0)
	r.Put("a", affinity.Origin[int]{Session: "s", At: now})
	r.Put("b", affinity.Origin[int]{Session: "s", At: now})
	assert.Equal(t, 1, r.Len())
	_, ok := r.Get("b", now.Add(affinity.DefaultTTL-1))
	assert.True(t, ok)
	_, ok = r.Get("b", now.Add(affinity.DefaultTTL))
	assert.False(t, ok)
}

// Memory stays bounded and what is found is right, whoever else is at it.
func TestResponsesConcurrently(t *testing.T) {
	const limit = 100
	r := affinity.NewResponses[int](time.Hour, limit)
	now := time.Now()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				id := fmt.Sprint(g, "-", i%150)
				r.Put(id, affinity.Origin[int]{Session: id, At: now})
				if o, ok := r.Get(id, now); ok {
					assert.Equal(t, id, o.Session)
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, r.Len(), limit)
}

func ExampleResponses() {
	now := time.Now()
	responses := affinity.NewResponses[string](time.Hour, 1000)
	responses.Put("resp_1", affinity.Origin[string]{Session: "chat-7", At: now})
	// The next turn names nothing but the response it continues.
	o, ok := responses.Get("resp_1", now.Add(time.Minute))
	fmt.Println(o.Session, ok)
	// Output: chat-7 true
}
