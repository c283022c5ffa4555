package lockwatch

import (
	"context"
	"errors"
	"net"
	"sync"
)

// A cable is the network of one client. It can be cut.
type cable struct {
	mu    sync.Mutex // guards the fields below
	out   bool
	conns []net.Conn
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// through returns a dialer whose connections are of the cable.
func (c *cable) through(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.mu.Lock()
		out := c.out
		c.mu.Unlock()
		if out {
			return nil, errors.New("the cable is cut")
		}
		conn, err := dial(ctx, network, addr)
		if err == nil {
			c.mu.Lock()
			c.conns = append(c.conns, conn)
			c.mu.Unlock()
		}
		return conn, err
	}
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = true
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = false
}
