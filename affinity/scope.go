package affinity

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Scoped makes the keys of each scope others than those of every other, so that
// two users who send the same session id have two conversations: by is the API
// key or tenant, such as Header("Authorization"), or Header("X-Tenant-Id") that
// a gateway sets. A request without a scope keeps its key as it is.
//
// The session, and the parent with it, becomes 32 hex digits of a SHA-256 of
// both: neither can be read in logs, statistics or a saved table. It is the same
// in every process, and not salted: who has the table can try out scopes that
// are easy to guess. It costs one allocation, two with a parent.
func Scoped(key, by KeyFunc) KeyFunc {
	return func(r *Request) Key {
		k := key(r)
		if !k.Valid() {
			return Key{}
		}
		scope := by(r).Session
		if scope == "" {
			return k
		}
		k.Session = scoped(scope, k.Session)
		if k.Parent != "" {
			k.Parent = scoped(scope, k.Parent)
		}
		return k
	}
}

func scoped(scope, session string) string {
	var room [1024]byte
	b := binary.AppendUvarint(room[:0], uint64(len(scope))) // where the session begins
	b = append(b, scope...)
	b = append(b, session...)
	return digest(sha256.Sum256(b), "")
}

// digest is half of a sum in hex, behind a prefix of up to seven bytes: with all
// of it a key does not lie in its session any more.
func digest(sum [sha256.Size]byte, prefix string) string {
	var text [inlineKey]byte
	n := copy(text[:], prefix)
	n += hex.Encode(text[n:], sum[:sha256.Size/2])
	return string(text[:n])
}
