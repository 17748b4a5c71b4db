package discovery_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/discovery"
	"github.com/warmroute/warmroute/replica"
)

// zone is a Resolver.
type zone struct {
	mu        sync.Mutex
	asked     []string // network and name
	times     []time.Time
	addresses []string
	records   []*net.SRV
	err       error
	hang      bool
}

func (z *zone) set(change func(*zone)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	change(z)
}

func (z *zone) answer(ctx context.Context, question string) error {
	z.mu.Lock()
	hang, err := z.hang, z.err
	z.asked, z.times = append(z.asked, question), append(z.times, time.Now())
	z.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (z *zone) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if err := z.answer(ctx, network+" "+host); err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	var out []netip.Addr
	for _, a := range z.addresses {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (z *zone) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if err := z.answer(ctx, service+proto+name); err != nil {
		return "", nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return name, z.records, nil
}

func TestDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{addresses: []string{"10.0.0.2", "::ffff:10.0.0.1", "2001:db8::1", "10.0.0.2"}}
		d, err := discovery.DNS(discovery.DNSConfig{
			Endpoint: replica.Endpoint{URL: "https://llm.example:8443/v", Model: "m", Ranks: 2}, Interval: 10 * time.Second, Resolver: z})
		require.NoError(t, err)
		l, stop := watch(t, d)
		first := []said{{urls: []string{"https://10.0.0.1:8443/v", "https://10.0.0.2:8443/v", "https://[2001:db8::1]:8443/v"}}}
		assert.Equal(t, first, l.take(), "sorted, without duplicates")
		z.set(func(z *zone) { z.addresses = []string{"2001:db8::1", "10.0.0.1", "10.0.0.2"} })
		time.Sleep(25 * time.Second)
		assert.Empty(t, l.take(), "another order is no change")
		z.set(func(z *zone) { z.addresses = []string{"10.0.0.3"} })
		time.Sleep(10 * time.Second)
		assert.Equal(t, []said{{urls: []string{"https://10.0.0.3:8443/v"}}}, l.take())
		stop()
		assert.Equal(t, []string{"ip llm.example", "ip llm.example", "ip llm.example", "ip llm.example"}, z.asked)
	})
}

func TestDNSFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{addresses: []string{"10.0.0.1"}}
		d, err := discovery.DNS(discovery.DNSConfig{Endpoint: replica.Endpoint{URL: "http://llm.example"}, Interval: time.Minute, Timeout: 3 * time.Second, Resolver: z})
		require.NoError(t, err)
		l, stop := watch(t, d)
		assert.Equal(t, []said{{urls: []string{"http://10.0.0.1"}}}, l.take())

		z.set(func(z *zone) { z.err = &net.DNSError{Err: "no such host", Name: "llm.example", IsNotFound: true} })
		time.Sleep(time.Minute)
		got := l.take()
		require.Len(t, got, 1)
		assert.Nil(t, got[0].urls, "no list: the last one stays")
		assert.Contains(t, got[0].err, "no such host")

		z.set(func(z *zone) { z.err, z.addresses = nil, nil })
		time.Sleep(time.Second)
		got = l.take()
		require.Len(t, got, 1, "asked again sooner")
		assert.Contains(t, got[0].err, "no address")

		z.set(func(z *zone) { z.hang = true })
		time.Sleep(2*time.Second + 3*time.Second)
		got = l.take()
		require.Len(t, got, 1, "the lookup has its timeout")
		assert.Contains(t, got[0].err, "deadline")

		z.set(func(z *zone) { z.hang, z.addresses = false, []string{"10.0.0.1"} })
		time.Sleep(4 * time.Second)
		assert.Equal(t, []said{{urls: []string{"http://10.0.0.1"}}}, l.take(), "that it works again is said even if nothing changed")

		z.set(func(z *zone) { z.err, z.times = net.ErrClosed, nil })
		time.Sleep(10 * time.Minute)
		var pauses []time.Duration
		z.set(func(z *zone) {
			for i := range z.times[1:] {
				pauses = append(pauses, z.times[i+1].Sub(z.times[i]))
			}
		})
		assert.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}, pauses[:7])
		l.take()
		z.set(func(z *zone) { z.hang = true })
		time.Sleep(31 * time.Second)
		l.take()
		stop() // in the middle of a lookup or not
	})
}

func TestDNSKeepsTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ url, host, want string }{
			{"https://llm.example:8443", "", "llm.example:8443"},
			{"http://llm.example", "", "llm.example"},
			{"http://llm.example", "other.example", "other.example"},
		} {
			d, err := discovery.DNS(discovery.DNSConfig{Endpoint: replica.Endpoint{URL: tc.url, Host: tc.host, APIKey: "k"}, Resolver: &zone{addresses: []string{"10.0.0.1", "::1"}}})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			require.NoError(t, d.Watch(ctx, func(targets []replica.Target, err error) {
				require.NoError(t, err)
				for _, target := range targets {
					assert.Equal(t, tc.want, target.Host)
					assert.Equal(t, "k", target.APIKey)
					_, err := target.Name()
					require.NoError(t, err, "a usable endpoint")
				}
				cancel()
			}))
		}
	})
}

func TestSRV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{records: []*net.SRV{
			{Target: "B.example.", Port: 8001, Priority: 1}, {Target: "a.example.", Port: 8000, Priority: 1, Weight: 7},
			{Target: "spare.example.", Port: 8000, Priority: 2}, {Target: "a.example.", Port: 8000, Priority: 1},
		}}
		d, err := discovery.SRV(discovery.SRVConfig{Name: "_http._tcp.llm.example", Endpoint: replica.Endpoint{URL: "http://srv/v", Model: "m"}, Resolver: z})
		require.NoError(t, err)
		l, stop := watch(t, d)
		assert.Equal(t, []said{{urls: []string{"http://a.example:8000/v", "http://b.example:8001/v"}}}, l.take())
		assert.Equal(t, []string{"_http._tcp.llm.example"}, z.asked)
		z.set(func(z *zone) { z.records = z.records[2:3] })
		time.Sleep(discovery.DefaultDNSInterval)
		assert.Equal(t, []said{{urls: []string{"http://spare.example:8000/v"}}}, l.take())
		z.set(func(z *zone) { z.records = []*net.SRV{{Target: ".", Port: 0}} })
		time.Sleep(discovery.DefaultDNSInterval)
		got := l.take()
		require.Len(t, got, 1)
		assert.Contains(t, got[0].err, "no SRV record")
		stop()
	})
}

func TestDNSConfigIsRefused(t *testing.T) {
	good := replica.Endpoint{URL: "http://llm.example"}
	for field, make := range map[string]func() (discovery.Discoverer, error){
		"URL": func() (discovery.Discoverer, error) {
			return discovery.DNS(discovery.DNSConfig{Endpoint: replica.Endpoint{URL: "http://10.0.0.1"}})
		},
		"network": func() (discovery.Discoverer, error) {
			return discovery.DNS(discovery.DNSConfig{Endpoint: good, Network: "tcp"})
		},
		"interval": func() (discovery.Discoverer, error) {
			return discovery.DNS(discovery.DNSConfig{Endpoint: good, Interval: time.Millisecond})
		},
		"timeout": func() (discovery.Discoverer, error) {
			return discovery.SRV(discovery.SRVConfig{Name: "a", Endpoint: good, Timeout: -1})
		},
		"name": func() (discovery.Discoverer, error) { return discovery.SRV(discovery.SRVConfig{Endpoint: good}) },
		"ranks": func() (discovery.Discoverer, error) {
			return discovery.SRV(discovery.SRVConfig{Name: "a", Endpoint: replica.Endpoint{URL: "http://a", Ranks: -1}})
		},
		"path": func() (discovery.Discoverer, error) { return discovery.File(discovery.FileConfig{}) },
	} {
		_, err := make()
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused, field)
		assert.Equal(t, field, refused.Field)
	}
}
