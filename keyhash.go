package warmroute

// keyHash is what pickers know a conversation by, FNV-1a of its key and never 0:
// unlike the table's own hash it is the same in every process, so that those that
// hash conversations to replicas agree.
func keyHash(key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	return max(h, 1)
}
