package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.yaml")
	require.NoError(t, os.WriteFile(path, []byte("endpoints:\n- url: http://a\n"), 0o600))
	var out bytes.Buffer
	require.NoError(t, run([]string{path}, &out))
	assert.JSONEq(t, `{"endpoints": [{"url": "http://a"}]}`, out.String())
	require.NoError(t, os.WriteFile(path, []byte("endpoints:\n- url: a\n"), 0o600))
	out.Reset()
	require.ErrorContains(t, run([]string{path}, &out), path+":2:8: endpoints[0].url")
	assert.Empty(t, out.String())
	require.ErrorContains(t, run(nil, &out), "usage")
	require.ErrorIs(t, run([]string{path + "x"}, &out), os.ErrNotExist)
}
