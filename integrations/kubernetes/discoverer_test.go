package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/kubernetes"
	"github.com/warmroute/warmroute/replica"
)

type condition string

const (
	ready       condition = "ready"
	unready     condition = "unready"
	leaving     condition = "terminating, serving"
	gone        condition = "terminating, not serving"
	unspecified condition = "no conditions"
)

func endpoint(pod, address string, c condition) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}}
	if pod != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "ai", Name: pod, UID: types.UID("uid of " + pod)}
	}
	if c != unspecified {
		e.Conditions = discoveryv1.EndpointConditions{
			Ready: new(c == ready), Serving: new(c == ready || c == leaving), Terminating: new(c == leaving || c == gone)}
	}
	return e
}

func slice(name string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ai", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "vllm"}},
		AddressType: family,
		Ports: []discoveryv1.EndpointPort{{Name: new("metrics"), Port: new(int32(9090))}, {Name: new("http"), Port: new(int32(8000))},
			{Name: new("any")}},
		Endpoints: endpoints,
	}
}

const four, six = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6

// reports is what a Discoverer says, one a line: its targets and its problem.
type reports struct {
	mu   sync.Mutex
	last string
	n    int
}

func (r *reports) take(targets []replica.Target, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if targets != nil {
		r.last = ""
		for _, t := range targets {
			r.last += t.String()
			if t.Draining {
				r.last += " draining"
			}
			r.last += "\n"
		}
	}
	if err != nil {
		r.last += "problem: " + err.Error()
	}
}

func (r *reports) get() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *reports) await(t *testing.T, want string) {
	t.Helper()
	if !assert.Eventually(t, func() bool { return r.get() == want }, 10*time.Second, time.Millisecond) {
		t.Fatalf("want %q, have %q", want, r.get())
	}
}

func watch(t *testing.T, cfg kubernetes.Config) *reports {
	t.Helper()
	d, err := kubernetes.New(cfg)
	require.NoError(t, err)
	r := new(reports)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Watch(ctx, r.take) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Error("does not end")
		}
	})
	return r
}

func TestSlices(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg    kubernetes.Config
		slices []*discoveryv1.EndpointSlice
		want   string
	}{
		"conditions": {
			slices: []*discoveryv1.EndpointSlice{slice("a", four, endpoint("a", "10.0.0.1", ready), endpoint("b", "10.0.0.2", unready),
				endpoint("c", "10.0.0.3", leaving), endpoint("d", "10.0.0.4", gone), endpoint("e", "10.0.0.5", unspecified))},
			want: "http://10.0.0.1:8000\nhttp://10.0.0.2:8000 draining\nhttp://10.0.0.3:8000 draining\nhttp://10.0.0.5:8000\n",
		},
		"several slices": {
			slices: []*discoveryv1.EndpointSlice{slice("b", four, endpoint("b", "10.0.0.2", ready)), slice("a", four, endpoint("a", "10.0.0.1", ready)), slice("c", four)},
			want:   "http://10.0.0.1:8000\nhttp://10.0.0.2:8000\n",
		},
		"moved between slices": {
			slices: []*discoveryv1.EndpointSlice{slice("a", four, endpoint("a", "10.0.0.1", unready), endpoint("", "10.0.0.2", ready)),
				slice("b", four, endpoint("a", "10.0.0.1", ready), endpoint("", "10.0.0.2", ready))},
			want: "http://10.0.0.1:8000\nhttp://10.0.0.2:8000\n",
		},
		"both families": {
			slices: []*discoveryv1.EndpointSlice{slice("six", six, endpoint("a", "2001:db8::1", ready), endpoint("b", "2001:db8::2", ready)),
				slice("four", four, endpoint("a", "10.0.0.1", ready))},
			want: "http://10.0.0.1:8000\nhttp://[2001:db8::2]:8000\n",
		},
		"IPv6 preferred": {
			cfg: kubernetes.Config{PreferIPv6: true},
			slices: []*discoveryv1.EndpointSlice{slice("six", six, endpoint("a", "2001:db8::1", ready)),
				slice("four", four, endpoint("a", "10.0.0.1", ready), endpoint("b", "10.0.0.2", ready))},
			want: "http://10.0.0.2:8000\nhttp://[2001:db8::1]:8000\n",
		},
		"template": {
			cfg:    kubernetes.Config{Port: "metrics", Endpoint: replica.Endpoint{URL: "https://llm.example/v", Model: "qwen", Ranks: 2}},
			slices: []*discoveryv1.EndpointSlice{slice("a", four, endpoint("a", "10.0.0.1", ready))},
			want:   "https://10.0.0.1:9090/v,ranks=2,model=qwen,host=llm.example\n",
		},
		"no such port": {
			cfg:    kubernetes.Config{Port: "grpc"},
			slices: []*discoveryv1.EndpointSlice{slice("a", four, endpoint("a", "10.0.0.1", ready))},
			want:   `problem: kubernetes: EndpointSlice ai/a has no port "grpc" (but "metrics", "http")`,
		},
		"no endpoints": {slices: []*discoveryv1.EndpointSlice{slice("a", four)}, want: ""},
		"no service":   {want: "problem: kubernetes: service ai/vllm has no EndpointSlice"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			for _, s := range tc.slices {
				_, err := client.DiscoveryV1().EndpointSlices("ai").Create(t.Context(), s, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			other := slice("other", four, endpoint("z", "10.9.9.9", ready))
			other.Labels[discoveryv1.LabelServiceName] = "other"
			_, err := client.DiscoveryV1().EndpointSlices("ai").Create(t.Context(), other, metav1.CreateOptions{})
			require.NoError(t, err)
			tc.cfg.Client, tc.cfg.Namespace, tc.cfg.Service = client, "ai", "vllm"
			if tc.cfg.Port == "" {
				tc.cfg.Port = "http"
			}
			r := watch(t, tc.cfg)
			require.Eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.n > 0 }, 10*time.Second, time.Millisecond)
			r.await(t, tc.want)
		})
	}
}

func TestTheOnlyPortNeedsNoName(t *testing.T) {
	one := slice("a", four, endpoint("a", "10.0.0.1", ready))
	one.Ports = one.Ports[1:2]
	two := slice("b", four, endpoint("b", "10.0.0.2", ready))
	client := fake.NewClientset(one, two)
	r := watch(t, kubernetes.Config{Client: client, Namespace: "ai", Service: "vllm"})
	r.await(t, "http://10.0.0.1:8000\nproblem: kubernetes: EndpointSlice ai/b has 2 ports (\"metrics\", \"http\"): name one of them")
}

// The life of a pod, as a router sees it.
func TestChangesReachARouter(t *testing.T) {
	client := fake.NewClientset(slice("a", four, endpoint("a", "10.0.0.1", ready)))
	slices := client.DiscoveryV1().EndpointSlices("ai")
	d, err := kubernetes.New(kubernetes.Config{Client: client, Namespace: "ai", Service: "vllm", Port: "http"})
	require.NoError(t, err)
	router, err := warmroute.New(nil, warmroute.WithDiscovery(d))
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- router.Run(context.Background()) }()
	state := func() string {
		s := ""
		for _, m := range router.Replicas() {
			s += fmt.Sprintf("%s draining=%v\n", m.Name(), m.Draining())
		}
		return s
	}
	await := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return state() == want }, 10*time.Second, time.Millisecond, want)
	}
	await("10.0.0.1:8000 draining=false\n")
	first := router.Replicas()[0]
	update := func(s *discoveryv1.EndpointSlice) {
		t.Helper()
		_, err := slices.Update(t.Context(), s, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	update(slice("a", four, endpoint("a", "10.0.0.1", leaving), endpoint("b", "10.0.0.2", ready)))
	await("10.0.0.1:8000 draining=true\n10.0.0.2:8000 draining=false\n")
	assert.Same(t, first, router.Replicas()[0])
	update(slice("a", four, endpoint("a", "10.0.0.1", ready), endpoint("b", "10.0.0.2", ready)))
	await("10.0.0.1:8000 draining=false\n10.0.0.2:8000 draining=false\n")
	assert.Same(t, first, router.Replicas()[0])
	update(slice("a", four, endpoint("a", "10.0.0.1", gone), endpoint("b", "10.0.0.2", ready)))
	await("10.0.0.2:8000 draining=false\n")
	assert.True(t, first.Removed())
	update(slice("a", four, endpoint("a2", "10.0.0.1", ready), endpoint("b", "10.0.0.2", ready)))
	await("10.0.0.2:8000 draining=false\n10.0.0.1:8000 draining=false\n")
	assert.NotSame(t, first, router.Replicas()[1], "who returns is new")
	require.NoError(t, slices.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	await("")
	assert.Contains(t, router.Stats().Discovery.Problem, "no EndpointSlice")
	require.NoError(t, router.Close())
	require.NoError(t, <-ended)
}

// While the API server fails the last list stays, and when it works again that is
// said although nothing has changed.
func TestTheServerIsAway(t *testing.T) {
	client := fake.NewClientset(slice("a", four, endpoint("a", "10.0.0.1", ready)))
	var away atomic.Bool
	away.Store(true)
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load(), nil, errors.New("connection refused")
	}
	client.PrependReactor("list", "endpointslices", refuse)
	r := watch(t, kubernetes.Config{Client: client, Namespace: "ai", Service: "vllm", Port: "http"})
	r.await(t, "problem: kubernetes: connection refused")
	away.Store(false)
	r.await(t, "http://10.0.0.1:8000\n")
}

func TestConfigIsRefused(t *testing.T) {
	client := fake.NewClientset()
	for field, cfg := range map[string]kubernetes.Config{
		"client":    {Namespace: "ai", Service: "vllm"},
		"namespace": {Client: client, Service: "vllm"},
		"service":   {Client: client, Namespace: "ai", Service: "a,b"},
		"URL":       {Client: client, Namespace: "ai", Service: "vllm", Endpoint: replica.Endpoint{URL: "tcp://a"}},
		"ranks":     {Client: client, Namespace: "ai", Service: "vllm", Endpoint: replica.Endpoint{Ranks: -1}},
	} {
		_, err := kubernetes.New(cfg)
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused, field)
		assert.Equal(t, field, refused.Field)
	}
}
