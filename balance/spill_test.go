package balance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestSpills(t *testing.T) {
	tests := []struct {
		name      string
		home      balance.Candidate
		threshold int
		want      bool
	}{
		{"idle", balance.Candidate{}, 64, false},
		{"below", balance.Candidate{InFlight: 63}, 64, false},
		{"at the threshold", balance.Candidate{InFlight: 64}, 64, false},
		{"above", balance.Candidate{InFlight: 65}, 64, true},
		{"threshold 0, idle", balance.Candidate{}, 0, false},
		{"threshold 0, busy", balance.Candidate{InFlight: 1}, 0, true},
		{"nothing else counts", balance.Candidate{InFlight: 10, Others: 500, Sessions: 500, Running: 500, Waiting: 500, KVUsage: 1}, 64, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, balance.Spills(&tt.home, tt.threshold))
		})
	}
}

func TestSpillPays(t *testing.T) {
	tests := []struct {
		name         string
		home, target balance.Candidate
		want         bool
	}{
		{"idler", balance.Candidate{InFlight: 65}, balance.Candidate{InFlight: 64}, true},
		{"equal", balance.Candidate{InFlight: 65}, balance.Candidate{InFlight: 65}, false},
		{"busier", balance.Candidate{InFlight: 65}, balance.Candidate{InFlight: 66}, false},
		{"busy with the requests of others", balance.Candidate{InFlight: 65}, balance.Candidate{InFlight: 5, Others: 60}, false},
		{"home busy with the requests of others too", balance.Candidate{InFlight: 65, Others: 65}, balance.Candidate{InFlight: 65, Others: 64}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, balance.SpillPays(&tt.home, &tt.target))
		})
	}
	same := balance.Candidate{InFlight: 65}
	assert.False(t, balance.SpillPays(&same, &same), "staying is no spill")
}
