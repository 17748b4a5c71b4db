package bench

import "time"

// Churn is the conversations of [SeedTable] on four endpoints of which one
// after another goes away for a minute and comes back cold: 4, 8 and 12 at a
// time for six minutes each. What is under way on an endpoint that goes away is
// lost, and its client begins another conversation a second later.
func Churn() Workload {
	w := SeedTable()
	w.Name = "churn"
	w.About = "closed loop, conversations of the seed table; endpoints 0, 1 and 2 away for a minute each, and cold after that; 6 minutes a step, caches kept"
	w.Engines.Name = "4x RTX A4000, Qwen3-4B, vLLM 0.26, an endpoint each"
	w.Engines.Endpoints, w.Engines.Ranks, w.Engines.APIServers = 4, 1, 1
	w.Steps, w.StepTime = []int{4, 8, 12}, 6*time.Minute
	w.Published = nil
	for step := range w.Steps {
		for endpoint := range 3 {
			from := time.Minute + time.Duration(endpoint)*90*time.Second
			w.Outages = append(w.Outages, Outage{Step: step, Endpoint: endpoint, From: from, To: from + time.Minute})
		}
	}
	return w
}
