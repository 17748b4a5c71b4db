package families_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/families"
	"github.com/warmroute/warmroute/metrics"
)

func TestAll(t *testing.T) {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a"}})
	require.NoError(t, err)
	defer router.Close()
	var page bytes.Buffer
	require.NoError(t, router.WriteMetrics(&page))
	all := families.All()
	byName := map[string]families.Family{}
	for _, f := range all {
		assert.NotContains(t, byName, f.Name)
		assert.NotNil(t, f.Labels, "%s has a sample if nothing is unknown", f.Name)
		assert.Contains(t, page.String(), "# HELP "+f.Name+" "+f.Help+"\n# TYPE "+f.Name+" "+f.Kind.String()+"\n")
		byName[f.Name] = f
	}
	assert.Equal(t, len(all), strings.Count(page.String(), "# TYPE "))
	assert.Equal(t, []string{"model", "replica", "outcome"}, byName["warmroute_requests_total"].Labels)
	assert.Equal(t, []string{"model", "replica"}, byName["warmroute_residents"].Labels, "which is not known of an engine that was never scraped")
	assert.Empty(t, byName["warmroute_unknown_model_requests_total"].Labels)
	assert.Equal(t, metrics.KindHistogram, byName["warmroute_first_byte_seconds"].Kind)
}
