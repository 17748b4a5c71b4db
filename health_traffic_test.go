package warmroute_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/internal/fakevllm"
	"github.com/warmroute/warmroute/replica"
)

// The GPU of a replica falls off the bus a while before its engine fails. The
// exporter's page has all conversations gone by then, each between two of its
// turns, so that no request fails; without it those under way do.
func TestAReplicaIsDrainedBeforeItsEngineFails(t *testing.T) {
	const (
		xid  = 60 * time.Second // when the GPU fails
		dead = 90 * time.Second // when its engine does
		end  = 2 * time.Minute
	)
	for _, watched := range []bool{true, false} {
		t.Run(fmt.Sprint("watched ", watched), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engines := map[string]*fakevllm.Server{}
				for i, host := range []string{"a:8000", "b:8000", "c:8000"} {
					engine, err := fakevllm.New(fakevllm.Config{Ranks: 1, Blocks: 4000, Seed: uint64(i)})
					require.NoError(t, err)
					defer func() { require.NoError(t, engine.Close()) }()
					engines[host] = engine
				}
				byHost := roundTripper(func(r *http.Request) (*http.Response, error) { return engines[r.URL.Host].RoundTrip(r) })
				pages := newPages(map[string]string{"a:9400/metrics": `DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-d4"} 0`})
				opts := []warmroute.Option{warmroute.WithScrapeClient(&http.Client{Transport: byHost})}
				if watched {
					opts = append(opts, warmroute.WithHealth(health.Config{DCGM: &health.DCGM{
						GPUs: []health.GPUs{{Exporter: "http://a:9400", Replica: "http://a:8000", GPU: []string{"3"}}}, Client: machines(pages),
					}}))
				}
				router := newRouter(t, at("http://a:8000", "http://b:8000", "http://c:8000"), opts...)
				var running sync.WaitGroup
				defer running.Wait()
				running.Go(func() { assert.NoError(t, router.Run(t.Context())) })
				defer func() { assert.NoError(t, router.Close()) }()
				require.NoError(t, router.Scrape(t.Context()))

				client := &http.Client{Transport: router.Transport(byHost)}
				begun := time.Now()
				var turns, failed atomic.Int32
				var traffic sync.WaitGroup
				for c := range 12 {
					traffic.Go(func() {
						prompt := fmt.Sprintf("conversation %d ", c)
						for n := 0; time.Since(begun) < end; n++ {
							prompt += strings.Repeat("more words ", 20)
							if err := askStreamed(client, fmt.Sprint("s", c), prompt); err != nil {
								failed.Add(1)
							}
							turns.Add(1)
							time.Sleep(time.Duration(200+50*c) * time.Millisecond)
						}
					})
				}
				time.Sleep(xid - time.Since(begun))
				before := replicaStats(t, router, "a:8000")
				require.Positive(t, before.Sessions)
				assert.Equal(t, replica.Up, before.State)
				pages.set("a:9400/metrics", `DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-d4"} 79`)

				time.Sleep(dead - time.Since(begun))
				atDeath := replicaStats(t, router, "a:8000")
				engines["a:8000"].Stop()
				traffic.Wait()

				t.Logf("%d turns, %d failed; on a when its engine failed: %d in flight, %d conversations",
					turns.Load(), failed.Load(), atDeath.InFlight, atDeath.Sessions)
				after := replicaStats(t, router, "a:8000")
				if !watched {
					assert.Positive(t, failed.Load(), "or the engine was idle, and this shows nothing")
					assert.Positive(t, atDeath.InFlight)
					return
				}
				assert.Zero(t, failed.Load())
				assert.Zero(t, atDeath.InFlight, "all had left")
				assert.Zero(t, atDeath.Sessions)
				assert.Equal(t, replica.Draining, atDeath.State)
				assert.Equal(t, "dcgm: XID 79 on GPU 3", atDeath.Finding.Reason)
				assert.Equal(t, atDeath.Placed+atDeath.Sticky, after.Placed+after.Sticky, "nothing was sent there since")
				assert.Zero(t, inFlight(t, router))
				assert.Equal(t, replica.Up, replicaStats(t, router, "b:8000").State)
			})
		})
	}
}

// askStreamed sends a turn and reads its answer.
func askStreamed(client *http.Client, session, prompt string) error {
	body := fmt.Sprintf(`{"model":"sim","max_tokens":40,"stream":true,"messages":[{"role":"user","content":%q}]}`, prompt)
	req, err := http.NewRequest(http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Id", session)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %.200s", resp.StatusCode, answer)
	case !strings.Contains(string(answer), "data: [DONE]"):
		return fmt.Errorf("the stream has no end")
	}
	return nil
}
