package affinity

import "hash/maphash"

// inlineKey is how long a key may be to lie in its session: a UUID is 36 bytes.
const inlineKey = 39

// sessionKey is a key as a session keeps it. A key that is not too long lies in
// the session itself, so that comparing it does not wait for another cache line
// to come from memory, and neither the string it was asked for with nor what
// that is a part of is kept. A longer one is a string of its own.
type sessionKey struct {
	long  *string
	short [inlineKey + 1]byte // its last byte is the length
}

func (k *sessionKey) set(key string) {
	if len(key) > inlineKey {
		long := key // key itself would be moved to the heap for short ones too
		k.long = &long
		return
	}
	copy(k.short[:], key)
	k.short[inlineKey] = byte(len(key))
}

// equal compares bytes with an inline key without making a string of them.
func (k *sessionKey) equal(key string) bool {
	if k.long != nil {
		return *k.long == key
	}
	return string(k.bytes()) == key
}

// bytes is an inline key.
func (k *sessionKey) bytes() []byte { return k.short[:min(k.short[inlineKey], inlineKey)] }

func (k *sessionKey) String() string {
	if k.long != nil {
		return *k.long
	}
	return string(k.bytes())
}

// hash is what maphash.String gives for the key.
func (k *sessionKey) hash(seed maphash.Seed) uint64 {
	if k.long != nil {
		return maphash.String(seed, *k.long)
	}
	return maphash.Bytes(seed, k.bytes())
}
