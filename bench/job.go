package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// job is one durable tool call.
type job struct {
	key  [16]byte
	run  string
	step string
	n    int64
	args []byte // fresh for each job: who gets it may keep it
}

// hex is the key as text.
func (j *job) hex() string { return hex.EncodeToString(j.key[:]) }

// toolName is the name under which the tool is registered everywhere.
const toolName = "payments.charge"

// The arguments are what an agent would send; the digits in the middle tell jobs apart.
const (
	argsHead = `{"order_id":"ord-`
	argsTail = `","amount":1299.00,"currency":"EUR","customer":"cus_8f3a9c0d21b7e645","capture":true,` +
		`"description":"monthly plan for team seats, prorated from the 12th, invoice to be sent by e-mail to the billing contact",` +
		`"email":"billing@example.test","metadata":{"agent":"billing-assistant","turn":"17"}}`
)

// toolResult is what the tool answers.
const toolResult = `{"id":"ch_3PqX8y2eZvKYlo2C1mXk9aBd","status":"succeeded","amount":129900,"currency":"eur",` +
	`"receipt":"https://pay.example.test/receipts/acct_1032D82eZvKYlo2C/ch_3PqX8y2eZvKYlo2C","livemode":false}`

// jobs makes the jobs of one caller.
type jobs struct {
	run  string // each caller has a run of its own
	dice *rand.Rand
	n    int64
}

func newJobs(caller int) *jobs {
	return &jobs{
		run:  fmt.Sprintf("run-%016x-%d", rand.Uint64(), caller),
		dice: rand.New(rand.NewPCG(rand.Uint64(), uint64(caller))),
	}
}

func (g *jobs) next() *job {
	g.n++
	j := &job{n: g.n, run: g.run}
	a, b := g.dice.Uint64(), g.dice.Uint64()
	for i := range 8 {
		j.key[i], j.key[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	digits := j.hex()
	j.step = strconv.FormatInt(g.n, 10)
	j.args = make([]byte, 0, len(argsHead)+len(digits)+len(argsTail))
	j.args = append(append(append(j.args, argsHead...), digits...), argsTail...)
	return j
}
