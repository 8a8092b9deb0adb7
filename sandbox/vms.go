package sandbox

import (
	"maps"
	"slices"
	"time"
)

// vm is a virtual machine: accepted at once, running later, listed later still.
type vm struct {
	ID        string            `json:"id"`
	Cluster   string            `json:"cluster"`
	Name      string            `json:"name"`
	Size      string            `json:"size,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Status    string            `json:"status"`
	CreatedAt time.Time         `json:"created_at"`
}

// createVM makes a machine; names need not be unique.
func createVM(w *work) (*result, error) {
	f := w.form
	v := vm{Cluster: f.needText("cluster"), Name: f.needText("name"), Size: f.text("size"), Tags: f.labels("tags")}
	if err := f.done(); err != nil {
		return nil, err
	}
	id, err := nextID(w.tx, "vm")
	if err != nil {
		return nil, err
	}
	v.ID, v.CreatedAt, v.Status = id, w.now, "running"
	terms := []term{{"cluster", v.Cluster}, {"name", v.Name}}
	for _, name := range slices.Sorted(maps.Keys(v.Tags)) {
		terms = append(terms, term{"tag", name + ":" + v.Tags[name]})
	}
	return w.create(VMs, id, "vm.create", v.subject(), 0, "", v, terms)
}

func (v *vm) subject() string { return v.Cluster + "/" + v.Name }

// deleteVM deletes a running machine; a deleted one stays deleted, without an effect.
func deleteVM(w *work) (*result, error) {
	if err := w.form.done(); err != nil {
		return nil, err
	}
	var v vm
	id := w.id
	st, err := w.load(VMs, id, &v)
	if err != nil {
		return nil, err
	}
	if v.Status == "deleted" {
		return &result{status: 200, service: VMs, id: id}, nil
	}
	v.Status = "deleted"
	res, err := w.change(st, VMs, id, "vm.delete", v.subject(), 0, "", v)
	if err == nil {
		err = w.reverse(VMs, id, "vm.create", res.effect)
	}
	return res, err
}
