package bench

import "time"

// Overload is [SeedTable]'s conversations, 4 to 48 at a time, for as long as
// each step is asked to last, every step with cold engines: where not all of
// them fit into the prefix caches, from 16 on, plain affinity has everybody's
// cache evicted between turns.
func Overload(step time.Duration) Workload {
	w := SeedTable()
	w.Name = "overload"
	w.About = "closed loop, the seed table's conversations, " + step.String() + " a step, cold"
	w.Steps, w.StepTime, w.Cold, w.Published = []int{4, 8, 12, 16, 24, 32, 48}, step, true, nil
	return w
}
