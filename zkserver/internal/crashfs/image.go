package crashfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Killed returns the files that the next process finds if this one ends after the first
// cut changes.
func (f *FS) Killed(cut int) map[string][]byte { return f.image(cut, nil) }

// Image returns files that the disk may have if power fails after the first cut changes. It has all
// synced bytes. Of the other bytes it has random sectors or pages, in no order, and
// of the changes of names a random part. In place of a lost page there are the bytes from before, or
// random bytes.
func (f *FS) Image(cut int, rng *rand.Rand) map[string][]byte { return f.image(cut, rng) }

func (f *FS) image(cut int, rng *rand.Rand) map[string][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	record := f.record[:cut]
	d := newDamage(rng)
	durable := make(map[int]int) // by inode
	durableNames := 0
	for _, c := range record {
		switch c.kind {
		case syncData:
			durable[c.inode] = c.from
		case syncNames:
			durableNames = c.from
		}
	}
	// The names of the initial files are durable; their inodes were counted in order.
	names, files := make(map[string]int), make(map[int][]byte)
	for i, name := range slices.Sorted(maps.Keys(f.base)) {
		names[name] = i + 1
		files[i+1] = slices.Clone(f.base[name])
	}
	for i, c := range record {
		switch c.kind {
		case create:
			if d.keepsName(i < durableNames) {
				names[c.name] = c.inode
			}
		case remove:
			if d.keepsName(i < durableNames) {
				delete(names, c.name)
			}
		case rename:
			if d.keepsName(i < durableNames) {
				if names[c.name] == c.inode {
					delete(names, c.name)
				}
				names[c.to] = c.inode
			}
		}
	}
	alive := make(map[int]bool)
	for _, id := range names {
		alive[id] = true
	}
	for i, c := range record {
		if !alive[c.inode] {
			continue
		}
		switch c.kind {
		case write:
			files[c.inode] = d.write(files[c.inode], c, i < durable[c.inode] && !c.lost)
		case resize:
			if i < durable[c.inode] || d.keepsSize() {
				files[c.inode] = grow(files[c.inode], c.size, nil)[:c.size]
			}
		}
	}
	image := make(map[string][]byte)
	for name, id := range names {
		image[name] = files[id]
	}
	return image
}

// damage decides what a disk keeps of the changes that were not synced.
type damage struct {
	rng                 *rand.Rand // nil: the disk loses nothing
	keepData, keepNames float64
	unit                int64
	inOrder             bool // a journal keeps names in order
	ended               bool // a name was lost in order
	nonsense            *rand.Rand
	sizeFirst           bool // the new size is there, the data is not
}

func newDamage(rng *rand.Rand) *damage {
	if rng == nil {
		return &damage{}
	}
	chances := []float64{0, 0, 0.1, 0.5, 0.9, 1, 1}
	d := &damage{
		rng: rng, keepData: chances[rng.IntN(len(chances))], keepNames: chances[rng.IntN(len(chances))],
		unit: []int64{512, 4096}[rng.IntN(2)], inOrder: rng.IntN(2) == 0, sizeFirst: rng.IntN(2) == 0,
	}
	if rng.IntN(8) == 0 {
		d.nonsense = rng
	}
	return d
}

func (d *damage) keepsName(durable bool) bool {
	if d.rng == nil || durable {
		return true
	}
	lost := d.rng.Float64() >= d.keepNames
	d.ended = d.ended || lost && d.inOrder
	return !lost && !d.ended
}

func (d *damage) keepsSize() bool { return d.rng == nil || d.rng.Float64() < d.keepData }

func (d *damage) write(b []byte, c change, durable bool) []byte {
	end := c.off + int64(len(c.data))
	if durable || d.rng == nil {
		b = grow(b, end, nil)
		copy(b[c.off:], c.data)
		return b
	}
	if d.sizeFirst {
		b = grow(b, end, d.nonsense)
	}
	for at := c.off; at < end; {
		next := min(end, (at/d.unit+1)*d.unit)
		if d.rng.Float64() < d.keepData {
			b = grow(b, next, d.nonsense)
			copy(b[at:next], c.data[at-c.off:])
		}
		at = next
	}
	return b
}

// grow extends b to size with zeros, or with random bytes from rng.
func grow(b []byte, size int64, rng *rand.Rand) []byte {
	if have := int64(len(b)); size > have {
		b = append(b, make([]byte, size-have)...)
		for i := have; rng != nil && i < size; i++ {
			b[i] = byte(rng.Uint32())
		}
	}
	return b
}

// Damages calls each with files in which one file is damaged: every single bit is flipped once,
// and the file is cut off after every byte, or missing.
func Damages(files map[string][]byte, each func(what string, files map[string][]byte)) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		with := func(d []byte) map[string][]byte {
			damaged := maps.Clone(files)
			damaged[name] = d
			return damaged
		}
		for i := range data {
			for bit := range 8 {
				d := slices.Clone(data)
				d[i] ^= 1 << bit
				each(fmt.Sprintf("%s: bit %d of byte %d of %d flipped", name, bit, i, len(data)), with(d))
			}
			each(fmt.Sprintf("%s: cut off behind %d bytes of %d", name, i, len(data)), with(data[:i:i]))
		}
		missing := maps.Clone(files)
		delete(missing, name)
		each(name+": missing", missing)
	}
}
