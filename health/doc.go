// Package health finds out from beside the requests whether replicas are fit for
// them: by probing their endpoints, and by what NVIDIA's dcgm-exporter says of the
// GPUs they run on.
//
// A [Monitor] watches a [Fleet], such as a router, and marks its replicas with a
// [replica.Finding]:
//
//   - down: [Probe.Fall] probes in a row failed. vLLM answers /health with 503 once
//     its engine is dead, and with 200 as long as it hangs, sleeps or is overloaded
//     (vllm#39863), so that a probe that succeeds proves nothing: it takes back what
//     probes have found, and nothing else.
//   - draining: a GPU has failed, though the engine may not have noticed. Its
//     conversations are to move away, each at its next turn, and none is to come.
//   - suspect: a GPU is in doubt. The replica keeps its conversations, and gets new
//     ones only where no other replica can take them.
//
// Which sign means which is settable: see [Rules] and [DefaultXIDs]. The last
// usable replica of a pool is never drained but suspect. What could not be read, or
// is not on a page, is neither a good sign nor a bad one: it changes no finding, and
// [Monitor.Problems] says so.
package health
