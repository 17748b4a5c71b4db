package discovery_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/discovery"
	"github.com/warmroute/warmroute/replica"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// replaceBy writes beside the file and renames, as is right.
func replaceBy(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	require.NoError(t, os.Rename(path+".new", path))
}

func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "endpoints.json")
		d, err := discovery.File(discovery.FileConfig{Path: path})
		require.NoError(t, err)
		l, stop := watch(t, d)
		tick := func() []said {
			time.Sleep(discovery.DefaultFileInterval)
			return l.take()
		}
		got := l.take()
		require.Len(t, got, 1)
		assert.Contains(t, got[0].err, "no such file")

		replaceBy(t, path, `{"endpoints": [{"url": "http://a"}]}`)
		assert.Equal(t, []said{{urls: []string{"http://a"}}}, tick())
		assert.Empty(t, tick(), "nothing has changed")
		replaceBy(t, path, `{"endpoints": [{"url": "http://b"}]}`)
		assert.Equal(t, []said{{urls: []string{"http://b"}}}, tick(), "a renamed file of the same size")
		write(t, path, `{"endpoints": [{"url": "http://c"}]}`)
		assert.Equal(t, []said{{urls: []string{"http://c"}}}, tick(), "written in place, within the clock of the file system")
		for range 5 {
			assert.Empty(t, tick())
		}
		now := time.Now().Add(time.Hour)
		require.NoError(t, os.Chtimes(path, now, now))
		assert.Empty(t, tick(), "touched, but the same text")

		for _, tc := range []struct{ text, want string }{
			{"", "file is empty"}, {" \n", "file is empty"},
			{`{"endpoints": [{"url": "http://a"},` + "\n", "line 2: unexpected EOF"},
			{`{"endpoints": [{"url": "ftp://a"}]}`, "endpoint 0"},
			{`{"endpoints": [{"url": "http://a"}, {"url": "http://A:80/"}]}`, "endpoint 1"},
			{`{}`, `no "endpoints"`},
		} {
			replaceBy(t, path, tc.text)
			got := tick()
			require.Len(t, got, 1, tc.text)
			assert.Nil(t, got[0].urls, "the last list stays")
			assert.Contains(t, got[0].err, tc.want)
			assert.Contains(t, got[0].err, path)
			time.Sleep(time.Minute) // the pauses after failures are no longer than the interval
			l.take()
		}
		replaceBy(t, path, `{"endpoints": []}`)
		assert.Equal(t, []said{{urls: []string{}}}, tick(), "an empty list is a list")
		require.NoError(t, os.Remove(path))
		got = tick()
		require.Len(t, got, 1)
		assert.Contains(t, got[0].err, "no such file")
		replaceBy(t, path, `{"endpoints": []}`)
		assert.Equal(t, []said{{urls: []string{}}}, tick(), "back again")
		stop()
	})
}

// A ConfigMap's file is a link to a file in a folder that is a link too, and the
// folder's link is what changes.
func TestFileBehindLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, v := range []string{"1", "2"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, v), 0o700))
			write(t, filepath.Join(dir, v, "endpoints.json"), `{"endpoints": [{"url": "http://`+v+`"}]}`)
		}
		require.NoError(t, os.Symlink("1", filepath.Join(dir, "data")))
		path := filepath.Join(dir, "endpoints.json")
		require.NoError(t, os.Symlink(filepath.Join("data", "endpoints.json"), path))
		d, err := discovery.File(discovery.FileConfig{Path: path})
		require.NoError(t, err)
		l, stop := watch(t, d)
		assert.Equal(t, []said{{urls: []string{"http://1"}}}, l.take())
		time.Sleep(time.Minute)
		require.NoError(t, os.Symlink("2", filepath.Join(dir, "next")))
		require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data")))
		time.Sleep(time.Second)
		assert.Equal(t, []said{{urls: []string{"http://2"}}}, l.take())
		stop()
	})
}

func TestFileGivesItsKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "anything")
	d, err := discovery.File(discovery.FileConfig{Path: path, APIKey: "common", Parse: func([]byte) ([]replica.Target, error) {
		return []replica.Target{target("http://a"), {Endpoint: replica.Endpoint{URL: "http://b", APIKey: "own"}}}, nil
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, d.Watch(ctx, func(targets []replica.Target, err error) {
		require.NoError(t, err)
		assert.Equal(t, "common", targets[0].APIKey)
		assert.Equal(t, "own", targets[1].APIKey)
		cancel()
	}))
}

func TestFileThatIsTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, make([]byte, discovery.MaxFileSize+1), 0o600))
	d, err := discovery.File(discovery.FileConfig{Path: path})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, d.Watch(ctx, func(_ []replica.Target, err error) {
		require.ErrorContains(t, err, "longer than")
		cancel()
	}))
}

func TestParseJSON(t *testing.T) {
	got, err := discovery.ParseJSON([]byte(`{"endpoints": [
		{"url": "http://a", "model": "m", "ranks": 4, "engine": "vllm", "host": "h:1", "draining": true}]}`))
	require.NoError(t, err)
	assert.Equal(t, []replica.Target{{Endpoint: replica.Endpoint{URL: "http://a", Model: "m", Ranks: 4, Engine: "vllm", Host: "h:1"}, Draining: true}}, got)
	for text, want := range map[string]string{
		`{"endpoints": [{"url": "http://a", "APIKey": "secret"}]}`: `unknown field "APIKey"`,
		"{\n\"endpoints\": 7}":     "line 2",
		`{"endpoints": []} {}`:     "more text",
		"{\"endpoints\":\n[\n{]}}": "line 3",
		`[]`:                       "cannot unmarshal",
	} {
		_, err := discovery.ParseJSON([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"endpoints": [{"url": "http://a", "ranks": 4}]}`))
	f.Add([]byte(`{"endpoints": [`))
	f.Fuzz(func(t *testing.T, text []byte) {
		targets, err := discovery.ParseJSON(text)
		if err != nil {
			assert.Nil(t, targets)
			return
		}
		for _, target := range targets {
			assert.Empty(t, target.APIKey)
		}
	})
}
