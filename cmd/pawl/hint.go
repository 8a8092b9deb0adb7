package main

import (
	"errors"
	"io/fs"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/server"
)

// hintFor says what to do next about an error, or nothing.
func hintFor(err error) string {
	var refused *pawl.Refusal
	var invalid *contract.InvalidError
	var token *server.TokenError
	switch {
	case errors.As(err, &refused):
		return hintForRefusal(refused)
	case errors.As(err, &invalid):
		return "Correct the file, then check it with: pawl lint FILE"
	case errors.As(err, &token):
		return "Correct the line in the tokens file. A sound one is made by: pawl token new"
	case errors.Is(err, server.ErrNoTokens):
		return "Name a file of tokens with --tokens; make them with: pawl token new"
	case errors.Is(err, server.ErrRecovery):
		return "If no other copy is in use, say so with: pawl restore"
	case errors.Is(err, contract.ErrSecret):
		return "Set the variable or write the file that it names, then run the command again."
	case errors.Is(err, pawl.ErrNotFound):
		return "See what there is with: pawl ops list --all-tenants"
	case errors.Is(err, pawl.ErrNewerSchema):
		return "Use the pawl that wrote this store, or a newer one."
	case errors.Is(err, pawl.ErrFull):
		return "Make room on the disk, then run the command again."
	case errors.Is(err, pawl.ErrBusy):
		return "Find out which program holds the store, then run the command again."
	case errors.Is(err, pawl.ErrReadOnly):
		return "Give this user the right to write the file and its folder."
	case errors.Is(err, fs.ErrNotExist):
		return "Check the path. -c FILE names the contract file; without it, it is ./pawl.yaml"
	}
	return ""
}

func hintForRefusal(r *pawl.Refusal) string {
	switch r.Why {
	case pawl.RefusedVersion:
		return "It has changed since you looked. Look again with: pawl ops show ID"
	case pawl.RefusedEarly:
		return "Wait until then, or give --waiver REASON if you know that nothing can arrive any more."
	case pawl.RefusedLease:
		return "A worker has it right now. Wait for it, then look again with: pawl ops show ID"
	case pawl.RefusedStatus:
		return "It is settled already. Look at it with: pawl ops show ID"
	}
	return ""
}
