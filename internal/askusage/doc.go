// Package askusage has vLLM send the usage of a stream whose client did not
// ask for it, and keeps the client from noticing: Ask changes the body of the
// request, NewStrip takes the chunk that this brings out of the answer.
//
// It never changes another byte of either, never decides by the text a model
// wrote, and leaves alone whatever it does not understand: such a request is
// not asked for, such an event is passed on. It does not look at headers: that
// a body is JSON in UTF-8 without a Content-Encoding, that an answer is
// text/event-stream, and that both belong to a chat or text completion, is for
// the caller to know.
//
// A client can tell even so, in three cases. With a usage chunk to come, vLLM
// (0.26.0) puts system_fingerprint there instead of into the last chunk that
// has a choice, so the client does not get it. A server that runs with
// --enable-force-include-usage sends a usage chunk to everyone: Strip would
// take that one, and there is nothing to ask for. And before
// vllm-project/vllm#36379 a stream_options without include_usage was taken for
// asking; a client that relied on that gets no usage any more.
package askusage
