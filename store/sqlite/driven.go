package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// driven is a connection of a driver for database/sql.
type driven struct{ conn driver.Conn }

// drivenStatement is the interface that a driver's statements must have.
type drivenStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func (d driven) close() error { return d.conn.Close() }

func (d driven) dataVersion() (uint32, bool) { return 0, false }

func (d driven) prepare(text string) (statement, error) {
	prepared, err := d.conn.Prepare(text)
	if err != nil {
		return nil, err
	}
	stmt, ok := prepared.(drivenStatement)
	if !ok {
		return nil, fmt.Errorf("%T does not accept a context", prepared)
	}
	return drivenStmt{stmt}, nil
}

// drivenStmt is a statement of a driven.
type drivenStmt struct{ stmt drivenStatement }

func (d drivenStmt) close() error { return d.stmt.Close() }

func (d drivenStmt) exec(ctx context.Context, args []value) (changes, error) {
	res, err := d.stmt.ExecContext(ctx, named(args))
	if err != nil {
		return changes{}, err
	}
	rows, err := res.RowsAffected()
	if err != nil {
		return changes{}, err
	}
	key, err := res.LastInsertId()
	return changes{rows: rows, lastKey: key}, err
}

func (d drivenStmt) query(
	ctx context.Context, args []value, each func(row) (more bool, err error),
) (err error) {
	rows, err := d.stmt.QueryContext(ctx, named(args))
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	current := make(values, len(rows.Columns()))
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := rows.Next(current); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if more, err := each(current); err != nil || !more {
			return err
		}
	}
}

// named returns args in the driver's form.
func named(args []value) []driver.NamedValue {
	named := make([]driver.NamedValue, len(args))
	for i := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: args[i].ofDriver()}
	}
	return named
}
