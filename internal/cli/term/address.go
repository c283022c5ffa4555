package term

import (
	"net"
	"strconv"
	"strings"
)

// LocalAddress returns the address to listen at that text of a flag stands for. A port alone is one of 127.0.0.1.
func LocalAddress(flag, hint, text string) (string, error) {
	host, port := "", strings.TrimPrefix(text, ":")
	if strings.Contains(port, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", Usage(hint, "%s %q is not an address", flag, Cut(text, 80))
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", Usage(hint, "%s %q: %q is not a port", flag, Cut(text, 80), Cut(port, 40))
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Reachable reports whether other machines can connect to a TCP address at which this one listens.
func Reachable(addr string) (bool, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	return err == nil && (tcp.IP == nil || !tcp.IP.IsLoopback()), err
}
