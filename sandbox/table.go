package sandbox

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
)

// table is an answer that can also be read by people.
type table interface{ writeText(w io.Writer) error }

const instantText = "2006-01-02T15:04:05.000Z"

func (l effectList) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SEQ\tAT\tKIND\tOBJECT\tSUBJECT\tAMOUNT\tKEY\tREQUEST\tSTATE")
	for _, e := range l.Effects {
		amount := fmt.Sprint(e.Amount)
		switch {
		case e.Currency != "":
			amount = amountText(e.Amount, e.Currency) + " " + e.Currency
		case e.Amount == 0:
			amount = "-"
		}
		state := "stands"
		if e.ReversedBy != 0 {
			state = fmt.Sprintf("reversed by %d", e.ReversedBy)
		} else if !e.LandAt.Equal(e.At) {
			state = "lands " + e.LandAt.Format(instantText)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.Seq, e.At.Format(instantText), e.Kind, e.ObjectID,
			shown(e.Subject), amount, shown(e.Key), e.Request, state)
	}
	return t.Flush()
}

func (l requestList) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SEQ\tAT\tMETHOD\tPATH\tKEY\tFAULT\tOUTCOME\tEFFECT\tANSWER\tVIA")
	for _, q := range l.Requests {
		effect := "-"
		if q.Effect != 0 {
			effect = fmt.Sprint(q.Effect)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", q.Seq, q.At.Format(instantText), q.Method, shown(q.Path),
			shown(q.Key), shown(q.Fault), shown(q.Outcome), effect, shown(q.Answer), shown(q.Via))
	}
	return t.Flush()
}

// shown makes a client's text safe for a terminal.
func shown(s string) string {
	quoted := fmt.Sprintf("%q", s)
	return cmp.Or(quoted[1:len(quoted)-1], "-")
}
