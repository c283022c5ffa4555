package queue

import (
	"fmt"
	"testing"
)

// A record does not grow without a bound: it drops the sorts whose last arrival is the oldest.
func TestARecordHasABound(t *testing.T) {
	var data []byte
	for i := range 3 * mostSorts {
		var err error
		if data, err = writeRecord(readRecord(data), fmt.Sprint("sort ", i), over{Token: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := writeRecord(readRecord(data), "late", over{Token: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := readRecord(data)
	if len(r) != mostSorts || r["late"].Token != 1 {
		t.Errorf("%d sorts; want %d, with the one that was written last", len(r), mostSorts)
	}
	for i := range mostSorts - 1 {
		if _, ok := r[fmt.Sprint("sort ", 3*mostSorts-1-i)]; !ok {
			t.Errorf("one of the newest is missing: %d", 3*mostSorts-1-i)
		}
	}
}
