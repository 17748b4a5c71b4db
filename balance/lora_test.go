package balance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestLoRA(t *testing.T) {
	type c = balance.Candidate
	none, sql, chat := []string{}, []string{"chat", "sql"}, []string{"chat"}
	tests := []struct {
		name       string
		adapter    string
		candidates []c
		want       []float64
	}{
		{"none", "sql", nil, []float64{}},
		{"loaded", "sql", []c{{Adapters: chat}, {Adapters: sql}, {Adapters: none}}, []float64{0, 1, 0}},
		{"loaded on several", "chat", []c{{Adapters: chat}, {Adapters: sql}, {Adapters: none}}, []float64{1, 1, 0}},
		{"loaded nowhere", "legal", []c{{Adapters: chat}, {Adapters: sql}, {Adapters: none}}, []float64{0, 0, 0}},
		{"a name in another's", "sq", []c{{Adapters: sql}, {Adapters: none}}, []float64{0, 0}},
		{"base model", "", []c{{Adapters: chat}, {Adapters: none}, {}}, []float64{0, 0, 0}},
		{"base model and an empty name", "", []c{{Adapters: []string{""}}, {Adapters: none}}, []float64{0, 0}},
		{"unknown gets the mean", "sql", []c{{Adapters: sql}, {Adapters: chat}, {}}, []float64{1, 0, 0.5}},
		{"stale gets the mean", "sql", []c{{Adapters: sql}, {Adapters: chat}, {Adapters: sql, Stale: true}}, []float64{1, 0, 0.5}},
		{"room for one more", "sql", []c{{Adapters: sql, MaxAdapters: 2}, {Adapters: chat, MaxAdapters: 2}, {Adapters: none, MaxAdapters: 2}}, []float64{1, 0.5, 0.5}},
		{"full of others", "legal", []c{{Adapters: sql, MaxAdapters: 2}, {Adapters: chat, MaxAdapters: 2}, {Adapters: chat, MaxAdapters: 1}}, []float64{0, 0.5, 0}},
		{"more in use than fit: some of them wait", "legal", []c{{Adapters: sql, MaxAdapters: 1}, {Adapters: none, MaxAdapters: 1}}, []float64{0, 0.5}},
		{"full, and this one is among them", "chat", []c{{Adapters: sql, MaxAdapters: 2}, {Adapters: none, MaxAdapters: 2}}, []float64{1, 0.5}},
		{"a limit that is none", "sql", []c{{Adapters: none, MaxAdapters: -1}, {Adapters: none, MaxAdapters: 0}}, []float64{0, 0}},
		{"room on a stale page", "sql", []c{{Adapters: none, MaxAdapters: 4, Stale: true}, {Adapters: none, MaxAdapters: 4}}, []float64{0.5, 0.5}},
		{"none known", "sql", []c{{}, {Adapters: sql, Stale: true}}, []float64{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := request(1)
			req.Adapter = tt.adapter
			assert.InDeltaSlice(t, tt.want, score(balance.LoRA(), req, tt.candidates), 1e-12)
		})
	}
}
