// Package bench compares routing policies: the same conversations sent once
// under each policy, and what came of it in one table.
//
// The policies are the library's own code, from the transport to the scraping
// of metrics pages; there is no second implementation of any of it here. The
// engines are simulated ones that keep the scheduling rules of vLLM 0.26, served
// in memory and in the virtual time of testing/synctest, so that minutes of
// load take seconds and the same seed gives the same figures to the byte.
//
// A test or benchmark of any module compares a scorer of its own with
//
//	func BenchmarkScorer(b *testing.B) {
//		mine := bench.Scorers("mine", balance.Weight(myScorer{}, 1))
//		table := bench.Compare(b, bench.SeedTable(), bench.Off(), bench.Affinity(), mine)
//		_ = table.WriteText(os.Stdout)
//	}
//
// and a program with [Runner.Table].
//
// # What is measured
//
// A step lasts [Workload].StepTime. Its clients send no further turn once that
// is over. What they have sent by then runs to its end before the next step
// begins, so that no wait is cut short in the figures; it is cancelled if that
// takes longer than ten minutes. In a row of the table
//
//   - sessions per hour, output tokens, hit share, busy replicas and preemptions
//     count what happened within the step's time;
//   - TTFB, requests, failures and stayed share are of the turns that were sent
//     within it, those that waited past its end included;
//   - fairness is the time per turn of the slowest conversation over the median
//     one, of those that came to their ends: all turns sent within the step,
//     and answered. Sub-agents are conversations of their own in it.
//
// Tokens, hits and preemptions are the engines' own counters. The hit share is
// that of vllm:prefix_cache_hits in vllm:prefix_cache_queries, the figure that
// dashboards show. vLLM counts a request there at each step in which it is at
// the head of the queue, so under overload the requests that wait longest weigh
// most in it. The cached share counts a prompt once, with its request's first
// token: vllm:prompt_tokens_cached in vllm:prompt_tokens.
//
// # Workloads
//
// [SeedTable] is that of the published figures and [LongContext] one of a fleet
// with long prompts. [OpenLoop] and [Bursts] do not wait for answers,
// [SharedPrompt], [OneAfterAnother], [TwoTeams] and [FourTeams] have many users of
// few prompts, [HotConversation] has one client that sends much more than the others, and
// under [Churn] replicas leave and come back cold. [Trace] plays recorded
// conversations. Any [Workload] literal will do, and all of them can be changed.
//
// # Live
//
// [Live] sends the same workloads over HTTP and in real time to servers that are
// there, and fills in the same table from what the clients see and from the
// engines' metrics pages.
//
// # What it never does
//
// A simulation measures no model and no GPU: the engines' speeds are parameters,
// and it opens no socket. A live run sends to the targets and reads the metrics
// pages that it is given, and nothing else. Neither reads the environment or
// writes to a terminal.
package bench
