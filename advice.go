package pawl

// advice is what the envelope tells a caller for one status and reason.
type advice struct {
	status  Status
	reason  Reason // ReasonNone: every reason of the status without a row of its own
	safe    bool
	next    NextAction
	message string
}

// adviceTable is the one place where status and reason become retry_safe and
// next_action. Messages speak to the model and hold none of the provider's words.
var adviceTable = []advice{
	{Succeeded, ReasonNone, false, UseResult, "It is done. Use the result. Do not call the tool again for the same purpose."},
	{Succeeded, ReasonResultLost, false, UseResult, "It is done, but the provider's answer was lost on the way, so details are missing. Say that it is done. Do not call the tool again."},
	{Succeeded, ReasonResultCut, false, UseResult, "It is done. Its result is too large to be kept and is not shown. Do not call the tool again for the same purpose."},
	{Succeeded, ReasonRead, true, UseResult, "This is what was read. Reading has no effect."},
	{Succeeded, ReasonPerson, false, UseResult, "It is done; a person confirmed it at the provider. Do not call the tool again."},
	{Succeeded, ReasonDoneElsewhere, false, NewStep, "The same thing was already done at an earlier step of this run. Nothing was sent now. If it is really wanted once more, the user or the host application must say so and give it a new step."},
	{Succeeded, ReasonNotYours, false, Stop, "The same thing was already done for someone else here. Nothing was sent now, and its result is not shown."},

	{Succeeded, ReasonRunAborted, false, Stop, "It was done, and then the run it belongs to was called off: it is being undone where that is possible. Do not rely on its result and do not call the tool again."},

	{Pending, ReasonNone, false, Wait, "It is under way. Wait and ask for its status. Do not call the tool again and do not say that it is done or that it failed."},
	{Prepared, ReasonNone, false, Wait, "It is recorded and waits for a decision. Nothing was sent yet. Do not say that it is done."},
	{Prepared, ReasonApprovalNeeded, false, Wait, "It needs a person's yes before it is sent. Nothing was sent yet. Say that it waits for approval. Do not say that it is done, do not call the tool again in other words; ask for its status later."},
	{Prepared, ReasonLookAlike, false, Wait, "It looks like something that was asked for shortly before, so a person has to say that it is wanted too. Nothing was sent yet. Say that it waits for approval. Do not call the tool again in other words; ask for its status later."},
	{Prepared, ReasonApproved, false, Wait, "It was approved and is about to be sent. Do not say that it is done. Wait and ask for its status."},
	{Compensated, ReasonNone, false, Stop, "It was done and has been undone since. Do not rely on its result."},

	{Unknown, ReasonNone, false, CheckStatus, "It is not known whether it happened. Do not say that it is done and do not say that it failed: say that it is being checked. Do not call the tool again; ask for its status later."},
	{Unknown, ReasonAccepted, false, CheckStatus, "The provider has accepted it and it has not landed yet. Say that it is under way, not that it is done. Do not call the tool again; ask for its status later."},
	{Unknown, ReasonInFlight, false, CheckStatus, "The provider is still working on it. Say that it is under way, not that it is done. Do not call the tool again; ask for its status later."},
	{Unknown, ReasonReviewOpen, false, AskUser, "It is not known whether it happened, and only a person can find out. Tell the user so. Do not say that it is done, do not say that it failed, do not call the tool again."},
	{Unknown, ReasonStore, false, CheckStatus, "The record cannot be read or written right now, so it is not known whether this was done before or is still going to be. This call sent nothing. Do not say that it is done or that it failed. Ask for its status later."},
	{Unknown, ReasonOpenElsewhere, false, CheckStatus, "The same thing was already asked for at an earlier step and it is not known yet whether it happened. Nothing was sent now. Ask for its status later."},

	{FailedNoEffect, ReasonNone, false, AskUser, "It did not happen and will not happen. Tell the user."},
	{FailedNoEffect, ReasonNotSent, true, CallAgain, "It did not happen: the request never reached the provider. The same call may be made again."},
	{FailedNoEffect, ReasonGivenBack, true, CallAgain, "It did not happen: nothing was sent. The same call may be made again."},
	{FailedNoEffect, ReasonTransient, true, CallAgain, "It did not happen: the provider could not take it just now. The same call may be made again after a while."},
	{FailedNoEffect, ReasonRejected, false, AskUser, "It did not happen: the provider refused it. The same call would be refused again. Tell the user, or change what is asked for in a new step."},
	{FailedNoEffect, ReasonAbsent, true, CallAgain, "It did not happen: the provider shows no trace of it and the request can no longer arrive. The same call may be made again."},
	{FailedNoEffect, ReasonFenced, true, CallAgain, "It did not happen: it was called off at the provider before it took place. The same call may be made again."},
	{FailedNoEffect, ReasonPerson, true, CallAgain, "It did not happen; a person confirmed it at the provider. The same call may be made again if it is still wanted."},

	{FailedNoEffect, ReasonRunAborted, false, Stop, "This run was called off, so nothing was sent and nothing of it will be. What it had done is being undone. Do not call this or another tool for the same purpose; tell the user."},
	{FailedNoEffect, ReasonNotInPlan, false, Stop, "This run has a plan, and the call is no step of it, so nothing was sent. Keep to the plan. If something else is wanted, tell the user."},
	{FailedNoEffect, ReasonPlanOrder, false, AskUser, "An earlier step of the plan has not had its effect, so nothing was sent. Do not go on with later steps. Tell the user, or wait until the earlier step is settled."},

	{FailedNoEffect, ReasonNotApproved, false, AskUser, "It did not happen: a person said no. Tell the user. Do not try to get around it with other words."},
	{FailedNoEffect, ReasonWithdrawn, false, AskUser, "It did not happen: it was withdrawn before it was sent. Tell the user."},
	{FailedNoEffect, ReasonApprovalExpired, true, CallAgain, "It did not happen: nobody approved it in time. The same call may be made again if it is still wanted; then a person is asked anew."},
	{FailedNoEffect, ReasonApprovalChanged, true, CallAgain, "It did not happen: the rules for this tool changed before it was sent. The same call may be made again if it is still wanted; then a person is asked anew."},

	{FailedNoEffect, ReasonUnknownTool, false, Stop, "There is no such tool. Nothing was sent."},
	{FailedNoEffect, ReasonInvalidArguments, true, CallAgain, "The arguments could not be read, so nothing was sent. Correct them and call again."},
	{FailedNoEffect, ReasonIdentityMissing, true, CallAgain, "An argument that this tool cannot do without is missing or empty, so nothing was sent. Ask the user if it is not known, then call again."},
	{FailedNoEffect, ReasonRunRequired, false, Stop, "The host application sent no run, so nothing was sent. This cannot be corrected in the arguments."},
	{FailedNoEffect, ReasonLabelInvalid, false, Stop, "The host application sent a label that is too long, such as the id of the run, so nothing was sent. This cannot be corrected in the arguments."},
	{FailedNoEffect, ReasonDeadline, true, CallAgain, "Too little time is left in this turn, so nothing was sent. Call again in the next turn."},
	{FailedNoEffect, ReasonParameterMismatch, false, NewStep, "The same thing was asked for before with other details, so nothing was sent now. If the new details are a new intention, it needs a new step; otherwise use the earlier outcome."},
	{FailedNoEffect, ReasonSubjectBusy, true, Wait, "Something else on the same subject is not settled yet, so nothing was sent. Wait, then call again. Do not try to get around it with other words."},
	{FailedNoEffect, ReasonGenerations, false, AskUser, "It was begun anew as often as this run allows, so nothing was sent. Tell the user."},
	{FailedNoEffect, ReasonAttempts, false, AskUser, "It did not happen and was tried as often as allowed. The same call is not sent again. Tell the user."},
	{FailedNoEffect, ReasonSnapshot, true, CallAgain, "The state before the change could not be read, so nothing was sent. The same call may be made again."},
	{FailedNoEffect, ReasonStore, true, CallAgain, "The intent could not be recorded, so nothing was sent. The same call may be made again later."},
	{FailedNoEffect, ReasonBusy, true, CallAgain, "Too much is under way right now, so nothing was sent. The same call may be made again later."},
	{FailedNoEffect, ReasonStopping, true, CallAgain, "The service is stopping, so nothing was sent. The same call may be made again later."},
	{FailedNoEffect, ReasonRead, true, CallAgain, "The read failed. It has no effect and may be made again."},
	{FailedNoEffect, ReasonNotYours, false, Stop, "The same thing was asked for by someone else here and did not happen. Nothing was sent now."},
}

var adviceIndex = func() map[Status]map[Reason]*advice {
	index := make(map[Status]map[Reason]*advice)
	for i := range adviceTable {
		a := &adviceTable[i]
		if index[a.status] == nil {
			index[a.status] = make(map[Reason]*advice)
		}
		index[a.status][a.reason] = a
	}
	return index
}()

// adviceFor finds the row of a status and reason, or the status's general row.
func adviceFor(s Status, r Reason) *advice {
	if a, ok := adviceIndex[s][r]; ok {
		return a
	}
	return adviceIndex[s][ReasonNone]
}

// SystemPrompt is the rule that a host puts into its agent's system prompt.
const SystemPrompt = `Tools that change something answer with an envelope: status, retry_safe, effect, message, next_action.
- SUCCEEDED: it happened, once. Use the result. Never call again "to be sure".
- FAILED_NO_EFFECT: it did not happen and will not. Call again only if retry_safe is true.
- UNKNOWN: nobody knows yet. Tell the user that it is being checked. Never say that it is done, never say that it failed, never call again in other words. Ask pawl_status later.
- PENDING or PREPARED: it is under way or waits for a decision. Say so and wait.
- COMPENSATED: it happened and has been undone.
Follow next_action. Do not invent keys, ids or steps: repeats, keys and undoing are handled for you.`
