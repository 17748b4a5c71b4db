package warmroute_test

import (
	"encoding/json"
	"flag"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

func TestResidencyText(t *testing.T) {
	for text, want := range map[string]warmroute.Residency{
		"auto": warmroute.ResidencyAuto, "off": warmroute.ResidencyOff, "1": 1, "262144": 262144,
	} {
		var r warmroute.Residency
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.TextVar(&r, "residency", warmroute.ResidencyAuto, "")
		require.NoError(t, flags.Parse([]string{"-residency", text}))
		assert.Equal(t, want, r)
		assert.Equal(t, text, r.String())
		encoded, err := json.Marshal(r)
		require.NoError(t, err)
		assert.Equal(t, `"`+text+`"`, string(encoded))
	}
	for _, text := range []string{"", "0", "-1", "on", "Auto", "1.5", "12k", " off", "99999999999999999999"} {
		r := warmroute.Residency(7)
		err := r.UnmarshalText([]byte(text))
		var refused *warmroute.ConfigError
		require.ErrorAs(t, err, &refused, text)
		assert.Equal(t, "residency", refused.Field)
		assert.Equal(t, text, refused.Value)
		assert.Contains(t, refused.Allowed, "auto, off")
		assert.Equal(t, warmroute.Residency(7), r, "unchanged")
	}
}

func FuzzResidency(f *testing.F) {
	for _, text := range []string{"auto", "off", "1", "0", "-5", "262144", "9223372036854775807", "007"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r warmroute.Residency
		if r.UnmarshalText([]byte(text)) != nil {
			return
		}
		assert.True(t, r == warmroute.ResidencyAuto || r == warmroute.ResidencyOff || r > 0)
		var again warmroute.Residency
		require.NoError(t, again.UnmarshalText([]byte(r.String())))
		assert.Equal(t, r, again)
		router, err := warmroute.New(at("http://a"), warmroute.WithResidency(r))
		require.NoError(t, err)
		require.NoError(t, router.Close())
	})
}

func TestRefusedOptionsOfWaiting(t *testing.T) {
	for name, test := range map[string]struct {
		option                warmroute.Option
		field, value, allowed string
	}{
		"residency":          {warmroute.WithResidency(-3), "residency", "-3", "auto, off"},
		"turnover below":     {warmroute.WithTurnover(-0.1), "turnover", "-0.1", "0 to 1"},
		"turnover above":     {warmroute.WithTurnover(1.5), "turnover", "1.5", "0 to 1"},
		"turnover no number": {warmroute.WithTurnover(math.NaN()), "turnover", "NaN", "0 to 1"},
		"max wait":           {warmroute.WithMaxWait(0), "max wait", "0s", "more than 0"},
		"max wait negative":  {warmroute.WithMaxWait(-time.Second), "max wait", "-1s", "more than 0"},
		"max queue":          {warmroute.WithMaxQueue(0), "max queue", "0", "more than 0"},
		"tenant":             {warmroute.WithTenant(nil), "tenant", "nil", "KeyFunc"},
		"of one pool":        {warmroute.WithPool("m", warmroute.WithMaxQueue(-1)), "max queue", "-1", "more than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := warmroute.New(at("http://a"), test.option)
			var refused *warmroute.ConfigError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, test.field, refused.Field)
			assert.Equal(t, test.value, refused.Value)
			assert.Contains(t, refused.Allowed, test.allowed)
			for _, part := range []string{test.field, test.value, test.allowed} {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}

func TestQueueStatsShowTheSettings(t *testing.T) {
	r := newRouter(t, at("http://a"), warmroute.WithResidency(5000), warmroute.WithMaxWait(90*time.Second), warmroute.WithMaxQueue(7),
		warmroute.WithPool("other", warmroute.WithResidency(warmroute.ResidencyOff), warmroute.WithMaxQueue(8)))
	require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b", Model: "other"}))
	q := queue(r)
	assert.Equal(t, warmroute.Residency(5000), q.Residency)
	assert.True(t, q.Active)
	assert.Equal(t, 7, q.MaxWaiting)
	assert.InDelta(t, 90, q.MaxWait, 0)
	other := r.Stats().Pools[1]
	assert.Equal(t, warmroute.ResidencyOff, other.Queue.Residency)
	assert.False(t, other.Queue.Active)
	assert.Nil(t, other.Replicas[0].Residents)
	assert.Equal(t, 8, other.Queue.MaxWaiting)
	q = queue(newRouter(t, at("http://a")))
	assert.Equal(t, warmroute.ResidencyAuto, q.Residency)
	assert.False(t, q.Active, "no capacity is known")
	assert.Equal(t, balance.DefaultMaxQueue, q.MaxWaiting)
	assert.InDelta(t, balance.DefaultMaxWait.Seconds(), q.MaxWait, 0)
}
