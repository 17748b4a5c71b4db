package warmroutecaddy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLogsOfTheConfigInForce has a router that is kept over a reload log where
// the new configuration says.
func TestLogsOfTheConfigInForce(t *testing.T) {
	nobody := freeAddr(t)
	s := start(t, "respond nothing")
	for i, said := range []string{"replica unreachable", "replica reached again"} {
		if i == 1 {
			listener, err := net.Listen("tcp", nobody)
			require.NoError(t, err)
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Listener = listener
			server.Start()
			defer server.Close()
		}
		file := filepath.Join(t.TempDir(), "log")
		s.log = fmt.Sprintf("file %s", file)
		require.NoError(t, s.load(site("replica http://"+nobody, "")))
		resp, err := http.Post(s.url()+"/v1/completions", "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []int{http.StatusServiceUnavailable, http.StatusNotFound}[i], resp.StatusCode, "%s", body)
		logged, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(logged), said)
		assert.Contains(t, string(logged), nobody)
	}
}
