// Package pawl makes tool calls with side effects safe for AI agents: each intended effect
// happens once, and its final state is true, whatever is lost, repeated, killed or reworded.
//
// An [Executor] takes a [Call], records the intent in a [Store] before a byte leaves,
// derives the idempotency key itself, makes one attempt through the tool's [Port] and
// concludes from positive evidence alone. What happened is one of three outcomes:
//
//	           start               evidence: it happened
//	PREPARED ─────────▶ PENDING ─────────────────────────▶ SUCCEEDED ─────▶ COMPENSATED
//	                      │ │  evidence: it did not,          ▲     undone
//	                      │ │  and cannot still land          │
//	                      │ └───────────────▶ FAILED_NO_EFFECT│ late answer, probe,
//	                      │ no proof either way     ▲         │ resend, fence, a person
//	                      ▼                         │         │
//	                   UNKNOWN ────── reconcile ────┴─────────┘
//	                      └── no automatic move left: still UNKNOWN, and a person is asked
//
// The caller's duties:
//
//  1. Run and step come from the host application, never from the model. The same step of
//     the same run is the same intention; another step is another one.
//  2. The [Contract] says what is known about the tool. What is not known stays absent, and
//     absent means that nothing is ever sent again.
//  3. Do not retry around Do. Its [Envelope] says what is true and what to do next.
//  4. Call [Executor.Start] in one process at least, so that what calls leave open is
//     settled in the background, and [Executor.Stop] before the store is closed.
//
// [Step] holds the transition rules and [Next] the ladder from UNKNOWN to known, both pure
// functions. Stores and ports are in packages of their own; this one knows no technology.
package pawl
