// Package extproc is an external processor for Envoy (ext_proc over gRPC, as of
// Envoy 1.40) that chooses, for each request, the replica whose prefix cache
// holds its conversation.
//
// Envoy asks it about a request's headers, and body if the filter sends it; it
// answers with the replica's address in a header and, for endpoint picking as
// the Gateway API inference extension has it, in the dynamic metadata
// envoy.lb, with the replica's X-Data-Parallel-Rank, and with its path if the
// endpoint has a prefix. Envoy sends the request there by an ORIGINAL_DST cluster
// that reads the header, so an endpoint's host must be an IP address. Then it
// shows the answer's headers and body, out of which the usage is read.
//
// # Processing modes
//
// The filter's request_body_mode decides what a request can be known by:
//
//	FULL_DUPLEX_STREAMED  headers and body, read as far as needed; no message_timeout
//	BUFFERED              headers and the whole body
//	STREAMED, BUFFERED_PARTIAL, NONE
//	                      the headers alone, since Envoy sends them on before the body is known
//
// Envoy says which one is set in its first message (protocol_config, since 1.33);
// one that does not is taken for NONE. The response's headers must be sent, and
// its body STREAMED or FULL_DUPLEX_STREAMED: with NONE requests are unmeasured
// and in flight until Envoy closes the gRPC stream, and BUFFERED holds tokens back.
//
// # Waiting for room
//
// A turn that waits for room in a prefix cache keeps Envoy waiting. But for
// FULL_DUPLEX_STREAMED, Envoy gives up after its message_timeout: see
// [Config.MessageTimeout] and [Config.MaxMessageTimeout], which say when a turn
// that still waits is answered with 429 and Retry-After instead.
//
// # What becomes of a request
//
// Envoy does not send a request to another replica when it finds no connection,
// since the header names one: the next request does, if the filter's
// response_attributes tell response.code_details, by which a replica that could
// not be reached is known from one that answered with 503. A client that leaves
// and an engine that breaks off in its answer look the same to an external
// processor, which counts neither as the replica's failure.
package extproc
