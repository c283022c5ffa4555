package zkserver

import "time"

// Stats has the counters of a server. They count since Open unless they say otherwise. A restarted
// server begins at zero.
type Stats struct {
	Uptime   time.Duration // since Open
	LastZxid int64         // the last one given out

	Connections         int   // open now, including those without a session yet
	ConnectionsAccepted int64 // without those that were refused at once
	ConnectionsMost     int   // the limit in force: of the Config, of the open files and of the memory

	// Refused says how often clients met each limit; all limits are in it. The log names one
	// of the clients, at most once in ten seconds and limit.
	Refused map[Limit]int64

	Sessions        int   // now, including those without a connection
	SessionsCreated int64 // without resumed ones
	SessionsExpired int64 // for silence, or by ExpireSession
	SessionsDied    int64 // because the processes that they belonged to had ended

	LoginsRefused int64 // wrong passwords, and requests without a required login

	Znodes     int   // now, including those that every server has
	Ephemerals int   // now
	Watches    int   // now
	DataBytes  int64 // of all paths and data now, without the memory around them

	RequestsReceived  int64 // including pings and connects
	RequestsAnswered  int64 // requests whose answers were handed to their connections
	RequestsCommitted int64 // of these, requests whose answers waited for a commit
	RequestsWaited    int64 // requests that waited for a later turn, because their connection asks for much
	TurnsWaited       int64 // the batches that they waited for, together
	Notifications     int64 // sent to watchers
	Outstanding       int   // received and not answered, now

	BytesReceived int64 // in whole requests
	BytesSent     int64 // taken by the network
	BytesWaiting  int64 // now: answers that clients have not taken, or that wait for the disk

	// JournalBytes and SnapshotBytes are the bytes that a start reads, as of the last commit; 0 for a
	// store in memory. The files may have more room reserved.
	JournalBytes, SnapshotBytes int64

	// SnapshotFailures says how often the store could not make a snapshot or its next journal. It tries again.
	SnapshotFailures int64

	// Commit is how long the store took to make batches of writes durable. Its Count is
	// the number of commits.
	Commit Histogram

	// Latency is the time of a request in this server: from its last byte read until its
	// answer is handed to the connection's writer, including the wait for the disk.
	Latency Histogram
}

// Stats may be called at any time, also after the server has stopped. It waits for
// nothing, not even the disk. Its numbers are not all from the same instant.
func (s *Server) Stats() Stats {
	n := &s.counters
	st := Stats{
		Uptime:   time.Since(s.opened),
		LastZxid: n.zxid.Load(),

		Connections:     int(n.connections.Load()),
		ConnectionsMost: int(n.mostConnections.Load()),
		Refused:         make(map[Limit]int64, len(allLimits)),
		Sessions:        int(n.sessions.Load()),
		SessionsCreated: n.created.Load(),
		SessionsExpired: n.expired.Load(),
		SessionsDied:    n.died.Load(),
		LoginsRefused:   n.loginsRefused.Load(),

		Znodes:     int(n.znodes.Load()),
		Ephemerals: int(n.ephemerals.Load()),
		Watches:    int(n.watches.Load()),
		DataBytes:  n.dataBytes.Load(),

		RequestsReceived:  n.received.Load(),
		RequestsAnswered:  n.answered.Load(),
		RequestsCommitted: n.committed.Load(), RequestsWaited: n.waited.Load(), TurnsWaited: n.turns.Load(),
		Notifications: n.notifications.Load(),
		Outstanding:   int(n.outstanding.Load()),

		BytesReceived: n.bytesReceived.Load(),
		BytesSent:     n.bytesSent.Load(),
		BytesWaiting:  n.bytesWaiting.Load(),

		JournalBytes:  n.journal.Load(),
		SnapshotBytes: n.snapshot.Load(),

		SnapshotFailures: n.snapshotFailures.Load(),

		Commit:  n.commit.read(),
		Latency: n.latency.read(),
	}
	for i, l := range allLimits {
		st.Refused[l] = n.refused[i].count.Load()
	}
	s.mu.Lock()
	st.ConnectionsAccepted = s.lastConn
	s.mu.Unlock()
	return st
}
