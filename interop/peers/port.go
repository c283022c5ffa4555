//go:build unix

package peers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePorts picks n TCP ports of 127.0.0.1 on which nobody listens.
//
// They are not the ports that listening on :0 gives. Those come from the range
// that the kernel also uses for outgoing connections, so while a killed peer is
// down its port can be taken by any client, even by the client that dials it:
// TCP then connects the socket to itself. A peer that is to be started again on
// its port needs one below that range, and above those that go-zookeeper's own tests
// pick, without asking whether they are free.
func freePorts(n int) ([]int, error) {
	const low, high = 17000, 32000
	ports := make([]int, 0, n)
	for range 1000 {
		port := low + rand.IntN(high-low)
		// All stay open until the last is found, or one could be picked twice.
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		defer l.Close()
		ports = append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("peers: no %d free ports between %d and %d", n, low, high)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
