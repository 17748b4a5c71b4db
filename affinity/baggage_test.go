package affinity_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

func ExampleBaggage() {
	key := affinity.First(affinity.Default(), affinity.Baggage("session.id"))
	h := http.Header{"Baggage": {"user.id=alice,session.id=chat%201;ttl=60"}}
	fmt.Printf("%+v\n", key(affinity.NewRequest(h, nil)))
	// Output: {Session:chat 1 Parent: Source:header Baggage session.id}
}

func TestBaggage(t *testing.T) {
	for name, tc := range map[string]struct {
		header []string
		want   string
	}{
		"none":              {},
		"alone":             {[]string{"session.id=a"}, "a"},
		"among others":      {[]string{"user.id=u, session.id=a ,x=y"}, "a"},
		"in a second line":  {[]string{"user.id=u", "session.id=a"}, "a"},
		"with spaces":       {[]string{"session.id = a ; p = 1; q"}, "a"},
		"with =":            {[]string{"session.id=a=b"}, "a=b"},
		"first counts":      {[]string{"session.id=a,session.id=b"}, "a"},
		"decoded":           {[]string{"session.id=%C3%A4%2C+"}, "ä,+"},
		"malformed":         {[]string{"session.id=%zz"}, ""},
		"no value":          {[]string{"session.id"}, ""},
		"empty":             {[]string{"session.id=,"}, ""},
		"another case":      {[]string{"Session.Id=a"}, ""},
		"a property of one": {[]string{"x=y;session.id=a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Baggage": tc.header}
			assert.Equal(t, tc.want, affinity.Baggage("session.id")(affinity.NewRequest(h, nil)).Session)
			assert.Empty(t, affinity.Default()(affinity.NewRequest(h, nil)).Session)
		})
	}
}
