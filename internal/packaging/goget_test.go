package packaging_test

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const published = "v0.1.0"

// program is what the README begins with, in as few lines.
const program = `package main

import (
	"fmt"
	"net/http"

	"github.com/warmroute/warmroute"
)

func main() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Ranks: 4}})
	if err != nil {
		panic(err)
	}
	defer router.Close()
	client := &http.Client{Transport: router.Transport(nil)}
	fmt.Println(client.Transport != nil, len(router.Stats().Pools[0].Replicas))
}
`

// TestGoGet has the README's ways to use the library work for a program that
// has nothing but a module proxy: from the module's own path, and from a fork
// that keeps it.
func TestGoGet(t *testing.T) {
	const fork = "github.com/you/warmroute"
	modules := t.TempDir()
	for name, tc := range map[string]struct {
		served   string // the path that the proxy has the module under
		commands [][]string
	}{
		"by its own path": {modulePath, [][]string{{"get", modulePath}}},
		"from a fork":     {fork, [][]string{{"mod", "edit", "-replace", modulePath + "=" + fork + "@" + published}, {"get", modulePath}}},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, dir := t.TempDir(), t.TempDir()
			publish(t, filepath.Join(proxy, filepath.FromSlash(tc.served), "@v"), tc.served)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
			run := goCommand(t, dir, proxy, modules)
			run("mod", "init", "program")
			for _, args := range tc.commands {
				run(args...)
			}
			run("build", "-o", "program.exe", ".")
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "program.exe")).CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Equal(t, "true 4\n", string(out))
			for dep := range strings.FieldsSeq(run("list", "-deps", ".")) {
				for _, module := range []string{"github.com/stretchr/", modulePath + "/bench", modulePath + "/internal/fakevllm"} {
					assert.False(t, strings.HasPrefix(dep, module), "the program is built with %s", dep)
				}
			}
		})
	}
}

// goCommand runs go in dir. What is not in the proxy comes from this machine's
// module cache, and only what is not there from where its proxy is. With
// -trimpath what was built of it is found again by the next run.
func goCommand(t *testing.T, dir, proxy, modules string) func(args ...string) string {
	t.Helper()
	known, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	env := strings.Fields(string(known))
	require.Len(t, env, 2)
	proxies := []string{fileURL(proxy), fileURL(filepath.Join(env[0], "cache", "download")), env[1]}
	environ := append(os.Environ(), "GOPROXY="+strings.Join(proxies, ","), "GOFLAGS=-mod=mod -modcacherw -buildvcs=false -trimpath",
		"GOMODCACHE="+modules, "GONOSUMDB=*", "GONOPROXY=none", "GOPRIVATE=", "GOWORK=off", "GOTOOLCHAIN=local")
	return func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, environ
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "go %v: %s", args, stderr.String())
		return string(out)
	}
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive
	}
	return "file://" + path
}

// publish writes the module into a directory of a module proxy (GOPROXY
// protocol, go.dev/ref/mod) under a path, as a version control system would
// give it: without nested modules.
func publish(t *testing.T, dir, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o750))
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	write("list", []byte(published+"\n"))
	write(published+".mod", mod)
	write(published+".info", []byte(`{"Version":"`+published+`","Time":"`+time.Now().UTC().Format(time.RFC3339)+`"}`))

	file, err := os.Create(filepath.Join(dir, published+".zip"))
	require.NoError(t, err)
	defer file.Close()
	archive := zip.NewWriter(file)
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || isModule(filepath.Join(root, name))):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		w, err := archive.Create(path + "@" + published + "/" + name)
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}))
	require.NoError(t, archive.Close())
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
