package dashboard

import (
	"net"
	"testing"
)

// The page's URL has a host that the page accepts.
func TestAddressIsOfUse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ip    string
		hosts []string
		want  string
	}{
		{"127.0.0.1", []string{"locks.example.com"}, "127.0.0.1:7480"},
		{"192.0.2.1", nil, "192.0.2.1:7480"},
		{"0.0.0.0", nil, "127.0.0.1:7480"},
		{"::", nil, "127.0.0.1:7480"},
		{"0.0.0.0", []string{"locks.example.com", "b"}, "locks.example.com:7480"},
		{"::", []string{"locks.example.com"}, "locks.example.com:7480"},
	} {
		if got := (&flags{hosts: tt.hosts}).address(&net.TCPAddr{IP: net.ParseIP(tt.ip), Port: 7480}); got != tt.want {
			t.Errorf("%s, %v: %s; want %s", tt.ip, tt.hosts, got, tt.want)
		}
	}
}
