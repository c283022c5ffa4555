package daemon

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryMetrics adds the metrics of memory and network that only Linux reports.
func memoryMetrics(e *Exposition) {
	var virtual, resident int64 // pages
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if _, err := fmt.Sscan(string(text), &virtual, &resident); err == nil {
			page := int64(os.Getpagesize())
			e.single("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", float64(virtual*page))
			e.single("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", float64(resident*page))
		}
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil {
		e.single("process_virtual_memory_max_bytes", "gauge", "Maximum amount of virtual memory available in bytes.", float64(limit.Cur))
	}
	if text, err := os.ReadFile("/proc/self/net/netstat"); err == nil {
		received, sent := octets(string(text))
		e.single("process_network_receive_bytes_total", "counter", "Number of bytes received by the process over the network.", received)
		e.single("process_network_transmit_bytes_total", "counter", "Number of bytes sent by the process over the network.", sent)
	}
}

// octets finds the bytes that the network namespace has received and sent in a netstat file. It
// has a line of names and a line of values for each protocol.
func octets(netstat string) (received, sent float64) {
	var names []string
	for line := range strings.Lines(netstat) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "IpExt:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			switch names[i] {
			case "InOctets":
				_, _ = fmt.Sscan(fields[i], &received)
			case "OutOctets":
				_, _ = fmt.Sscan(fields[i], &sent)
			}
		}
	}
	return received, sent
}
