package server

import (
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/notify"
)

// openNotifier makes what tells an operator, where the contract file says how.
func (s *Server) openNotifier(file *contract.File, store pawl.Store, o *Options) error {
	how, err := file.Notify()
	if how == nil || err != nil {
		return err
	}
	s.notifier, err = notify.New(store, notify.Options{URL: how.URL, Secret: how.Secret, Link: how.Link, Log: s.log})
	if err != nil {
		return err
	}
	o.Executor.Observers = append(slices.Clone(o.Executor.Observers), s.notifier.Observer())
	o.Executor.Notified = s.notifier.Notified
	return nil
}
