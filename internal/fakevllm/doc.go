// Package fakevllm is a simulated vLLM server: several data-parallel ranks
// behind one HTTP face, each with a paged prefix cache, a waiting queue and
// continuous batching. Gateways, tests and benchmarks route to it as they
// would to the real server, over a socket ([Server.ServeHTTP]) or in memory
// ([Server.RoundTrip]), in real time or in the virtual time of testing/synctest.
//
// The scheduler keeps the rules of vLLM 0.26 that decide where a request's
// time goes: block-wise prefix hits, the order of eviction, first come first
// served admission, chunked prefill under one token budget, preemption by
// recomputation. Steps follow one another: vLLM's asynchronous scheduling, its
// default where executors allow, plans a step while the one before it runs, and
// so frees a request's blocks a step later. The face keeps its field names,
// framing, status codes and metric names. Answers are meaningless words, the
// same for the same seed and prompt.
//
// In virtual time a run repeats exactly: a rank decides on its next step when
// all else that happens at that moment has happened, and takes requests that
// arrived at the same moment in an order that depends on their content alone.
// Only ids, and the choice of a rank for requests that name none, follow the
// order in which requests reach the server.
//
// It misbehaves when told to: see [Server.SetFault], [Server.Stop],
// [Server.StartAs], [Server.Flap], [Server.Sleep], and [Server.Listen] for what a
// connection goes through.
//
// It never runs a model. Sampling parameters, stop strings, tool calls,
// several answers to one request, stored responses and LoRA adapters are not
// simulated: what changes only the words of an answer is ignored, what would
// change its shape is refused with status 400.
package fakevllm
