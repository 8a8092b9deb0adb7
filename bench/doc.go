// Bench measures what one durable tool call costs in pawl, beside the bare harness that
// does the least such a call can do, beside systems that people use for the same job, and
// beside the disk, all in one run:
//
//	record the intent durably ──▶ a tool that does nothing ──▶ record the outcome durably
//
// Each point, one contestant with one number of callers, is measured in a process of its
// own, so that its memory and processor time are its own:
//
//	bench                  plans rounds, takes medians and ratios, writes table and plot
//	bench point ORDER      measures one point and writes its figure as JSON
//	bench provider         the HTTP provider that does nothing, for tools behind HTTP
//
// In one round all contestants with one number of callers follow one another, so that what
// disturbs the machine disturbs them alike. Only ratios of one run mean anything.
//
// It reads /proc and runs on Linux alone.
package main
