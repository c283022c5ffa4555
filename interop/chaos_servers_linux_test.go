package interop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/zkproto"
)

func (c *chaosRun) killServer(ctx context.Context, leader bool) (string, error) {
	i, err := c.victim(ctx, leader)
	if err != nil {
		return "", err
	}
	had := c.links(i)
	at := monotonic()
	if err := c.z.Kill(i); err != nil {
		return "", err
	}
	var effect string
	if leader {
		c.mu.Lock()
		c.leaders = append(c.leaders, at)
		c.mu.Unlock()
		effect, err = c.otherLeader(ctx, i)
	} else {
		effect = fmt.Sprintf("server %d is gone, and %d connections to it", i, had)
		err = until(ctx, "its connections break", func() bool { return c.links(i) == 0 })
	}
	return effect, errors.Join(err, c.z.Restart(ctx, i), c.whole(ctx))
}

func (c *chaosRun) killAll(ctx context.Context) (string, error) {
	had := 0
	for i := range 3 {
		had += c.links(i)
		if err := c.z.Kill(i); err != nil {
			return "", err
		}
	}
	err := until(ctx, "all connections break", func() bool { return c.links(0)+c.links(1)+c.links(2) == 0 })
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { errs[i] = c.z.Restart(ctx, i) })
	}
	wg.Wait()
	errs[3] = err
	return fmt.Sprintf("%d connections broken", had), errors.Join(append(errs, c.whole(ctx))...)
}

// roll restarts one server after the other. The leader comes back when another server leads.
// Otherwise it could be elected again, and the restart would have no visible effect.
func (c *chaosRun) roll(ctx context.Context) (string, error) {
	leader, err := c.z.AwaitLeader(ctx)
	if err != nil {
		return "", err
	}
	leaders := fmt.Sprint("leaders ", leader)
	for i := range 3 {
		if i == leader {
			if err := c.z.Kill(i); err != nil {
				return "", err
			}
			if _, err := c.otherLeader(ctx, i); err != nil {
				return "", errors.Join(err, c.z.Restart(ctx, i))
			}
		}
		if err := c.z.Restart(ctx, i); err != nil {
			return "", err
		}
		if leader, err = c.z.AwaitLeader(ctx); err != nil {
			return "", err
		}
		leaders += fmt.Sprint(", ", leader)
	}
	return leaders, nil
}

func (c *chaosRun) stopServer(ctx context.Context, leader bool) (string, error) {
	i, err := c.victim(ctx, leader)
	if err != nil {
		return "", err
	}
	had := c.links(i)
	if err := c.z.Stop(i); err != nil {
		return "", err
	}
	var effect string
	if leader {
		effect, err = c.otherLeader(ctx, i)
	} else {
		effect = fmt.Sprintf("%d connections to server %d fell silent and were given up", had, i)
		err = until(ctx, "clients give it up", func() bool { return c.links(i) == 0 })
	}
	return effect, errors.Join(err, c.z.Continue(i), c.z.AwaitReady(ctx, i), c.whole(ctx))
}

func (c *chaosRun) stopAll(ctx context.Context) (string, error) {
	for i := range 3 {
		if err := c.z.Stop(i); err != nil {
			return "", err
		}
	}
	had := c.links(0) + c.links(1) + c.links(2)
	err := until(ctx, "clients give them up", func() bool { return c.links(0)+c.links(1)+c.links(2) == 0 })
	for i := range 3 {
		err = errors.Join(err, c.z.Continue(i))
	}
	return fmt.Sprintf("%d connections fell silent and were given up", had), errors.Join(err, c.whole(ctx))
}

func (c *chaosRun) partServer(ctx context.Context, leader bool, part func(int)) (string, error) {
	i, err := c.victim(ctx, leader)
	if err != nil {
		return "", err
	}
	part(i)
	var effect string
	if leader {
		effect, err = c.otherLeader(ctx, i)
	} else {
		effect = fmt.Sprintf("server %d serves no more", i)
		err = until(ctx, effect, func() bool { _, err := c.z.Mode(ctx, i); return err != nil })
	}
	c.z.Heal(i)
	return effect, errors.Join(err, c.whole(ctx))
}

// cutServing cuts a follower off, and checks that it answers a read without its leader.
func (c *chaosRun) cutServing(ctx context.Context) (string, error) {
	i, err := c.victim(ctx, false)
	if err != nil {
		return "", err
	}
	conn, err := dialRaw(ctx, c.z.Addrs()[i])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	c.z.Cut(i)
	began := time.Now()
	var served time.Duration
	for {
		if _, _, err := conn.call(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"}); err != nil {
			break // it has noticed the cut, and drops its clients
		}
		served = time.Since(began)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			err = errors.New("it serves without a leader for ever")
		}
		if err != nil {
			break
		}
	}
	if served == 0 {
		err = errors.New("it did not serve")
	}
	c.z.Heal(i)
	return fmt.Sprintf("server %d served for %v without its leader", i, served.Round(time.Millisecond)), errors.Join(err, c.whole(ctx))
}
