package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/table"
)

func TestEveryTableHasARow(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out, []string{"-n", "5000"}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2+len(table.Impls()))
	for i, impl := range table.Impls() {
		fields := strings.Fields(lines[2+i])
		assert.Equal(t, impl.Name, fields[1])
		assert.NotContains(t, fields[3], "-", "no entry costs less than nothing")
	}
}

func TestOnlySomeTables(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out, []string{"-n", "100", "-impl", "ours,naive"}))
	assert.Contains(t, out.String(), "ours")
	assert.Contains(t, out.String(), "naive")
	assert.NotContains(t, out.String(), "otter")
}
