package warmroute_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// FuzzRequest sends any headers, keys and ranks, and any body, through the
// transport. What leaves is what came, but for one rank header that is the
// router's; what is refused is refused for its rank; and nothing stays in hand.
func FuzzRequest(f *testing.F) {
	const claude = `{"model":"m","metadata":{"user_id":"user_a_account__session_1"}}`
	f.Add("key", "", "", "1", "0", "application/json", []byte(claude), false)
	f.Add("", "agent", "sub", "7", "", "", []byte(`{"metadata":{"user_id":"{\"session_id\":\"s\"}"}}`), true)
	f.Add("a\x00\r\nX-Evil: 1", "\xff", " ", " +1_0", "x", "text/plain; charset=", []byte("{"), false)
	f.Fuzz(func(t *testing.T, key, session, agent, rank, other, contentType string, body []byte, untrusted bool) {
		router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b", Model: "m", Ranks: 3}},
			warmroute.WithUntrustedClients(untrusted))
		require.NoError(t, err)
		defer router.Close()
		var sent http.Header
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			got, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Equal(body, got) {
				t.Errorf("%q became %q, %v", body, got, err)
			}
			return answer(200, http.NoBody), r.Body.Close()
		})
		req := post(t, bytes.NewReader(body))
		given := http.Header{
			"X-Session-Id": {key}, "X-Claude-Code-Session-Id": {session}, "X-Claude-Code-Agent-Id": {agent},
			"X-Data-Parallel-Rank": {rank}, "x-data-parallel-rank": {other}, "Content-Type": {contentType},
		}
		req.Header = given.Clone()
		resp, err := router.Transport(base).RoundTrip(req)
		require.Equal(t, given, req.Header)
		if err != nil {
			require.True(t, errors.Is(err, warmroute.ErrClientRank) && !untrusted, "%v", err)
			require.Nil(t, sent)
		} else {
			require.NoError(t, resp.Body.Close())
			var ranks []string
			for name, values := range sent {
				if strings.EqualFold(name, "X-Data-Parallel-Rank") {
					ranks = append(ranks, values...)
					continue
				}
				require.Equal(t, given[name], values, name)
			}
			require.Len(t, sent, 5, "%v", sent)
			require.Len(t, ranks, 1)
			require.Contains(t, []string{"0", "1", "2"}, ranks[0])
		}
		for _, p := range router.Stats().Pools {
			require.Zero(t, p.InFlight)
			require.LessOrEqual(t, p.Sessions, 1)
		}
	})
}

// FuzzRestore restores anything: it is what Save wrote, and can be saved again, or
// is refused and changes nothing.
func FuzzRestore(f *testing.F) {
	endpoints := []warmroute.Endpoint{{URL: "http://a", Ranks: 2}}
	router, err := warmroute.New(endpoints)
	if err != nil {
		f.Fatal(err)
	}
	defer router.Close()
	for _, key := range []string{"one", "two", "a\x00b"} {
		lease, err := router.Route(f.Context(), warmroute.Request{Session: key})
		if err != nil {
			f.Fatal(err)
		}
		lease.Answered()
		lease.Done(warmroute.Result{})
	}
	var saved bytes.Buffer
	if err := router.Save(&saved); err != nil {
		f.Fatal(err)
	}
	f.Add(saved.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		router, err := warmroute.New(endpoints, warmroute.WithMaxSessions(100))
		require.NoError(t, err)
		defer router.Close()
		n, err := router.Restore(bytes.NewReader(in))
		sessions := router.Stats().Pools[0].Sessions
		if err != nil {
			require.ErrorIs(t, err, affinity.ErrSnapshot)
			require.Zero(t, n+sessions)
			return
		}
		require.LessOrEqual(t, sessions, min(n, 100))
		var again bytes.Buffer
		require.NoError(t, router.Save(&again))
		other, err := warmroute.New(endpoints, warmroute.WithMaxSessions(100))
		require.NoError(t, err)
		defer other.Close()
		n, err = other.Restore(&again)
		require.NoError(t, err)
		require.Equal(t, sessions, n)
		lease, err := other.Route(t.Context(), warmroute.Request{Session: "one"})
		require.NoError(t, err)
		lease.Done(warmroute.Result{})
	})
}
