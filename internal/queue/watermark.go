package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"holdfast/zk"
)

// LongFrom is the number of names from which on listing the queue again is too expensive. In a longer
// queue, holders leave a watermark. In a shorter one, a holder that releases at once would wait longer for
// its look at the directory than the others need for their lists: with 300 in line, lists pass the lock on
// 1.3 times as often. With 1,000, a watermark is ahead on holdfast serve, and a list has 60 kB. Tests lower
// LongFrom.
var LongFrom = 512

// watermarkPrefix begins a watermark. A holder that came through a long queue leaves it in the data of
// the queue's directory, in the transaction that removes its node: the zxid of that node's creation.
// It proves that no node created at that zxid or earlier is in the queue, and that none will be: the
// holder had waited for all of them, and has not taken the read side. So a waiter can tell from a few
// bytes whether the node that it waits for is gone, where it would need the whole list. It is the zxid
// and not the number, because numbers wrap and the watermark may be old.
//
// Readers leave none, since they do not wait for the readers ahead of them. Neither do holders that
// lose the lock, nor other libraries. Then waiters list.
const watermarkPrefix = "holdfast: passed "

func watermark(czxid int64) []byte { return strconv.AppendInt([]byte(watermarkPrefix), czxid, 10) }

// readWatermark is 0 if there is none.
func readWatermark(data []byte) int64 {
	s, ok := strings.CutPrefix(string(data), watermarkPrefix)
	if !ok {
		return 0
	}
	czxid, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return czxid
}

// Unclaimed reports whether a directory's data may be written over by a lock of another kind: they are empty, a
// watermark, or a record (see supersede.go).
func Unclaimed(data []byte) bool {
	return len(data) == 0 || readWatermark(data) != 0 || readRecord(data) != nil
}

// A directory is what a holder finds in the node above the queue before it leaves a watermark.
type directory struct {
	version int32
	free    bool // its data may be written over
}

func (p *Place) sawList(length int) {
	if p.Queue.Grammar.Watermarks && length > LongFrom {
		p.long = true
	}
}

// sawDirectory notes how long the queue is, by the Stat of its directory.
func (p *Place) sawDirectory(dir zk.Stat) { p.sawList(int(dir.NumChildren)) }

// mayBeLong reports whether to ask for a watermark before the whole list. The queue may have been
// short when we joined and have grown since. A place that has waited for some time can afford a round
// trip to see.
func (p *Place) mayBeLong() bool {
	return p.Queue.Grammar.Watermarks && (p.long || time.Since(p.Joined()) > 100*time.Millisecond)
}

// PrepareWatermark makes Remove leave a watermark, if the queue is long. It reads the directory in the
// background. The version that it reads ensures that the watermark replaces another watermark, or
// nothing: other data may be somebody's.
func (p *Place) PrepareWatermark() {
	if !p.long || p.Shared {
		return
	}
	answer := make(chan directory, 1)
	p.watermark = answer
	go func() {
		data, stat, err := p.Session.Get(p.Session.Context(), p.Dir)
		answer <- directory{version: stat.Version, free: err == nil && Unclaimed(data) && readRecord(data) == nil}
	}()
}

// NoWatermark makes Remove leave no watermark: a reader may be in our place afterwards.
func (p *Place) NoWatermark() { p.watermark = nil }

// WatermarkOp is the operation that leaves a watermark, for a transaction that deletes our node. There is
// none if no watermark is to be left.
func (p *Place) WatermarkOp() []zk.Op {
	if p.watermark == nil {
		return nil
	}
	select {
	case dir := <-p.watermark:
		p.watermark <- dir // for the next attempt
		if dir.free {
			return []zk.Op{zk.SetOp(p.Dir, watermark(p.czxid), dir.version)}
		}
	default: // not read yet; do not wait for it
	}
	return nil
}

// delete deletes our node, and leaves a watermark in the same transaction if there is to be one.
func (p *Place) delete(ctx context.Context, version int32) error {
	if p.watermark == nil {
		return p.Session.Delete(ctx, p.Path(), version)
	}
	dir := <-p.watermark
	if dir.free {
		_, err := p.Session.Multi(ctx, zk.DeleteOp(p.Path(), version), zk.SetOp(p.Dir, watermark(p.czxid), dir.version))
		if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrConnectionLoss) || zk.SafeToRetry(err) {
			p.watermark <- dir // for the next attempt
			return err
		}
	}
	p.watermark = nil
	return p.Session.Delete(ctx, p.Path(), version)
}
