package warmroute_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// find marks the replica of a name.
func find(t *testing.T, r *warmroute.Router, name string, state replica.State) {
	t.Helper()
	for _, m := range r.Replicas() {
		if m.Name() == name {
			m.Find(replica.Finding{State: state, Source: "test", Reason: "test: " + string(state), Since: time.Now()})
			return
		}
	}
	require.Fail(t, "no such replica", name)
}

// settled binds ten conversations and returns their homes.
func settled(t *testing.T, r *warmroute.Router) map[string]string {
	t.Helper()
	homes := map[string]string{}
	for i := range 10 {
		session := fmt.Sprint("s", i)
		homes[session], _ = turn(t, r, session)
	}
	return homes
}

const (
	replicaA = "a:80"
	replicaB = "b:80"
)

// A suspect replica keeps its conversations and gets no new ones, unless nobody
// else can take them.
func TestSuspectReplica(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	homes := settled(t, router)
	find(t, router, replicaA, replica.Suspect)
	assert.Equal(t, replica.Suspect, replicaStats(t, router, replicaA).State)
	residents := 0
	for session, home := range homes {
		name, outcome := turn(t, router, session)
		assert.Equal(t, home, name)
		assert.Equal(t, warmroute.Sticky, outcome)
		if home == replicaA {
			residents++
		}
	}
	require.Positive(t, residents)
	for i := range 10 {
		name, _ := turn(t, router, fmt.Sprint("new", i))
		assert.Equal(t, replicaB, name)
		name, _ = turn(t, router, "") // without a key
		assert.Equal(t, replicaB, name)
	}

	for name, out := range map[string]func(){
		"draining": func() { require.NoError(t, router.Drain(replicaB)) },
		"found draining": func() {
			require.NoError(t, router.Resume(replicaB))
			find(t, router, replicaB, replica.Draining)
		},
		"found down": func() { find(t, router, replicaB, replica.Down) },
	} {
		out()
		got, outcome := turn(t, router, "placed when b is "+name)
		assert.Equal(t, replicaA, got, name)
		assert.Equal(t, warmroute.Placed, outcome)
	}
}

// The conversations of a replica that was found to be draining move with their next
// turn, and stay where they went.
func TestReplicaFoundDraining(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b", "http://c"))
	homes := settled(t, router)
	find(t, router, replicaA, replica.Draining)
	assert.Equal(t, replica.Draining, replicaStats(t, router, replicaA).State)
	moved := map[string]string{}
	for session, home := range homes {
		name, outcome := turn(t, router, session)
		assert.NotEqual(t, replicaA, name)
		if home != replicaA {
			assert.Equal(t, home, name)
			continue
		}
		moved[session] = name
		assert.Equal(t, warmroute.Placed, outcome)
	}
	require.NotEmpty(t, moved)
	assert.Zero(t, replicaStats(t, router, replicaA).Sessions)
	find(t, router, replicaA, replica.Up)
	for session, home := range moved {
		name, outcome := turn(t, router, session)
		assert.Equal(t, home, name, "it has nothing on the replica that is back")
		assert.Equal(t, warmroute.Sticky, outcome)
	}
}

// A conversation leaves when another replica has answered it, and not before.
func TestAConversationMovesWhenItWasAnswered(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	homes := settled(t, router)
	find(t, router, replicaA, replica.Draining)
	for session, home := range homes {
		if home != replicaA {
			continue
		}
		lease := route(t, router, warmroute.Request{Session: session})
		assert.Equal(t, replicaB, lease.Replica().Name())
		lease.Done(warmroute.Result{Err: errors.New("no answer")})
		break // more failures would speak against b
	}
	find(t, router, replicaA, replica.Up)
	for session, home := range homes {
		name, _ := turn(t, router, session)
		assert.Equal(t, home, name)
	}
}

// Where no other replica can take them, conversations go on where they are.
func TestNobodyElseCanTakeThem(t *testing.T) {
	for name, prepare := range map[string]func(*warmroute.Router){
		"all found draining":    func(r *warmroute.Router) { find(t, r, replicaB, replica.Draining) },
		"the other one drained": func(r *warmroute.Router) { require.NoError(t, r.Drain(replicaB)) },
		"the other one down":    func(r *warmroute.Router) { find(t, r, replicaB, replica.Down) },
		"the other one's breaker open": func(r *warmroute.Router) {
			for range 5 {
				lease := route(t, r, warmroute.Request{})
				assert.Equal(t, replicaB, lease.Replica().Name())
				lease.Done(warmroute.Result{Err: errors.New("no answer")})
			}
			assert.Equal(t, replica.Open, replicaStats(t, r, replicaB).State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			router := newRouter(t, at("http://a", "http://b"))
			homes := settled(t, router)
			find(t, router, replicaA, replica.Draining)
			prepare(router)
			for session, home := range homes {
				if home != replicaA {
					continue
				}
				got, outcome := turn(t, router, session)
				assert.Equal(t, replicaA, got)
				assert.Equal(t, warmroute.Sticky, outcome)
			}
			for i := range 4 {
				lease := route(t, router, warmroute.Request{Session: fmt.Sprint("new", i)})
				if name != "all found draining" {
					assert.Equal(t, replicaA, lease.Replica().Name())
				}
				lease.Done(warmroute.Result{})
			}
		})
	}
}

// A replica that was found down is as one that cannot be connected to.
func TestReplicaFoundDown(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	homes := settled(t, router)
	find(t, router, replicaA, replica.Down)
	assert.Equal(t, replica.Down, replicaStats(t, router, replicaA).State)
	for i := range 5 {
		name, _ := turn(t, router, fmt.Sprint("new", i))
		assert.Equal(t, replicaB, name)
	}
	find(t, router, replicaB, replica.Down)
	for session, home := range homes {
		name, outcome := turn(t, router, session)
		assert.Equal(t, home, name, "trying is better than refusing")
		assert.Equal(t, warmroute.Sticky, outcome)
	}
}

// Nobody can be reached, and all are in doubt beside that: trying is better than
// refusing, and those that are least in doubt come first.
func TestUnreachableReplicasInDoubt(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	for _, m := range router.Replicas() {
		m.Unreachable(time.Now())
	}
	find(t, router, replicaA, replica.Draining)
	find(t, router, replicaB, replica.Suspect)
	for range 4 {
		name, _ := turn(t, router, "")
		assert.Equal(t, replicaB, name)
		for _, m := range router.Replicas() {
			m.Unreachable(time.Now()) // again
		}
	}
	find(t, router, replicaB, replica.Draining)
	seen := map[string]bool{}
	for range 4 {
		lease := route(t, router, warmroute.Request{})
		seen[lease.Replica().Name()] = true
	}
	assert.Len(t, seen, 2)
}

// An engine that makes no progress is in more doubt than one whose GPU is.
func TestSuspectBeforeWedged(t *testing.T) {
	stuck := pageOf(map[int]engine{0: {running: "3", waiting: "0", prompt: "1", generated: "1", steps: "1"}})
	pages := newPages(map[string]string{"a": stuck, "b": idle(0)})
	scraped(t, pages, at("http://a", "http://b"), nil, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Minute)
		require.Equal(t, replica.Wedged, replicaStats(t, r, replicaA).State)
		find(t, r, replicaB, replica.Suspect)
		for range 6 {
			lease := route(t, r, warmroute.Request{})
			assert.Equal(t, replicaB, lease.Replica().Name())
		}
		find(t, r, replicaB, replica.Draining)
		assert.Equal(t, replicaA, route(t, r, warmroute.Request{}).Replica().Name(), "and in less than one that is to be left")
	})
}

// A picker that decides at home itself is not asked whether to stay on a replica
// that is to be left.
func TestHomePickersLeaveAReplicaFoundDraining(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"), warmroute.WithPicker(func() balance.Picker {
		picker, err := balance.SoftAffinity(0.1)
		require.NoError(t, err)
		return picker
	}))
	homes := settled(t, router)
	find(t, router, replicaA, replica.Draining)
	for session := range homes {
		name, _ := turn(t, router, session)
		assert.Equal(t, replicaB, name)
	}
}

// An operator's drain is his: it keeps conversations, and no finding ends it.
func TestOperatorsDrainBesideAFinding(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	homes := settled(t, router)
	require.NoError(t, router.Drain(replicaA))
	find(t, router, replicaA, replica.Suspect)
	find(t, router, replicaA, replica.Up)
	assert.Equal(t, replica.Draining, replicaStats(t, router, replicaA).State)
	for session, home := range homes {
		name, _ := turn(t, router, session)
		assert.Equal(t, home, name)
	}
	name, _ := turn(t, router, "new")
	assert.Equal(t, replicaB, name)
}

// What the engine says of itself is shown before what is suspected of its GPU.
func TestAsleepIsGraverThanSuspect(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, s *simulated) {
		find(t, s.router, replicaA, replica.Suspect)
		assert.Equal(t, replica.Suspect, replicaStats(t, s.router, replicaA).State)
		s.asleep = true
		s.publish()
		time.Sleep(1100 * time.Millisecond)
		assert.Equal(t, replica.Asleep, replicaStats(t, s.router, replicaA).State)
		assert.Equal(t, replica.Suspect, replicaStats(t, s.router, replicaA).Finding.State)
	})
}

// A suspect replica gets no new residents while another has room; one that is to be
// left gives them up.
func TestResidentsOfReplicasInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"), warmroute.WithResidency(100_000))
		homes := settled(t, router)
		find(t, router, replicaA, replica.Suspect)
		time.Sleep(time.Second)
		before := *replicaStats(t, router, replicaA).Residents
		for i := range 10 {
			name, _ := turn(t, router, fmt.Sprint("new", i))
			assert.Equal(t, replicaB, name)
		}
		for session, home := range homes {
			name, _ := turn(t, router, session)
			assert.Equal(t, home, name)
		}
		assert.Equal(t, before, *replicaStats(t, router, replicaA).Residents)
		require.Positive(t, before)

		find(t, router, replicaB, replica.Suspect)
		time.Sleep(time.Second)
		residents := func() int {
			return *replicaStats(t, router, replicaA).Residents + *replicaStats(t, router, replicaB).Residents
		}
		all := residents()
		seen := map[string]bool{}
		for i := range 20 {
			name, _ := turn(t, router, fmt.Sprint("newer", i))
			seen[name] = true
		}
		assert.Len(t, seen, 2, "both are suspect")
		assert.Equal(t, all+20, residents(), "and have residents as ever")

		find(t, router, replicaA, replica.Draining)
		time.Sleep(time.Second)
		for session := range homes {
			name, _ := turn(t, router, session)
			assert.Equal(t, replicaB, name)
		}
		assert.Zero(t, *replicaStats(t, router, replicaA).Residents)
		find(t, router, replicaB, replica.Draining)
		time.Sleep(time.Second)
		name, _ := turn(t, router, "s0")
		assert.Equal(t, replicaB, name, "nobody waits for a room that will not open")
	})
}

// A sticky hit allocates nothing, whatever was found.
func TestFindingsDoNotAllocate(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	req := warmroute.Request{Session: "s"}
	home, _ := turn(t, router, "s")
	find(t, router, home, replica.Suspect)
	assertAllocs(t, 0, "a suspect home", func() {
		lease, err := router.Route(context.Background(), req)
		if err != nil {
			panic(err)
		}
		lease.Done(warmroute.Result{})
	})
}

func TestHealthConfigIsChecked(t *testing.T) {
	_, err := warmroute.New(at("http://a"), warmroute.WithHealth(health.Config{Probe: &health.Probe{Fall: -1}}))
	var refused *warmroute.ConfigError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "health.probe.fall", refused.Field)
	assert.Equal(t, health.Status{}, newRouter(t, at("http://a")).Health())
}

// machines answers probes and exporters by URL.
func machines(pages *pageSet) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		text := pages.get(r.URL.Host + r.URL.Path)
		if text == "dead" {
			return answer(http.StatusServiceUnavailable, http.NoBody), nil
		}
		return answer(http.StatusOK, io.NopCloser(strings.NewReader(text))), nil
	})}
}

func watchedBy(client *http.Client) warmroute.Option {
	return warmroute.WithHealth(health.Config{
		Probe: &health.Probe{Client: client},
		DCGM:  &health.DCGM{GPUs: []health.GPUs{{Exporter: "http://a:9400"}}, Client: client},
	})
}

// What is found is told in the stats, the metrics, the problems, the log and to the
// hooks, and taken back when Run ends.
func TestFindingsAreTold(t *testing.T) {
	var log bytes.Buffer
	var told events
	pages := newPages(map[string]string{"a": idle(0), "b": idle(0)})
	watched := newPages(map[string]string{"a:9400/metrics": `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0`})
	opts := []warmroute.Option{watchedBy(machines(watched)), warmroute.WithHooks(&told), warmroute.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}
	var router *warmroute.Router
	scraped(t, pages, at("http://a", "http://b"), opts, func(t *testing.T, r *warmroute.Router) {
		router = r
		time.Sleep(time.Minute)
		assert.Nil(t, replicaStats(t, r, replicaA).Finding)
		assert.Empty(t, r.Stats().Pools[0].Problems)

		watched.set("a:9400/metrics", `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 79`)
		time.Sleep(12 * time.Second)
		s := replicaStats(t, r, replicaA)
		assert.Equal(t, replica.Draining, s.State)
		require.NotNil(t, s.Finding)
		assert.Equal(t, "dcgm: XID 79 on GPU 3", s.Finding.Reason)
		assert.Equal(t, "dcgm", s.Finding.Source)
		assert.WithinDuration(t, time.Now(), s.Finding.Since, 12*time.Second)
		assert.Equal(t, []string{"a:80 is draining: dcgm: XID 79 on GPU 3"}, r.Stats().Pools[0].Problems)
		assert.Equal(t, []int{79}, r.Health().Exporters[0].GPUs[0].XIDs)
		var text bytes.Buffer
		require.NoError(t, r.WriteMetrics(&text))
		for line, want := range map[string]string{
			`warmroute_replica_finding{model="",replica="a:80",state="draining"}`: "1",
			`warmroute_replica_finding{model="",replica="a:80",state="suspect"}`:  "0",
			`warmroute_replica_finding{model="",replica="b:80",state="draining"}`: "0",
			`warmroute_replica_up{model="",replica="a:80"}`:                       "0",
		} {
			assert.True(t, strings.Contains(text.String(), line+" "+want+"\n"), line)
		}

		watched.set("b/health", "dead")
		time.Sleep(20 * time.Second)
		assert.Equal(t, replica.Down, replicaStats(t, r, replicaB).State)
		assert.Equal(t, replica.Suspect, replicaStats(t, r, replicaA).State, "the last that is left")
		watched.set("b/health", "")
		time.Sleep(20 * time.Second)
		assert.Equal(t, replica.Up, replicaStats(t, r, replicaB).State)
		assert.Equal(t, replica.Draining, replicaStats(t, r, replicaA).State)
		require.NoError(t, r.Drain(replicaB))
		time.Sleep(2 * time.Second)
		assert.Equal(t, replica.Suspect, replicaStats(t, r, replicaA).State, "the operator has taken the other")
	})
	assert.Equal(t, replica.Up, router.Replicas()[0].Finding().State)
	const spared = "dcgm: XID 79 on GPU 3; not drained, as no other replica of its pool takes requests"
	assert.Equal(t, []string{
		"dcgm: XID 79 on GPU 3", spared, "probe: /health answers 503 Service Unavailable",
		"dcgm: XID 79 on GPU 3", "probe: no longer found", "drained", spared, "dcgm: no longer found",
	}, told.reasons())
	assert.Contains(t, log.String(), `msg="replica found draining" replica=a:80 reason="dcgm: XID 79 on GPU 3"`)
	assert.Contains(t, log.String(), `msg="replica found up" replica=a:80 reason="dcgm: no longer found"`)
}

// An engine that has requests and does nothing answers probes all the same: that
// says nothing against what its own counters show.
func TestAProbeDoesNotUnwedgeAnEngine(t *testing.T) {
	watched := newPages(map[string]string{"a:9400/metrics": `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0`})
	simulate(t, 1, []warmroute.Option{watchedBy(machines(watched))}, func(t *testing.T, s *simulated) {
		s.running = 3
		s.publish()
		time.Sleep(2 * time.Minute)
		assert.Equal(t, replica.Wedged, replicaStats(t, s.router, replicaA).State)
	})
}
