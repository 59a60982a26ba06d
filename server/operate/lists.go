package operate

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// ListParams are the parameters of every list.
type ListParams struct {
	Q      string `query:"q" doc:"Filter: terms such as status:failed; a row must match all of them; - negates, * matches, quotes group, commas separate alternatives (status:queued,running). Errors are found by any part (error:\"rate limit\"), of dead letters and of runs that wait for a retry, times by a day or an RFC 3339 time (created:2026-11-01), a comparison (created:>2026-11-01) or a range (created:2026-11-01..2026-11-07). Runs: id, status, agent, owner, thread, parent, class, reason, error, group, key, mode, via, created, finished, delivery (yes or no), metadata.K. Threads: id, agent, owner, status, updated. Tickets: id, state, kind, agent, thread, run."`
	Cursor string `query:"cursor" doc:"The next of the previous page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Items of the page at most."`
}

const (
	// scanPage is how many rows one view reads.
	scanPage = 500
	// maxScannedRows bounds the rows that one request scans. A page that ends at the bound is short,
	// has a next and says how far it looked.
	maxScannedRows = 2_000
	// scanBytes bounds the size of the rows that one view reads, as the store counts it.
	scanBytes = 2 * mailroom.MaxPage
)

// pager has the parts that all lists need to read a page.
type pager struct {
	ledger  request.Viewer
	cursors cipher.AEAD
	maxPage int // bytes; a larger first item is returned alone
}

// ListHandlers serve the lists of threads, runs and tickets, and counts of runs.
type ListHandlers struct {
	find  request.Lookup
	pages pager
}

// list reads rows R and converts them to W, as the package comment says.
type list[R, W any] struct {
	name string // bound into cursors, so that a cursor of another list is refused
	key  func(R) int64
	// thread returns the id of the thread that a row belongs to.
	thread func(R) string
	// fetch returns rows of a group with a key below from; 0 means all.
	fetch func(rd store.Reader, in scope, from int64, limit int) ([]R, error)
	// ids, unless nil, reads the rows that the filter allows by the beginning of their ids, instead of fetch, if they
	// are few.
	ids *idRange[R]
	// named is set if the filter names what fetch reads, so that there is one group.
	named bool
	// match, unless nil, reports which rows belong to the list. of is the row's thread.
	match func(rd store.Reader, row R, of *mailroom.Thread) (bool, error)
	show  func(rd store.Reader, rows []R) ([]W, error)
	// created, unless nil, returns the time that the order of the list follows.
	created func(R) time.Time
	window  window // keys that rows of the list can have
}

// page reads until it has p.Limit rows and knows whether more rows follow.
func (l list[R, W]) page(ctx context.Context, pages pager, p ListParams) (*body[api.Page[W]], error) {
	who := request.CallerOf(ctx)
	from, err := l.parseCursor(pages, who, p.Cursor)
	if err != nil {
		return nil, err
	}
	out := api.Page[W]{Items: []W{}}
	var lookedTo *time.Time
	for scanned, room := 0, pages.maxPage; ; {
		part, err := l.scan(ctx, pages, from, p.Limit-len(out.Items), room)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, part.shown...)
		scanned += part.scanned
		room -= part.bytes
		from.key = part.last
		if part.end && part.next != "" {
			from, part.end = place{group: part.next}, false
			scanned += groupThreads
		}
		lookedTo = cmp.Or(part.lookedTo, lookedTo)
		full := part.more || scanned >= maxScannedRows
		if full && !part.end {
			c := l.cursor(pages, who, from)
			out.Next = &c
			if !part.more {
				out.LookedTo = lookedTo
			}
		}
		if full || part.end {
			return &body[api.Page[W]]{out}, nil
		}
	}
}

// part is the result of one view.
type part[W any] struct {
	shown   []W
	bytes   int // of shown as JSON; exceeds the room only for a first item that is larger than a page
	scanned int
	last    int64 // key of the last row that was shown or skipped
	more    bool  // a row that matches follows last
	end     bool  // the group of last has no further row
	next    string
	// lookedTo is when the last of the scanned rows that the caller may see was created, nil without
	// one. The time of another row would reveal to the caller how many rows others have.
	lookedTo *time.Time
}

// scan reads one batch of rows and shows at most want of those that match, within room bytes.
func (l list[R, W]) scan(ctx context.Context, pages pager, at place, want, room int) (part[W], error) {
	out := part[W]{last: at.key}
	who := request.CallerOf(ctx)
	size := scanPage
	if l.match == nil { // the caller sees nearly all rows
		size = want + 1
	}
	from := at.key
	if from == 0 {
		from = l.window.start(false)
	}
	err := pages.ledger.View(ctx, func(rd store.Reader) error {
		in := scope{all: true}
		if !l.named {
			var err error
			if in, err = scopeOf(rd, who, at.group, groupThreads); err != nil {
				return err
			}
		}
		rows, err := l.read(rd, in, from, size)
		if err != nil {
			return err
		}
		out.next = in.next
		out.end = len(rows) == 0 // a short batch may have hit scanBytes
		if i := slices.IndexFunc(rows, func(row R) bool { return l.key(row) < l.window.low }); i >= 0 {
			rows, out.end = rows[:i], true
		}
		out.scanned = len(rows)
		visible, err := l.visible(rd, who, rows)
		if err != nil {
			return err
		}
		var selected []R
		for _, row := range rows {
			of := visible[l.thread(row)]
			good := of != nil
			if good && l.match != nil {
				if good, err = l.match(rd, row, of); err != nil {
					return err
				}
			}
			if good && len(selected) == want {
				out.more, out.end = true, false
				break
			}
			if good {
				selected = append(selected, row)
			}
			out.last = l.key(row)
			if l.created != nil && of != nil {
				at := l.created(row)
				out.lookedTo = &at
			}
		}
		if out.shown, err = l.show(rd, selected); err != nil {
			return err
		}
		fits, err := out.fit(room, pages.maxPage)
		if fits < len(selected) {
			out.more, out.end, out.last = true, false, at.key
			if fits > 0 {
				out.last = l.key(selected[fits-1])
			}
		}
		return err
	})
	return out, err
}

// read returns rows with a key below from; 0 means all.
func (l list[R, W]) read(rd store.Reader, in scope, from int64, limit int) ([]R, error) {
	if l.ids != nil {
		if rows, ok, err := l.ids.rows(rd, l.key, from, limit); ok || err != nil {
			return rows, err
		}
	}
	return l.fetch(rd, in, from, limit)
}

// fit drops the items that exceed room, and returns how many are left. An empty page keeps at least
// one, so that every page makes progress.
func (p *part[W]) fit(room, page int) (n int, err error) {
	for n = range p.shown {
		raw, err := json.Marshal(p.shown[n])
		if err != nil {
			return n, err
		}
		if p.bytes+len(raw) > room && (n > 0 || room < page) {
			p.shown = p.shown[:n]
			return n, nil
		}
		p.bytes += len(raw)
	}
	return len(p.shown), nil
}

// visible returns, by id, the threads of the rows that are visible to who.
func (l list[R, W]) visible(rd store.Reader, who *auth.Token, rows []R) (map[string]*mailroom.Thread, error) {
	var threads []string
	for _, row := range rows {
		threads = append(threads, l.thread(row))
	}
	return request.VisibleThreads(rd, who, threads)
}

// placeVersion begins the places that have a group. The places of earlier versions are a varint,
// which never begins so.
const placeVersion = 0

// cursor returns where a list continues, encrypted for its token. A key has a fixed length in it,
// because the length of a cursor would reveal something of the key too.
func (l list[R, W]) cursor(pages pager, who *auth.Token, at place) string {
	plain := binary.BigEndian.AppendUint64([]byte{placeVersion}, uint64(at.key))
	sealed := pages.cursors.Seal(nil, nil, append(plain, at.group...), l.cursorContext(who))
	return base64.RawURLEncoding.EncodeToString(sealed)
}

func (l list[R, W]) parseCursor(pages pager, who *auth.Token, cursor string) (at place, err error) {
	if cursor == "" {
		return place{}, nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		var plain []byte
		if plain, err = pages.cursors.Open(nil, nil, sealed, l.cursorContext(who)); err == nil {
			at = readPlace(plain)
		}
	}
	if err != nil || at.key < 0 || at == (place{}) {
		return place{}, request.Invalid("query.cursor", "is not a cursor of this list: use next of its previous page", cursor)
	}
	return at, nil
}

func readPlace(plain []byte) (at place) {
	if len(plain) >= 9 && plain[0] == placeVersion {
		return place{string(plain[9:]), int64(binary.BigEndian.Uint64(plain[1:9]))}
	}
	at.key, _ = binary.Varint(plain)
	return at
}

func (l list[R, W]) cursorContext(who *auth.Token) []byte {
	return []byte(l.name + "\x00" + who.Name)
}

// newCursorCipher makes the cipher for cursors. Cursors stay valid across restarts while the
// operator's secret stays the same.
func newCursorCipher(secret string) cipher.AEAD {
	key := sha256.Sum256([]byte("cursors\x00" + secret))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("seal cursors: " + err.Error()) // cannot happen: the key has 32 bytes
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("seal cursors: " + err.Error()) // cannot happen: AES has the block size of GCM
	}
	return sealer
}
