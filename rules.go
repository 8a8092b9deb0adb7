package pawl

// protocolRule names one thing that must be so for the promises to hold, at the place that
// keeps it. Every rule holds. Only in a build with the tag mutants does the environment
// variable PAWL_MUTANT name one that does not, and then a test fails: make mutants shows it,
// and docs/reliability.md lists the rules with the names of these tests.
type protocolRule string

const (
	durableFirst       protocolRule = "durable-first"
	unsafeSentOnce     protocolRule = "unsafe-sent-once"
	absenceWaits       protocolRule = "absence-waits"
	absenceIsStrict    protocolRule = "absence-is-strict"
	pauseCounts        protocolRule = "pause-counts"
	landingCounts      protocolRule = "landing-counts"
	lagCounts          protocolRule = "lag-counts"
	lastPermitCounts   protocolRule = "last-permit-counts"
	retentionEnds      protocolRule = "retention-ends"
	firstPermitCounts  protocolRule = "first-permit-counts"
	absentBeforeSend   protocolRule = "absent-before-resend"
	everyPermitCounts  protocolRule = "every-permit-counts"
	conflictMayBeEcho  protocolRule = "conflict-may-be-echo"
	doubtIsUnknown     protocolRule = "doubt-is-unknown"
	silenceIsUnknown   protocolRule = "silence-is-unknown"
	conventionsAgreed  protocolRule = "conventions-are-agreed"
	acceptedIsNotDone  protocolRule = "accepted-is-not-done"
	lookAlikesAsk      protocolRule = "look-alikes-ask"
	peopleWait         protocolRule = "people-wait"
	tokensCount        protocolRule = "tokens-count"
	successFromAnyone  protocolRule = "success-from-anyone"
	successWins        protocolRule = "success-wins"
	leaseAtTakeover    protocolRule = "lease-at-takeover"
	leaseBeforeWrite   protocolRule = "lease-before-write"
	deadlineBeforeSend protocolRule = "deadline-before-write"
	lapsedIsUnknown    protocolRule = "lapsed-is-unknown"
	commitMayBeMade    protocolRule = "commit-may-be-made"
	fenceOutlives      protocolRule = "fence-outlives"
	copiesHoldSubject  protocolRule = "copies-hold-subject"
	openHoldsSteps     protocolRule = "open-holds-steps"
	doneHoldsSteps     protocolRule = "done-holds-steps"
	subjectIsHeld      protocolRule = "subject-is-held"
	bytesAreStored     protocolRule = "bytes-are-stored"
	keyIsStored        protocolRule = "key-is-stored"
	callersPauseCounts protocolRule = "callers-pause-counts"
	flightIsDeclared   protocolRule = "flight-is-declared"
	yesIsAskedFor      protocolRule = "yes-is-asked-for"
	sentWithAYes       protocolRule = "sent-with-a-yes"
	twoPersonsDiffer   protocolRule = "two-persons-differ"
	decisionsCountOnce protocolRule = "decisions-count-once"
	restoredIsDoubt    protocolRule = "restored-is-doubt"
)
