package pawl

// The rules of runs, plans and compensations.
const (
	abortStopsSteps     protocolRule = "abort-stops-steps"
	abortStopsResends   protocolRule = "abort-stops-resends"
	doubtIsSettledFirst protocolRule = "doubt-is-settled-first"
	confirmedIsUndone   protocolRule = "confirmed-is-undone"
	openPermitsWait     protocolRule = "open-permits-wait"
	callsFitThePlan     protocolRule = "calls-fit-the-plan"
	irreversibleIsLast  protocolRule = "irreversible-is-last"
)
