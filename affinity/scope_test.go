package affinity_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

func TestScoped(t *testing.T) {
	key := affinity.Scoped(affinity.Default(), affinity.Header("Authorization"))
	of := func(pairs ...string) affinity.Key { return key(affinity.NewRequest(header(pairs...), nil)) }

	alice, bob := of("x-session-id", "1", "authorization", "Bearer alice"), of("x-session-id", "1", "authorization", "Bearer bob")
	assert.NotEqual(t, alice.Session, bob.Session)
	assert.Equal(t, alice, of("x-session-id", "1", "authorization", "Bearer alice"))
	assert.Len(t, alice.Session, 32)
	assert.Equal(t, "header X-Session-Id", alice.Source)
	for _, secret := range []string{"alice", "Bearer"} {
		assert.NotContains(t, alice.Session, secret)
	}

	child := of("x-session-id", "2", "x-parent-session-id", "1", "authorization", "Bearer alice")
	assert.Equal(t, alice.Session, child.Parent, "a parent is found under the key it has itself")
	assert.NotEqual(t, child.Session, child.Parent)

	assert.Equal(t, affinity.Key{Session: "1", Source: "header X-Session-Id"}, of("x-session-id", "1"), "nobody's")
	assert.Zero(t, of("authorization", "Bearer alice"), "a scope is no conversation")
	assert.Zero(t, of("authorization", "Bearer alice", "x-session-id", strings.Repeat("x", affinity.MaxKeyLen+1)), "too long as before")

	// Where the scope ends and the session begins is part of the key.
	assert.NotEqual(t, of("x-session-id", "bc", "authorization", "a").Session, of("x-session-id", "c", "authorization", "ab").Session)
	assert.Len(t, of("x-session-id", "1", "authorization", strings.Repeat("x", 4000)).Session, 32)
}

func TestScopedAllocations(t *testing.T) {
	key := affinity.Scoped(affinity.Default(), affinity.Header("Authorization"))
	r := affinity.NewRequest(header("x-session-id", uuid, "authorization", "Bearer alice"), nil)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { key(r) }), 1.0)
}

func ExampleScoped() {
	key := affinity.Scoped(affinity.Default(), affinity.Header("Authorization"))
	session := func(user string) string {
		h := http.Header{}
		h.Set("X-Session-Id", "chat-1")
		h.Set("Authorization", "Bearer "+user)
		return key(affinity.NewRequest(h, nil)).Session
	}
	alice := session("alice")
	fmt.Println(alice == session("alice"), alice == session("bob"))
	// Output: true false
}
