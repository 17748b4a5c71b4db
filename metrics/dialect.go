package metrics

import (
	"fmt"
	"strings"
)

// Dialect reads one kind of engine's page. Its methods may be called
// concurrently.
type Dialect interface {
	// Name is the engine's name in lower case, such as "vllm".
	Name() string
	// Paths are where the page may be below an endpoint's base URL, such as
	// "/metrics": at least one, the likeliest first.
	Paths() []string
	// Parse returns what the page says: Engines, sorted as in [Page], and the
	// fields RankHeader and LoRA. A page without a series of this engine has no
	// engines, and that is no error. The error tells what could not be read; the
	// page returned beside it holds the rest. Parse must not keep or change page.
	Parse(page []byte) (Page, error)
}

// Dialects returns the dialects of this package in the order in which they are
// tried on a page whose engine is not known. A page can have the series of
// several: newer NIMs show vLLM's beside one of their own.
func Dialects() []Dialect {
	return []Dialect{VLLM(), SGLang(), TensorRTLLM(), Triton(), LlamaCPP(), TGI(), NIM()}
}

// DialectByName returns the dialect with a [Dialect.Name]. Letter case, dots,
// dashes and underscores do not matter, and "trtllm" is TensorRT-LLM.
func DialectByName(name string) (Dialect, error) {
	plain := strings.NewReplacer(".", "", "-", "", "_", "")
	wanted := plain.Replace(strings.ToLower(name))
	if wanted == "trtllm" {
		return TensorRTLLM(), nil
	}
	var names []string
	for _, d := range Dialects() {
		if plain.Replace(d.Name()) == wanted {
			return d, nil
		}
		names = append(names, d.Name())
	}
	return nil, fmt.Errorf("metrics: unknown dialect %q, want one of %s", name, strings.Join(names, ", "))
}
