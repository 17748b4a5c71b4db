package packaging_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	modulePath = "github.com/warmroute/warmroute"
	root       = "../.."
)

// goList runs go list in the module and returns its lines.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list %v: %s", args, stderr.String())
	return strings.Fields(string(out))
}

// modulesOf are the modules, without the standard library and this one, that a
// program is built from which imports the packages.
func modulesOf(t *testing.T, packages ...string) []string {
	t.Helper()
	args := append([]string{"-deps", "-f", `{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}`}, packages...)
	return slices.Compact(slices.Sorted(slices.Values(goList(t, args...))))
}

// A program that imports the root alone is built from prometheus/common, which
// reads the engines' metrics pages, and what that needs.
func TestDependencies(t *testing.T) {
	assert.Equal(t, []string{
		"github.com/munnerz/goautoneg", "github.com/pandatix/go-abnf", "github.com/prometheus/client_model", "github.com/prometheus/common", "google.golang.org/protobuf",
	}, modulesOf(t, "."))

	direct := goList(t, "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	slices.Sort(direct)
	assert.Equal(t, []string{"github.com/prometheus/common", "github.com/stretchr/testify"}, direct, "testify is for tests")

	for _, standard := range []string{"./affinity", "./balance", "./replica"} {
		assert.Empty(t, modulesOf(t, standard), "%s needs the standard library alone", standard)
	}
}

func TestPackagesPointOneWay(t *testing.T) {
	own := func(pkg string) (names []string) {
		for _, dep := range goList(t, "-deps", pkg) {
			if name, ok := strings.CutPrefix(dep, modulePath+"/"); ok {
				names = append(names, name)
			}
		}
		return names
	}
	for _, dep := range own(".") {
		for _, tool := range []string{"bench", "examples/", "internal/fakevllm", "integrations/"} {
			assert.False(t, strings.HasPrefix(dep, tool), "the library needs %s", dep)
		}
	}
	for pkg, allowed := range map[string][]string{
		"./replica":  {"replica"},
		"./balance":  {"balance", "replica"},
		"./affinity": {"affinity", "internal/jsonscan", "internal/jsonspan"},
		"./metrics":  {"internal/tlsdial", "metrics", "replica"},
	} {
		assert.Subset(t, allowed, own(pkg), pkg)
	}
	assert.NotContains(t, goList(t, "-f", `{{join .Imports "\n"}}`, "./balance"), "net/http", "balance knows no HTTP")
}
