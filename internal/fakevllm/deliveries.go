package fakevllm

import "sync"

// Delivery is how often a server has met one request.
type Delivery struct {
	Seen int // POST requests that have come in, whatever became of them
	Run  int // of them, given to an engine
}

// deliveries counts POST requests by the value of a header.
type deliveries struct {
	mu   sync.Mutex
	byID map[string]Delivery
}

func (d *deliveries) add(id string, more Delivery) {
	if id == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID == nil {
		d.byID = map[string]Delivery{}
	}
	sum := d.byID[id]
	sum.Seen += more.Seen
	sum.Run += more.Run
	d.byID[id] = sum
}

// Delivery returns how often the server has met the POST requests whose header
// Config.CountHeader has this value, in all of its lives.
func (s *Server) Delivery(id string) Delivery {
	s.deliveries.mu.Lock()
	defer s.deliveries.mu.Unlock()
	return s.deliveries.byID[id]
}
