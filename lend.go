package holdfast

import (
	"context"
	"fmt"

	"holdfast/internal/lend"
	"holdfast/internal/queue"
)

// The functions of internal/lend, for once, shards and reserve.
func init() {
	lend.Part = func(outer string, kind queue.Kind) any {
		return Option(func(o *options) { o.part = &partOf{outer, kind} })
	}
	lend.Read = func(kind string, opts any) lend.Settings {
		o := newOptions(kind, opts.([]Option))
		return lend.Settings{Owner: o.note.Owner, ACL: o.acl, Err: o.refused}
	}
	lend.WithinSession = func(session int64) any {
		return Option(func(o *options) {
			o.note.Within = session
			o.set(setWithin, session != 0)
		})
	}
	lend.WithProcess = func(group []byte) any {
		return Option(func(o *options) {
			o.note.Process = group
			o.set(setProcess, len(group) > 0)
		})
	}
	lend.WithDetection = func(detect func(context.Context, lend.Wait) error) any {
		return Option(func(o *options) {
			o.note.Yields, o.detect = true, detect
			o.set(setDetection, true)
		})
	}
	lend.Places = func(hold any) (all []*queue.Place) {
		for _, t := range hold.(*Hold).tenures {
			all = append(all, t.Places...)
		}
		return all
	}
	lend.Tenures = func(hold any) (all []lend.Tenure) {
		h := hold.(*Hold)
		if h == nil {
			return nil
		}
		for _, t := range h.tenures {
			all = append(all, lend.Tenure{Place: t.Places[0], Owner: lockOf(t).note.Owner, Rewrite: t.Rewriting, Gone: func() error {
				t.Lose(queue.ErrGone)
				return fmt.Errorf("%w: %w", ErrLost, queue.ErrGone)
			}})
		}
		return all
	}
	lend.Ensure = ensure
	lend.LayoutName = func(layouts any) (string, error) {
		g, err := grammarOf(layouts.([]Layout))
		if err != nil {
			return "", err
		}
		return g.Name, nil
	}
	lend.Meets = func(hold any, d lend.Demand) error {
		return hold.(*Hold).meets(demand{by: d.By, client: d.Client, one: d.One, queued: d.Queued})
	}
	lend.OneArrival = func() any {
		a := new(queue.Arrival)
		return Option(func(o *options) { o.lent = a })
	}
	lend.Yield = func(ctx context.Context, hold any) error {
		h := hold.(*Hold)
		for _, t := range h.tenures {
			if err := t.Places[0].Yield(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	lend.LetGo = func(ctx context.Context, hold any) { hold.(*Hold).letGo(ctx) }
}

// A partOf says which lock a queue is a part of.
type partOf struct {
	outer string
	kind  queue.Kind // that its places look for other kinds of there; "": they do not look
}
