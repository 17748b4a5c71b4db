package balance

// The weights of [Default], in points. [InFlight] has 4 because its scale has
// 4 steps on a fleet that is not busy: one request there is one point, and the
// others are weighed in requests.
const (
	inFlightWeight = 4
	sessionsWeight = 1
	kvUsageWeight  = 2
	parentWeight   = 2.5
)

// Default returns the [Picker] that a router places conversations with unless
// it is given another: [Weighted] of [InFlight] 4, [Sessions] 1, [KVUsage] 2
// and [Parent] 2.5. While no replica has more than 4 requests on it, a request
// is one point; above that a point is a quarter of the busiest replica's load.
//
//   - InFlight leads, since it is exact and includes the pick before this one.
//     A burst spreads evenly, and a replica that has less load than another by
//     more than a quarter of the busiest one's is chosen over it whatever their
//     sessions are.
//   - Sessions has 1, the most that is out-weighed by any clear difference in
//     load. Between requests everything else is equal and it decides alone:
//     conversations that come one after another to an idle fleet spread
//     evenly, and so does the load that they bring later.
//   - KVUsage has 2: a nearly full cache beside one that is a third full costs
//     more than a request, as the engine will queue or preempt there, but
//     usage that differs by a tenth costs less than one, as it is as old as
//     the last scrape.
//   - Parent has 2.5: a sub-agent goes to the replica that has its parent's
//     prefix although that has two requests more, or has one more and the most
//     sessions, but not when it has three more on a fleet that is not busy, or
//     more by five eighths of the busiest one's load. Of 40 sub-agents that
//     start at once on 4 idle replicas the parent's gets 19 and the others 7
//     each.
func Default() Picker { return Weighted(defaultScorers()...) }

func defaultScorers() []WeightedScorer {
	return []WeightedScorer{
		Weight(InFlight(), inFlightWeight),
		Weight(Sessions(), sessionsWeight),
		Weight(KVUsage(), kvUsageWeight),
		Weight(Parent(), parentWeight),
	}
}
