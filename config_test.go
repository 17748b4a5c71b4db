package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

func TestConfigurationIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		endpoints    []warmroute.Endpoint
		opts         []warmroute.Option
		field, value string
	}{
		"no endpoint":             {field: "endpoints", value: "none"},
		"no URL":                  {endpoints: at(""), field: "URL"},
		"bad URL":                 {endpoints: at("http://a", "a:8000"), field: "URL", value: "a:8000"},
		"negative ranks":          {endpoints: []warmroute.Endpoint{{URL: "http://a", Ranks: -2}}, field: "ranks", value: "-2"},
		"unknown engine":          {endpoints: []warmroute.Endpoint{{URL: "http://a", Engine: "x"}}, field: "engine", value: "x"},
		"spill 0":                 {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithSpill(0)}, field: "spill", value: "0"},
		"negative spill":          {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithSpill(-3)}, field: "spill", value: "-3"},
		"spill of one pool":       {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithPool("m", warmroute.WithSpill(-1))}, field: "spill", value: "-1"},
		"max-num-seqs":            {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithMaxNumSeqs(0)}, field: "max-num-seqs", value: "0"},
		"TTL":                     {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithSessionTTL(0)}, field: "session-ttl", value: "0s"},
		"max sessions":            {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithMaxSessions(-1)}, field: "max-sessions", value: "-1"},
		"peek limit":              {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithPeekLimit(0)}, field: "peek-limit", value: "0"},
		"scrape interval":         {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithScrapeInterval(-1)}, field: "scrape-interval", value: "-1ns"},
		"scrape client":           {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithScrapeClient(nil)}, field: "scrape-client", value: "nil"},
		"empty header":            {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithSessionHeader("")}, field: "session-header"},
		"header with a space":     {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithSessionHeader("a b")}, field: "session-header", value: "a b"},
		"header with a colon":     {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithSessionHeader("a:")}, field: "session-header", value: "a:"},
		"no key":                  {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithKey(nil)}, field: "key", value: "nil"},
		"no picker":               {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithPicker(nil)}, field: "picker", value: "nil"},
		"no scorers":              {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithScorers()}, field: "scorers", value: "none"},
		"client rank policy":      {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithClientRank(7)}, field: "client-rank", value: "7"},
		"the first of several":    {endpoints: at("http://a"), opts: []warmroute.Option{warmroute.WithPeekLimit(-1), warmroute.WithMaxSessions(-1)}, field: "peek-limit", value: "-1"},
		"options before replicas": {opts: []warmroute.Option{warmroute.WithPeekLimit(-1)}, field: "peek-limit", value: "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			router, err := warmroute.New(tc.endpoints, tc.opts...)
			assert.Nil(t, router)
			var refused *warmroute.ConfigError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, tc.field, refused.Field)
			assert.Equal(t, tc.value, refused.Value)
			assert.NotEmpty(t, refused.Allowed)
			assert.Contains(t, err.Error(), tc.field)
		})
	}
	_, err := warmroute.New(at("http://a", "http://A:80/"))
	require.ErrorIs(t, err, warmroute.ErrDuplicate)
	assert.ErrorContains(t, err, "http://a")
	_, err = warmroute.New(at("http://a"), warmroute.WithScorers(balance.Weight(balance.ScorerFunc(nil), -1)))
	require.Error(t, err)
	_, err = warmroute.New(at("http://a"), nil, warmroute.WithLogger(nil), warmroute.WithPool("m", nil))
	require.NoError(t, err, "nil options are none")
}

func TestSpillThreshold(t *testing.T) {
	for _, tc := range []struct {
		opts []warmroute.Option
		want warmroute.Threshold
	}{
		{nil, warmroute.Threshold{Value: 64, Source: "default"}},
		{[]warmroute.Option{warmroute.WithSpill(warmroute.Auto)}, warmroute.Threshold{Value: 64, Source: "default"}},
		{[]warmroute.Option{warmroute.WithSpill(8)}, warmroute.Threshold{Value: 8, Source: "fixed"}},
		{[]warmroute.Option{warmroute.WithMaxNumSeqs(32)}, warmroute.Threshold{Value: 8, Source: "max_num_seqs"}},
		{[]warmroute.Option{warmroute.WithMaxNumSeqs(2)}, warmroute.Threshold{Value: 1, Source: "max_num_seqs"}},
		{[]warmroute.Option{warmroute.WithMaxNumSeqs(32), warmroute.WithSpill(5)}, warmroute.Threshold{Value: 5, Source: "fixed"}},
	} {
		router := newRouter(t, at("http://a"), tc.opts...)
		assert.Equal(t, tc.want, router.Stats().Pools[0].Spill)
		require.NoError(t, router.SetSpill("", 7))
		assert.Equal(t, warmroute.Threshold{Value: 7, Source: "fixed"}, router.Stats().Pools[0].Spill)
	}
}

func TestSpillText(t *testing.T) {
	for _, text := range []string{"auto", "1", "64"} {
		var s warmroute.Spill
		require.NoError(t, s.UnmarshalText([]byte(text)))
		back, err := s.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, text, string(back))
	}
	for _, text := range []string{"", "0", "-1", "Auto", "1.5", "x"} {
		var refused *warmroute.ConfigError
		require.ErrorAs(t, new(warmroute.Spill).UnmarshalText([]byte(text)), &refused)
		assert.Equal(t, text, refused.Value)
	}
}

func TestRunAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router, err := warmroute.New(at("http://a", "http://b"), warmroute.WithScrapeClient(metricsClient(func(string) string { return "" })))
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- router.Run(t.Context()) }()
		synctest.Wait()
		require.ErrorIs(t, router.Run(t.Context()), warmroute.ErrRunning)
		require.NoError(t, router.Close())
		require.NoError(t, <-ended)
		require.NoError(t, router.Close(), "again")
		require.ErrorIs(t, router.Run(t.Context()), warmroute.ErrClosed)
		_, err = router.Route(t.Context(), warmroute.Request{})
		require.ErrorIs(t, err, warmroute.ErrClosed)
	})
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), warmroute.WithScrapeClient(metricsClient(func(string) string { return "" })))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		for range 2 { // it can be run again after its context ended
			go func() { ended <- router.Run(ctx) }()
			cancel()
			require.NoError(t, <-ended)
			ctx, cancel = context.WithCancel(t.Context())
		}
		cancel()
	})
}

func ExampleNew() {
	_, err := warmroute.New([]warmroute.Endpoint{{URL: "10.0.0.1:8000"}})
	var refused *warmroute.ConfigError
	fmt.Println(errors.As(err, &refused), refused.Field)
	fmt.Println(err)
	// Output:
	// true URL
	// warmroute: URL: "10.0.0.1:8000" refused; allowed: http(s)://host[:port][/prefix] without user info, query or fragment
}
