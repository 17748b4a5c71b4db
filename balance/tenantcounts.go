package balance

// tenantCounts is how many turns each tenant has in the queue.
type tenantCounts struct {
	of   map[uint64]int // those that have any
	with []int          // how many tenants have so many, but for none
	most int            // that one of them has
}

func (c *tenantCounts) add(tenant uint64) {
	if c.of == nil {
		c.of, c.with = map[uint64]int{}, make([]int, 1)
	}
	n := c.of[tenant] + 1
	c.of[tenant] = n
	if n == len(c.with) {
		c.with = append(c.with, 0)
	}
	c.with[n]++
	if n > 1 {
		c.with[n-1]--
	}
	c.most = max(c.most, n)
}

// remove takes one of a tenant's turns off, of which there is one.
func (c *tenantCounts) remove(tenant uint64) {
	n := c.of[tenant]
	c.with[n]--
	if c.with[n] == 0 && c.most == n {
		c.most--
	}
	if n == 1 {
		delete(c.of, tenant)
		return
	}
	c.of[tenant] = n - 1
	c.with[n-1]++
}
