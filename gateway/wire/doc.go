// Package wire reads and writes the messages of the Model Context Protocol as they are on
// the wire.
//
// A message keeps its params, its result and its error as the bytes that came, so that
// fields nobody here knows pass through unharmed and a raw answer can be kept before
// anything decodes it. What decides, the members of the envelope around them, is read
// strictly: a member that is there twice, in the same or another case, makes the message
// one that is not understood.
//
//	stdio   LineReader                 one message a line
//	HTTP    EventReader, EventWriter   server-sent events
//
// Every reader has a limit on what it holds.
package wire
