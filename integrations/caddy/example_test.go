package warmroutecaddy_test

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	warmroutecaddy "github.com/warmroute/warmroute/integrations/caddy"
)

// The block of a Caddyfile, and what it is in Caddy's JSON.
func ExampleTransport_UnmarshalCaddyfile() {
	transport := new(warmroutecaddy.Transport)
	if err := transport.UnmarshalCaddyfile(caddyfile.NewTestDispenser(`warmroute coders {
		replica http://10.0.0.1:8000
		replica http://10.0.0.2:8000 ranks 4
		spill 12
		session_header X-Chat-Id
	}`)); err != nil {
		fmt.Println(err)
		return
	}
	config, err := json.MarshalIndent(transport, "", "  ")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(config))
	// Output:
	// {
	//   "name": "coders",
	//   "replicas": [
	//     {
	//       "url": "http://10.0.0.1:8000"
	//     },
	//     {
	//       "url": "http://10.0.0.2:8000",
	//       "ranks": 4
	//     }
	//   ],
	//   "spill": "12",
	//   "session_headers": [
	//     "X-Chat-Id"
	//   ]
	// }
}
