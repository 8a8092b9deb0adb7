package postgres

import (
	"fmt"
	"slices"
	"strings"
)

// statement is one statement with its parameters, which are all in binary form.
type statement struct {
	sql    string
	params [][]byte
	oids   []uint32
	// kept: it is sent so often that a session that can should remember it.
	kept bool
}

// field is one parameter of a statement.
type field struct {
	column string
	kind
}

// ask makes a statement for one row of parameters.
func ask(sql string, fields []field, t *tuple) statement {
	s := statement{sql: sql, kept: true}
	if t != nil {
		s.params = t.values
	}
	for _, f := range fields {
		s.oids = append(s.oids, f.oid)
	}
	return s
}

// form is a statement for one row or many: the same SQL over parameters or over arrays.
type form struct {
	fields         []field
	one, many      string
	oids, arrayOID []uint32
}

// newForm puts the rows where the SQL says {rows}, and where it says {expected} a parameter
// that comes after theirs.
func newForm(sql string, fields []field) form {
	f := form{fields: fields}
	var one, many, names []string
	for i, c := range fields {
		one = append(one, fmt.Sprintf("$%d::%s AS %s", i+1, c.name, c.column))
		many = append(many, fmt.Sprintf("$%d::%s[]", i+1, c.name))
		names = append(names, c.column)
		f.oids, f.arrayOID = append(f.oids, c.oid), append(f.arrayOID, c.array)
	}
	if strings.Contains(sql, "{expected}") {
		sql = strings.ReplaceAll(sql, "{expected}", fmt.Sprintf("$%d::text", len(fields)+1))
		f.oids, f.arrayOID = append(f.oids, kindText.oid), append(f.arrayOID, kindText.oid)
	}
	f.one = strings.Replace(sql, "{rows}", "SELECT "+strings.Join(one, ", "), 1)
	f.many = strings.Replace(sql, "{rows}",
		"SELECT * FROM unnest("+strings.Join(many, ", ")+") AS rows("+strings.Join(names, ", ")+")", 1)
	return f
}

// over makes the statement for the rows, of which there is at least one, and for the
// parameter after them, if it has one.
func (f *form) over(rows []*tuple, expected ...[]byte) statement {
	if len(rows) == 1 {
		return statement{f.one, slices.Concat(rows[0].values, expected), f.oids, true}
	}
	return statement{f.many, append(arrays(f.fields, rows), expected...), f.arrayOID, true}
}

// statements are the SQL of one store: its schema and its witness are written into it.
type statements struct {
	lanes, contracts, begin, confirmBegun, apply, confirmApplied, renew, aside, refuse form
	runs, putRun, confirmRun                                                           form

	standing, operation, history, contract, version     string
	ring, candidates, lock, locked                      string
	identify, record, adopt, confirm, restored, restore string
	lockRuns, run, dueRuns                              string
}

// newStatements writes the SQL for a schema and for what tells witness and identity.
func newStatements(schema, witness, identity string) statements {
	text := func(sql string) string {
		return strings.NewReplacer("{schema}", schema, "{witness}", witness, "{identity}", identity).Replace(sql)
	}
	stands := func(sql, gen string) string {
		return strings.Replace(text(sql), "{stands}", fmt.Sprintf(identityStands, gen), 1)
	}
	return statements{
		lanes: newForm(text(insertLanes), laneFields), contracts: newForm(text(insertContracts), contractFields),
		begin:        newForm(stands(insertBegun, "r.gen"), beginFields),
		confirmBegun: newForm(text(confirmBegun), confirmFields),
		apply:        newForm(text(updateApplied), applyFields), confirmApplied: newForm(text(confirmApplied), appliedFields),
		renew: newForm(text(updateRenewed), claimFields),
		aside: newForm(text(updateAside), asideFields), refuse: newForm(text(updateRefused), refuseFields),

		standing: stands(selectStanding, "$2"), operation: text(selectOperation), history: text(selectHistory),
		contract: text(selectContract), version: text(selectVersion),
		ring: text(selectRing), candidates: text(selectCandidates), lock: text(lockDue), locked: text(selectLocked),
		runs: newForm(text(insertRuns), runFields), putRun: newForm(text(writeRun), runFields), confirmRun: newForm(text(confirmRun), runDoubtFields),
		lockRuns: text(lockRuns), run: text(selectRun), dueRuns: text(selectDueRuns),
		identify: text(identifyPlace), record: text(insertPlace), adopt: text(adoptTimeline), confirm: text(updatePlace),
		restored: text(selectRestore), restore: text(insertRestore),
	}
}

// sources is how intents and states are joined to a whole row; columns is what scan reads.
const (
	columns = `i.id, i.lane, l.tenant, l.tool, i.run, i.key, i.gen, i.identity_claim, s.step_claim, s.once_claim, s.subject_claim,
		i.intent, i.intent_sum, s.status, s.version, s.open, s.held, s.review, s.ref,
		CASE s.version WHEN 1 THEN i.state ELSE c.state END, s.state_sum, s.token, s.lease, s.due, s.claim_sum`
	sources = `{schema}.intents i JOIN {schema}.states s ON s.id = i.id JOIN {schema}.lanes l ON l.lane = i.lane
		LEFT JOIN {schema}.changes c ON c.id = s.id AND c.version = s.version`
)

var (
	laneFields     = []field{{"lane", kindUUID}, {"tenant", kindText}, {"tool", kindText}}
	contractFields = []field{{"hash", kindText}, {"body", kindText}}

	// stateFields are what a change writes, in the order of tuple.state.
	stateFields = []field{
		{"held", kindInt}, {"open", kindBool}, {"status", kindText}, {"version", kindInt}, {"review", kindInt}, {"ref", kindText},
		{"state_sum", kindInt}, {"token", kindInt}, {"lease", kindInt}, {"due", kindInt}, {"claim_sum", kindInt},
	}
	beginFields = append([]field{
		{"id", kindUUID}, {"lane", kindUUID}, {"run", kindText}, {"key", kindUUID}, {"gen", kindInt},
		{"identity_claim", kindUUID}, {"step_claim", kindUUID}, {"once_claim", kindUUID}, {"subject_claim", kindUUID},
		{"intent", kindText}, {"intent_sum", kindInt}, {"entry", kindText}, {"state", kindText},
		{"run_id", kindUUID}, {"planned", kindBool},
	}, stateFields...)
	applyFields = append([]field{
		{"id", kindUUID}, {"version_was", kindInt}, {"token_was", kindInt}, {"entry", kindText}, {"state", kindText},
	}, stateFields...)
	claimFields = []field{
		{"id", kindUUID}, {"token_was", kindInt}, {"token", kindInt}, {"lease", kindInt}, {"due", kindInt}, {"claim_sum", kindInt},
	}
	confirmFields = []field{{"id", kindUUID}, {"token", kindInt}}
	appliedFields = []field{{"id", kindUUID}, {"version", kindInt}, {"entry", kindText}}
	refuseFields  = []field{{"id", kindUUID}, {"at", kindInt}}
	asideFields   = []field{{"id", kindUUID}, {"token", kindInt}, {"review", kindInt}, {"state_sum", kindInt}, {"claim_sum", kindInt}}
)

// identityStands is the condition under which the latest generation n of an identity, with
// its state h, is in the way of generation %s.
const identityStands = `(n.gen >= %s OR h.open OR h.status = 'SUCCEEDED')`

const (
	insertLanes     = `INSERT INTO {schema}.lanes (lane, tenant, tool) SELECT r.lane, r.tenant, r.tool FROM ({rows}) r ON CONFLICT DO NOTHING`
	insertContracts = `INSERT INTO {schema}.contracts (hash, body) SELECT r.hash, r.body FROM ({rows}) r ON CONFLICT DO NOTHING`

	// The statements that give a permit or record an outcome do so only in the place and
	// under the settings that the store was last seen in, and tell what they found.

	// insertBegun inserts what nothing stands in the way of and returns it. The state comes
	// first: most of what can be in the way is unique there. A key or a generation that is
	// taken in the same instant makes the statement fail.
	insertBegun = `WITH w AS ({witness}), r AS (SELECT q.* FROM ({rows}) q JOIN w ON w.witness = {expected}), s AS (
			INSERT INTO {schema}.states (id, lane, step_claim, once_claim, subject_claim,
				held, open, status, version, review, ref, state_sum, token, lease, due, claim_sum)
			SELECT r.id, r.lane, r.step_claim, r.once_claim, r.subject_claim,
				r.held, r.open, r.status, r.version, r.review, r.ref, r.state_sum, r.token, r.lease, r.due, r.claim_sum
			FROM r WHERE NOT EXISTS (
				SELECT 1 FROM (SELECT i.id, i.gen FROM {schema}.intents i WHERE i.identity_claim = r.identity_claim
					ORDER BY i.gen DESC LIMIT 1) n JOIN {schema}.states h ON h.id = n.id WHERE {stands})
				AND NOT EXISTS (SELECT 1 FROM {schema}.runs u WHERE u.id = r.run_id AND (u.status <> 'open' OR u.planned AND NOT r.planned))
			ON CONFLICT DO NOTHING RETURNING id
		), i AS (
			INSERT INTO {schema}.intents (id, lane, run, key, gen, identity_claim, intent, intent_sum, entry, state)
			SELECT r.id, r.lane, r.run, r.key, r.gen, r.identity_claim, r.intent, r.intent_sum, r.entry, r.state FROM r JOIN s ON s.id = r.id
		)
		SELECT w.witness, w.now, s.id FROM w LEFT JOIN s ON true`

	// updateApplied changes the rows whose version and token are as they were and returns them.
	updateApplied = `WITH w AS ({witness}), r AS (SELECT q.* FROM ({rows}) q JOIN w ON w.witness = {expected}), s AS (
			UPDATE {schema}.states s SET held = r.held, open = r.open, status = r.status, version = r.version, review = r.review,
				ref = r.ref, state_sum = r.state_sum, token = r.token, lease = r.lease, due = r.due, claim_sum = r.claim_sum
			FROM r WHERE s.id = r.id AND s.version = r.version_was AND s.token = r.token_was RETURNING s.id
		), c AS (
			INSERT INTO {schema}.changes (id, version, entry, state) SELECT r.id, r.version, r.entry, r.state FROM r JOIN s ON s.id = r.id
		)
		SELECT w.witness, w.now, s.id FROM w LEFT JOIN s ON true`

	updateRenewed = `WITH w AS ({witness}), r AS (SELECT q.* FROM ({rows}) q JOIN w ON w.witness = {expected}), s AS (
			UPDATE {schema}.states s SET token = r.token, lease = r.lease, due = r.due, claim_sum = r.claim_sum
			FROM r WHERE s.id = r.id AND s.token = r.token_was RETURNING s.id
		)
		SELECT w.witness, w.now, s.id FROM w LEFT JOIN s ON true`

	// A commit whose answer was lost is confirmed by writing what it should have left behind:
	// only a write waits for what makes it durable. Both return the rows that are as told.
	confirmBegun = `UPDATE {schema}.states s SET token = s.token FROM ({rows}) r
		WHERE s.id = r.id AND s.token = r.token AND s.version = 1 RETURNING s.id`
	confirmApplied = `UPDATE {schema}.states s SET version = s.version FROM ({rows}) r, {schema}.changes c
		WHERE s.id = r.id AND c.id = r.id AND c.version = r.version AND c.entry = r.entry RETURNING s.id`

	// A row that failed its check is never claimed again, and is shown to people.
	updateRefused = `UPDATE {schema}.states s SET due = NULL, review = coalesce(s.review, r.at) FROM ({rows}) r WHERE s.id = r.id`
	// A sound row whose contract failed its check stays sound.
	updateAside = `UPDATE {schema}.states s SET due = NULL, review = r.review, state_sum = r.state_sum, claim_sum = r.claim_sum
		FROM ({rows}) r WHERE s.id = r.id AND s.token = r.token`

	// selectStanding finds what is in the way of an operation, the first of its claims first,
	// or the operation itself.
	selectStanding = `SELECT f.kind, ` + columns + ` FROM (
			SELECT CAST(1 AS bigint) AS kind, n.id FROM (SELECT i.id, i.gen FROM {schema}.intents i WHERE i.identity_claim = $3
				ORDER BY i.gen DESC LIMIT 1) n JOIN {schema}.states h ON h.id = n.id WHERE {stands}
			UNION ALL SELECT 2, i.id FROM {schema}.intents i WHERE i.key = $4
			UNION ALL SELECT 3, s.id FROM {schema}.states s WHERE s.step_claim = $5 AND s.step_claim IS NOT NULL AND s.held & 1 <> 0
			UNION ALL SELECT 4, s.id FROM {schema}.states s WHERE s.once_claim = $6 AND s.once_claim IS NOT NULL AND s.held & 2 <> 0
			UNION ALL SELECT 5, s.id FROM {schema}.states s WHERE s.subject_claim = $7 AND s.subject_claim IS NOT NULL AND s.held & 4 <> 0
			UNION ALL SELECT 6, i.id FROM {schema}.intents i WHERE i.id = $1
			ORDER BY 1 LIMIT 1
		) f JOIN ` + sources + ` ON i.id = f.id`

	selectOperation = `SELECT ` + columns + ` FROM ` + sources + ` WHERE i.id = $1 AND l.tenant = $2`
	selectHistory   = `SELECT i.entry, 1 AS version FROM {schema}.intents i WHERE i.id = $1
		UNION ALL SELECT c.entry, c.version FROM {schema}.changes c WHERE c.id = $1 AND c.version <= $2 ORDER BY version`
	selectContract = `SELECT body FROM {schema}.contracts WHERE hash = $1`
	selectVersion  = `SELECT version, token FROM {schema}.states WHERE id = $1`
)

var standingFields = []field{
	{"id", kindUUID}, {"gen", kindInt}, {"identity", kindUUID}, {"key", kindUUID}, {"step", kindUUID}, {"once", kindUUID}, {"subject", kindUUID},
}
