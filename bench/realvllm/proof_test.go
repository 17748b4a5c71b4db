package realvllm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func judged(v warmroute.VerdictStats) uint64 {
	return v.Verified + v.Lost + v.Ignored + v.Rewritten + v.Unmeasured
}

// TestCacheTooSmall has more conversations take turns than the caches hold: the
// gateway must see that prefixes are lost, and not take it for anything else.
func TestCacheTooSmall(t *testing.T) {
	e, g := setUp(t, "-residency", "off") // which would see to it that little is lost
	if !*small {
		t.Skip("needs -small and an engine with small caches (see README.md)")
	}
	const many = 16
	var all sync.WaitGroup
	for k := range many {
		all.Go(func() {
			c := newConversation(e.model, apis[0], 500+2*k, *words, *answer)
			for n := range 3 {
				c.turn(t, g, n%2 == 0)
			}
		})
	}
	all.Wait()
	g.eventually(t, "every turn at home is judged", func() bool {
		s := g.stats(t) // what spilled ran elsewhere
		return judged(s.Turns)+s.Requests.Spilled >= 2*many
	})
	turns := g.stats(t).Turns
	fmt.Printf("cache too small for %d conversations: %+v\n", many, turns)
	assert.Positive(t, turns.Lost)
	assert.Zero(t, turns.Ignored)
	assert.Zero(t, turns.Unmeasured)
	assert.Less(t, turns.Rewritten, turns.Lost)
	assert.Len(t, g.stats(t).Replicas, len(e.counts()), "the ranks are honoured")
}

// TestRestart restarts the engine between two turns.
func TestRestart(t *testing.T) {
	e, g := setUp(t)
	if *restart == "" {
		t.Skip("needs -restart COMMAND (see README.md)")
	}
	c := newConversation(e.model, apis[0], 900, *words, *answer)
	c.turn(t, g, false)
	c.turn(t, g, false)
	before := g.stats(t).Turns
	out, err := exec.Command("bash", "-c", *restart).CombinedOutput()
	require.NoError(t, err, "%s", out)
	g.eventually(t, "the gateway reads the new engine's metrics", func() bool {
		for _, m := range g.stats(t).Replicas {
			if m.Stale || m.PrefixHitRate != nil {
				return false
			}
		}
		return true
	})
	c.turn(t, g, false)
	got := c.turn(t, g, false)
	assert.Equal(t, "sticky", got.outcome)
	g.eventually(t, "the loss is counted", func() bool { return g.stats(t).Turns.Lost == before.Lost+1 })
	fmt.Printf("after a restart: %+v\n", g.stats(t).Turns)
	assert.Zero(t, g.stats(t).Turns.Ignored)
}

// TestIgnoredRank talks over an API on which this vLLM ignores the rank header.
// The gateway must find out by the engine's counters alone.
func TestIgnoredRank(t *testing.T) {
	e, g := setUp(t)
	var version struct{ Version string }
	require.NoError(t, json.Unmarshal(e.get("/version"), &version))
	var major, minor int
	_, err := fmt.Sscanf(version.Version, "%d.%d", &major, &minor)
	require.NoError(t, err, version.Version)
	honoured := major > 0 || minor >= 33
	input := []message{{"user", text(newConversation(e.model, apis[0], 7, 1, 1).rnd, *words)}}
	ranks := len(e.counts())
	problems := func() string { return strings.Join(g.stats(t).Problems, "; ") }
	n := 0
	for ; n < 40 && problems() == ""; n++ {
		body, err := json.Marshal(map[string]any{"model": e.model, "input": input, "max_output_tokens": 8, "temperature": 0})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/responses", bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Session-Id", "responses")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		whole, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", whole)
		input = append(input, message{"assistant", "And then?"}, message{"user", fmt.Sprint("Turn ", n)})
		time.Sleep(time.Second) // a page in between
	}
	turns := g.stats(t).Turns
	fmt.Printf("/v1/responses on vLLM %s, %d turns: %+v; %s\n", version.Version, n, turns, problems())
	if honoured {
		assert.Empty(t, problems())
		assert.Zero(t, turns.Ignored)
		return
	}
	assert.Contains(t, problems(), "ignores the rank header on /v1/responses")
	assert.Len(t, g.stats(t).Replicas, 1, "routed as one replica; it had %d", ranks)
}
