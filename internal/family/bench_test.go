package family_test

import (
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/family"
)

func BenchmarkPrefix(b *testing.B) {
	turn := `{"role":"user","content":"` + words("question", 8000) + `"},{"role":"assistant","content":"` + words("answer", 2000) + `"}`
	for _, bb := range []struct{ name, body string }{
		{"system-8KB", `{"model":"m","messages":[{"role":"system","content":"` + words("s", 8<<10) + `"},{"role":"user","content":"hi"}]}`},
		{"agent-64KB", `{"model":"m","system":[{"type":"text","text":"` + words("s", 24<<10) + `"}],"messages":[` + turn + `],"tools":[{"description":"` + words("t", 40<<10) + `"}]}`},
		{"history-1MB", `{"messages":[{"role":"system","content":"` + words("s", 8<<10) + `"},` + strings.Repeat(turn+",", 100) + turn + `],"model":"m"}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			body := []byte(bb.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if p := family.Prefix(body, 0, &seed); !p.Known() {
					b.Fatal("no prefix")
				}
			}
		})
	}
}
