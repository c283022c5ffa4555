package chaos

import "fmt"

// An Update is one write of a value that a lock guards: its writer has read what an earlier
// update wrote, and then has written what names this one.
type Update struct {
	ID           int64 // of this update, not 0; the value names it
	Read         int64 // the ID that its writer found; 0: what was there in the beginning
	Acknowledged bool  // it is known to have happened; otherwise it may have
}

// LostUpdates returns the acknowledged updates that are not in the value that was found in the
// end, which names the last one. An update that may have happened cannot stand in for one that
// was lost, as it could in a count. An error says that the value names an update that nobody has
// tried, or one that follows itself.
func LostUpdates(updates []Update, last int64) (lost []Update, err error) {
	byID := make(map[int64]Update, len(updates))
	for _, u := range updates {
		byID[u.ID] = u
	}
	kept := make(map[int64]bool)
	for id := last; id != 0; id = byID[id].Read {
		if _, ok := byID[id]; !ok {
			return nil, fmt.Errorf("the value has update %d, which nobody has tried", id)
		}
		if kept[id] {
			return nil, fmt.Errorf("update %d follows itself", id)
		}
		kept[id] = true
	}
	for _, u := range updates {
		if u.Acknowledged && !kept[u.ID] {
			lost = append(lost, u)
		}
	}
	return lost, nil
}
