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
// Three things a client can tell even so. vLLM (read in 0.26.0) puts
// system_fingerprint into the usage chunk, rather than into the last chunk
// with a choice, when there is one; it goes with it. A server that runs with
// --enable-force-include-usage sends a usage chunk to everyone, and with Strip
// its clients lose it: there is nothing to ask for there. And before
// vllm-project/vllm#36379 vLLM took a stream_options that does not mention
// include_usage for asking.
package askusage
