// Package metrics reads what inference engines say of themselves on their
// Prometheus pages, and writes our own counters in the same text format.
//
// A [Scraper] fetches one endpoint's page and hands back a [Page]: one
// [Snapshot] for each engine (data-parallel rank) on it. What an engine did not
// say is missing, never zero: see [Number]. Which series mean what is the
// business of a [Dialect], of which there is one for each kind of engine; the
// scraper finds out which one an endpoint's page is in, unless it is told by
// [Config.Dialect] or [Scraper.SetDialect].
//
// A page costs little, however long: only the lines that a dialect wants are
// parsed, those of the usual shape without an allocation.
//
// A [Writer] writes families, samples and histograms in text format 0.0.4, and
// a [Histogram] collects observations without locks.
//
// The package never follows a redirect, never reads more than
// [Config.MaxBytes] of a page, never waits longer than [Config.Timeout] for
// one, and decides nothing: whether a page is too old, or a replica too busy,
// is for the reader of the snapshots to judge.
package metrics
