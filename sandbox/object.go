package sandbox

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// firstID is the number before the first object's.
const firstID = 1000

// nextID gives out a number that no other object ever had.
func nextID(tx *sql.Tx, prefix string) (string, error) {
	var n int64
	err := tx.QueryRow(`UPDATE settings SET value = value + 1 WHERE name = 'next_id' RETURNING value`).Scan(&n)
	return fmt.Sprintf("%s_%d", prefix, n), err
}

// object is a new object of a service. Doc is written as JSON and has a member status,
// which readers see as pending until the object lands.
type object struct {
	service string
	id      string
	at      time.Time
	// hidden is until when nobody can see it, landed when it takes hold.
	hidden, landed time.Time
	// fails: it never takes hold; from landed on its status is failed.
	fails bool
	doc   any
	// terms is what it can be listed by. Empty values are left out.
	terms []term
}

// term is one name and value that a list can be filtered by.
type term struct{ name, value string }

func insertObject(tx *sql.Tx, o *object) error {
	data, err := json.Marshal(o.doc)
	if err != nil {
		return err
	}
	return insertObjectData(tx, o, data)
}

func insertObjectData(tx *sql.Tx, o *object, data []byte) error {
	r, err := tx.Exec(`INSERT INTO objects (service, id, at, hidden_until, land_at, fails) VALUES (?, ?, ?, ?, ?, ?)`,
		o.service, o.id, micros(o.at), micros(o.hidden), micros(o.landed), o.fails)
	if err != nil {
		return err
	}
	seq, err := r.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO versions (object, begins, data) VALUES (?, ?, ?)`, seq, micros(o.at), string(data)); err != nil {
		return err
	}
	for _, t := range o.terms {
		if t.value == "" {
			continue
		}
		if _, err := tx.Exec(`INSERT INTO terms (service, name, value, object) VALUES (?, ?, ?, ?)`, o.service, t.name, t.value, seq); err != nil {
			return err
		}
	}
	return nil
}

// standing is an object as the next change finds it: with every change that was ever
// accepted, seen or not.
type standing struct {
	seq    int64
	landed time.Time
	failed bool
}

// loadObject reads the newest state into doc. It returns sql.ErrNoRows if there is none.
func loadObject(tx *sql.Tx, service, id string, doc any) (standing, error) {
	var st standing
	var landAt int64
	var data string
	err := tx.QueryRow(`SELECT o.seq, o.land_at, o.fails, v.data FROM objects o JOIN versions v ON v.object = o.seq
		WHERE o.service = ? AND o.id = ? ORDER BY v.seq DESC LIMIT 1`, service, id).Scan(&st.seq, &landAt, &st.failed, &data)
	if err != nil {
		return st, err
	}
	st.landed = instant(landAt)
	return st, json.Unmarshal([]byte(data), doc)
}

// changeObject adds a state that readers see from begins on.
func changeObject(tx *sql.Tx, seq int64, begins time.Time, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO versions (object, begins, data) VALUES (?, ?, ?)`, seq, micros(begins), string(data))
	return err
}

// queryer is what reads of objects need: a transaction or the readers' pool.
type queryer interface {
	QueryRow(query string, args ...any) *sql.Row
	Query(query string, args ...any) (*sql.Rows, error)
}

// visible selects objects as readers see them at ?1.
const visible = `SELECT CASE
		WHEN o.land_at > ?1 THEN json_set(v.data, '$.status', 'pending')
		WHEN o.fails THEN json_set(v.data, '$.status', 'failed')
		ELSE v.data END
	FROM objects o JOIN versions v ON v.seq = (
		SELECT w.seq FROM versions w WHERE w.object = o.seq AND w.begins <= ?1 ORDER BY w.seq DESC LIMIT 1)
	WHERE o.hidden_until <= ?1 `

// readObject returns one object as readers see it at the given time, or sql.ErrNoRows.
func readObject(q queryer, at time.Time, service, id string) (json.RawMessage, error) {
	var data string
	err := q.QueryRow(visible+`AND o.service = ?2 AND o.id = ?3`, micros(at), service, id).Scan(&data)
	return json.RawMessage(data), err
}

// page is one page of a list.
type page struct {
	Data    []json.RawMessage `json:"data"`
	HasMore bool              `json:"has_more"`
}

// listObjects returns the objects that have all the terms, oldest first, behind the
// object with the id after.
func listObjects(q queryer, at time.Time, service string, m Mode, terms []term, after string, limit int) (page, error) {
	query := visible + `AND +o.service = ?2 ` // the + makes the terms, not the service, drive the search
	args := []any{micros(at), service}
	bind := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	from := "o.land_at"
	if m.ShowsPending {
		from = "o.at"
	}
	query += `AND ` + from + ` <= ` + bind(micros(at.Add(-m.Lag)))
	for _, t := range terms {
		query += ` AND o.seq IN (SELECT object FROM terms WHERE service = ?2 AND name = ` + bind(t.name) + ` AND value = ` + bind(t.value) + `)`
	}
	if after != "" {
		var seq int64
		err := q.QueryRow(`SELECT seq FROM objects WHERE service = ? AND id = ?`, service, after).Scan(&seq)
		if errors.Is(err, sql.ErrNoRows) {
			return page{}, invalid("after", "no such object")
		}
		if err != nil {
			return page{}, err
		}
		query += ` AND o.seq > ` + bind(seq)
	}
	query += ` ORDER BY o.seq LIMIT ` + bind(limit+1)
	rows, err := q.Query(query, args...)
	list, err := collect(rows, err, func(d *json.RawMessage, scan func(...any) error) error {
		var text string
		err := scan(&text)
		*d = json.RawMessage(text)
		return err
	})
	if err != nil {
		return page{}, err
	}
	more := len(list) > limit
	return page{Data: list[:min(limit, len(list))], HasMore: more}, nil
}
