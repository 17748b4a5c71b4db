package warmroutecaddy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	warmroutecaddy "github.com/warmroute/warmroute/integrations/caddy"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// TestGateway holds Caddy to what every gateway around a router must do, with
// its errors answered by the transport, and by handle_errors.
func TestGateway(t *testing.T) {
	for _, errors := range []string{warmroutecaddy.AnswerErrors, warmroutecaddy.HandleErrors} {
		t.Run(errors, func(t *testing.T) {
			gatewaytest.Run(t, gatewaytest.Gateway{Serve: func(t *testing.T, router *warmroute.Router, maxBody int64) string {
				withdraw, err := warmroutecaddy.Provide(t.Name(), router)
				require.NoError(t, err)
				t.Cleanup(withdraw)
				return start(t, fmt.Sprintf(`
					request_body {
						max_size %d
					}
					reverse_proxy engines {
						transport warmroute {
							router %q
							errors %s
						}
					}
					handle_errors {
						warmroute_errors
					}`, maxBody, t.Name(), errors)).url()
			}})
		})
	}
}
