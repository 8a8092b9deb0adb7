package main

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/server"
)

// hintFor says what to do next about an error, or nothing. where names contract file and
// store for the next command.
func hintFor(err error, where string) string {
	var call *pawl.CallError
	var store *server.StoreError
	var refused *pawl.Refusal
	var invalid *contract.InvalidError
	var token *server.TokenError
	switch {
	case errors.As(err, &refused):
		return hintForRefusal(refused, where)
	case errors.As(err, &invalid):
		return "Correct the file, then check it with: pawl lint FILE"
	case errors.As(err, &token):
		return "Correct the line in the tokens file. A sound one is made by: pawl token new"
	case errors.Is(err, server.ErrNoTokens):
		return "Name a file of tokens with --tokens; make them with: pawl token new"
	case errors.Is(err, server.ErrRecovery):
		return "If no other copy is in use, say so with: pawl restore" + where + " --yes"
	case errors.As(err, &call):
		return hintForReason(call.Reason)
	case errors.Is(err, contract.ErrShortSecret):
		return "Make a longer one, such as: openssl rand -hex 32"
	case errors.Is(err, contract.ErrSecret):
		return "Set the variable or write the file that it names, then run the command again."
	case errors.Is(err, pawl.ErrNotFound):
		return "See what there is with: pawl ops list" + where + " --all-tenants"
	case errors.Is(err, pawl.ErrNewerSchema):
		return "Use the pawl that wrote this store, or a newer one."
	case errors.Is(err, pawl.ErrFull):
		return "Make room on the disk, then run the command again."
	case errors.Is(err, pawl.ErrBusy):
		return "Find out which program holds the store, or why its server cannot be reached, then run the command again."
	case errors.Is(err, pawl.ErrReadOnly):
		return "Give this user the right to write the file and its folder, or name the server that is the primary."
	case errors.Is(err, server.ErrNoStore):
		return "The first pawl call makes it. " + whereStore
	case errors.As(err, &store) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, server.ErrForeign) || errors.Is(err, syscall.EISDIR)):
		return whereStore
	case errors.Is(err, fs.ErrNotExist):
		return "Check the path. -c FILE names the contract file; without it, it is ./pawl.yaml"
	}
	return ""
}

const whereStore = "The store is the file or the database that --store names; without it, store in the contract file, or pawl.db beside that."

// hintForReason says what whoever typed the command can change about a refused call.
func hintForReason(r pawl.Reason) string {
	switch r {
	case pawl.ReasonRunRequired:
		return "Give --run ID, or --parent-run ID for a tool with that scope."
	case pawl.ReasonLabelInvalid:
		return "Give a shorter one."
	case pawl.ReasonDeadline:
		return "Give a longer --deadline: 2s of it are kept to report in, and a start needs the tool's min_time (1s) besides."
	}
	return ""
}

func hintForRefusal(r *pawl.Refusal, where string) string {
	switch r.Why {
	case pawl.RefusedVersion:
		return "It has changed since you looked. Look again with: pawl ops show" + where + " ID"
	case pawl.RefusedEarly:
		return "Wait until then, or give --waiver REASON if you know that nothing can arrive any more."
	case pawl.RefusedLease:
		return "A worker has it right now. Wait for it, then look again with: pawl ops show" + where + " ID"
	case pawl.RefusedStatus:
		return "It is settled already. Look at it with: pawl ops show" + where + " ID"
	}
	return ""
}
