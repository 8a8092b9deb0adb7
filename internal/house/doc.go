// Package house holds the tests of what the source tree promises about itself: who may
// import whom, how folders are named, that every package says what it is for, that each
// dependency has its reason and that the documents speak of what is there. It has no code
// of its own to import.
package house
