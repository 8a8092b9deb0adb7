package api

import "sync"

// room bounds what goes on at a time, for each tenant and, where most is not 0, in all.
type room struct {
	perTenant, most int

	mu   sync.Mutex
	all  int
	busy map[string]int
}

func newRoom(perTenant, most int) *room {
	return &room{perTenant: perTenant, most: most, busy: make(map[string]int)}
}

// enter takes a place and reports whether there was one; each is given back by leave.
func (r *room) enter(tenant string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[tenant] >= r.perTenant || r.most > 0 && r.all >= r.most {
		return false
	}
	r.busy[tenant]++
	r.all++
	return true
}

func (r *room) leave(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.busy[tenant]--; r.busy[tenant] == 0 {
		delete(r.busy, tenant)
	}
}
